"""From text to a data directory, in as many passes over the text as it takes to hold none of it in memory."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import IO, Final

from lite_nlp.core.errors import DataError
from lite_nlp.core.files import atomic_directory
from lite_nlp.data.holdout import Assignment, SplitName, SplitRule
from lite_nlp.data.pairs.directory import (
    BAD_LINES_FILE,
    INFO_FILE,
    SPLITS,
    TOKENIZER_FILE,
    DataInfo,
    Languages,
    PairTask,
    SkippedLines,
    SplitInfo,
    TokenizerInfo,
)
from lite_nlp.data.pairs.readers import BadLine, OnBadLine, PairSource, ignore_bad_line
from lite_nlp.data.pairs.storage import write_split
from lite_nlp.data.tokenizer import Normalization, Tokenizer

__all__ = ["Corpus", "OnProgress", "PrepareOptions", "Tally", "VocabularyOptions", "no_progress", "prepare_data"]

#: Called with the stage, pairs done in it, and pairs in all where that is known.
OnProgress = Callable[[str, int, int | None], None]

#: Line numbers kept in data.json for each reason; bad_lines.jsonl has all.
_FIRST_LINES: Final = 10

_PROGRESS_PAIRS: Final = 1_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Corpus:
    """Where the sentence pairs come from.

    Attributes:
        splits: For each split, the texts it is made of, one after the other; ``train`` must be there.
        rule: How to take other splits out of ``train``; None to take none.
        task: What the pairs are for.
    """

    splits: Mapping[SplitName, Sequence[PairSource]]
    rule: SplitRule | None = None
    task: PairTask = "translation"


@dataclass(frozen=True, kw_only=True, slots=True)
class PrepareOptions:
    """How to prepare a corpus.

    Attributes:
        src_lang: Code of the source language.
        tgt_lang: Code of the target language.
        vocab_size: Tokens of the joint vocabulary.
        lowercase: Whether the tokenizer lowercases.
        normalization: Unicode normalization form of the tokenizer.
        tokenizer: An existing tokenizer to use instead of training one; the three above then do not apply.
    """

    src_lang: str
    tgt_lang: str
    vocab_size: int = 8_000
    lowercase: bool = False
    normalization: Normalization = "none"
    tokenizer: Tokenizer | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class VocabularyOptions:
    """The vocabulary of data in one language.

    Attributes:
        vocab_size: Tokens of the vocabulary.
        lowercase: Whether the tokenizer lowercases.
        normalization: Unicode normalization form of the tokenizer.
        tokenizer: An existing tokenizer to use instead of training one; the others then do not apply.
    """

    vocab_size: int = 8_000
    lowercase: bool = False
    normalization: Normalization = "none"
    tokenizer: Tokenizer | None = None


def prepare_data(
    out: Path,
    corpus: Corpus,
    *,
    options: PrepareOptions,
    force: bool = False,
    on_progress: OnProgress | None = None,
) -> DataInfo:
    """Write the data directory ``out``, whole or not at all.

    Args:
        out: The directory to make.
        corpus: The text.
        options: Languages and vocabulary.
        force: Whether to replace an existing ``out``.
        on_progress: Told how far it is.

    Raises:
        DataError: If a source is missing or damaged, or a split has no usable pair.
        OutputError: If ``out`` exists and ``force`` is false, or the system refuses the write.
    """
    with (
        atomic_directory(out, force=force) as partial,
        (partial / BAD_LINES_FILE).open("w", encoding="utf-8") as bad_lines,
    ):
        work = _Preparation(corpus, on_progress or no_progress)
        tokenizer = options.tokenizer or work.train_tokenizer(options)
        splits = work.write_splits(partial, tokenizer, bad_lines)
        (partial / TOKENIZER_FILE).write_bytes(tokenizer.to_json())
        info = DataInfo(
            schema_version=1,
            task=corpus.task,
            languages=Languages(src=options.src_lang, tgt=options.tgt_lang),
            tokenizer=TokenizerInfo.of(tokenizer),
            splits=splits,
        )
        (partial / INFO_FILE).write_text(info.model_dump_json(indent=2) + "\n", encoding="utf-8")
    return info


class _Preparation:
    """The passes over one corpus."""

    def __init__(self, corpus: Corpus, report: OnProgress) -> None:
        self._corpus = corpus
        self._report = report
        self._train_pairs: int | None = None
        self._overlapping = 0
        self._assignment: Assignment | None = None
        if corpus.rule is not None:
            everything = _chain(corpus.splits["train"], ignore_bad_line)
            self._assignment = corpus.rule.fit(self._watch(everything, "splits", None))

    def train_tokenizer(self, options: PrepareOptions) -> Tokenizer:
        """Learn the vocabulary from the training pairs."""
        tally = Tally("train", None)
        pairs = self._watch(self._pairs("train", tally.add), "vocabulary", None)
        first = next(pairs, None)
        if first is None:
            raise _no_pairs("train", tally.counts)
        counter = count(1)
        self._train_pairs = next(counter)

        def lines() -> Iterator[str]:
            yield from first
            for pair in pairs:
                self._train_pairs = next(counter)
                yield from pair

        return Tokenizer.train(
            lines(),
            vocab_size=options.vocab_size,
            lowercase=options.lowercase,
            normalization=options.normalization,
        )

    def write_splits(self, out: Path, tokenizer: Tokenizer, bad_lines: IO[str]) -> dict[SplitName, SplitInfo]:
        """Tokenize and write every split there is."""
        taken = self._corpus.rule.splits if self._corpus.rule is not None else ()
        infos = {}
        for name in SPLITS:
            if name not in self._corpus.splits and name not in taken:
                continue
            # Splits taken out of the training text leave its bad lines to it, so that they are counted once.
            tally = Tally(name, bad_lines if name in self._corpus.splits else None)
            total = self._train_pairs if name == "train" else None
            pairs = self._watch(self._pairs(name, tally.add), name, total)
            rows, src_tokens, tgt_tokens = write_split(out / name, pairs, tokenizer)
            if not rows:
                raise _no_pairs(name, tally.counts)
            infos[name] = SplitInfo(
                pairs=rows,
                src_tokens=src_tokens,
                tgt_tokens=tgt_tokens,
                sources=[source.name for source in self._corpus.splits.get(name, self._corpus.splits["train"])],
                skipped=tally.skipped() if name in self._corpus.splits else {},
                overlapping=self._overlapping if name == "train" else 0,
            )
        return infos

    def _pairs(self, name: SplitName, on_bad: OnBadLine) -> Iterator[tuple[str, str]]:
        """The pairs of one split."""
        own = name in self._corpus.splits
        pairs = _chain(self._corpus.splits[name if own else "train"], on_bad)
        if self._assignment is None or (own and name != "train"):
            yield from pairs
            return
        overlapping = 0
        for index, (src, tgt) in enumerate(pairs):
            split = self._assignment.split_of(index, src, tgt)
            overlapping += split is None
            if split == name:
                yield src, tgt
        self._overlapping = overlapping

    def _watch(self, pairs: Iterator[tuple[str, str]], stage: str, total: int | None) -> Iterator[tuple[str, str]]:
        """Pass ``pairs`` on and report how many there were."""
        done = 0
        for done, pair in enumerate(pairs, start=1):
            yield pair
            if done % _PROGRESS_PAIRS == 0:
                self._report(stage, done, total)
        self._report(stage, done, done)


class Tally:
    """Counts the bad lines of a split and writes each to the report file, if there is one.

    Args:
        split: Name of the split.
        file: The report; None to count only.
    """

    def __init__(self, split: str, file: IO[str] | None) -> None:
        self._split = split
        self._file = file
        self._first: dict[str, list[str]] = {}
        self.counts: dict[str, int] = {}

    def add(self, bad: BadLine) -> None:
        """Count and report a line."""
        self.counts[bad.reason] = self.counts.get(bad.reason, 0) + 1
        first = self._first.setdefault(bad.reason, [])
        if len(first) < _FIRST_LINES:
            first.append(f"{bad.file}:{bad.line}")
        if self._file is not None:
            entry = {"split": self._split, "file": bad.file, "line": bad.line, "reason": bad.reason}
            self._file.write(json.dumps(entry, ensure_ascii=False) + "\n")

    def skipped(self) -> dict[str, SkippedLines]:
        """The counts by reason, with the first lines of each."""
        return {
            reason: SkippedLines(count=self.counts[reason], first=self._first[reason]) for reason in sorted(self.counts)
        }


def _chain(sources: Iterable[PairSource], on_bad: OnBadLine) -> Iterator[tuple[str, str]]:
    for source in sources:
        yield from source.pairs(on_bad)


def _no_pairs(split: str, counts: Mapping[str, int]) -> DataError:
    skipped = ", ".join(f"{count:,} {reason}" for reason, count in sorted(counts.items())) or "none"
    return DataError(f"{split}: expected sentence pairs, found none (lines skipped: {skipped})")


def no_progress(stage: str, done: int, total: int | None) -> None:
    """For a caller that does not want to be told."""
