"""From labelled text to a data directory, in passes that hold none of the text in memory."""

from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final, Literal

import numpy as np

from lite_nlp.core.errors import DataError
from lite_nlp.core.files import atomic_directory
from lite_nlp.data.holdout import Assignment, SplitName
from lite_nlp.data.labelled.directory import LABELS_FILE, LabelledInfo, LabelledSplitInfo
from lite_nlp.data.labelled.readers import Example, LabelledCorpus, collect_labels
from lite_nlp.data.pairs.directory import BAD_LINES_FILE, INFO_FILE, SPLITS, TOKENIZER_FILE, TokenizerInfo
from lite_nlp.data.pairs.prepare import OnProgress, Tally, VocabularyOptions, no_progress
from lite_nlp.data.pairs.readers import BadLine, OnBadLine, ignore_bad_line
from lite_nlp.data.pairs.storage import write_split
from lite_nlp.data.tokenizer import Tokenizer

__all__ = ["prepare_labelled"]

_PROGRESS_EXAMPLES: Final = 1_000


def prepare_labelled(
    out: Path,
    corpus: LabelledCorpus,
    *,
    options: VocabularyOptions,
    force: bool = False,
    on_progress: OnProgress | None = None,
) -> LabelledInfo:
    """Write the data directory ``out``, whole or not at all.

    The labels are those of the training examples; lines of the other splits with another label are bad lines.

    Args:
        out: The directory to make.
        corpus: The text.
        options: Vocabulary.
        force: Whether to replace an existing ``out``.
        on_progress: Told how far it is.

    Raises:
        DataError: If a source is missing or damaged, the sources do not agree on the number of sentences, there are
            fewer than two labels, or a split has no usable example.
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
        info = LabelledInfo(
            schema_version=1,
            kind="labelled",
            sentences=work.sentences,
            labels=list(work.labels),
            tokenizer=TokenizerInfo.of(tokenizer),
            splits=splits,
        )
        (partial / INFO_FILE).write_text(info.model_dump_json(indent=2) + "\n", encoding="utf-8")
    return info


class _Preparation:
    """The passes over one corpus."""

    def __init__(self, corpus: LabelledCorpus, report: OnProgress) -> None:
        self._corpus = corpus
        self._report = report
        self._overlapping = 0
        self._assignment: Assignment | None = None
        self.sentences: Literal[1, 2] = 2 if corpus.sentences == 2 else 1
        if corpus.rule is not None:
            everything = self._watch(self._read("train", ignore_bad_line), "splits")
            self._assignment = corpus.rule.fit(map(_sides, everything))
        training = self._watch(self._examples("train", ignore_bad_line), "labels")
        self.labels = collect_labels(training)
        self._places = {label: place for place, label in enumerate(self.labels)}

    def train_tokenizer(self, options: VocabularyOptions) -> Tokenizer:
        """Learn the vocabulary from the training examples."""

        def lines() -> Iterator[str]:
            for example in self._watch(self._examples("train", ignore_bad_line), "vocabulary"):
                yield example.first
                if example.second:
                    yield example.second

        return Tokenizer.train(
            lines(),
            vocab_size=options.vocab_size,
            lowercase=options.lowercase,
            normalization=options.normalization,
        )

    def write_splits(self, out: Path, tokenizer: Tokenizer, bad_lines: IO[str]) -> dict[SplitName, LabelledSplitInfo]:
        """Tokenize and write every split there is."""
        taken = self._corpus.rule.splits if self._corpus.rule is not None else ()
        infos = {}
        for name in SPLITS:
            own = name in self._corpus.splits
            if not own and name not in taken:
                continue
            # Splits taken out of the training text leave its bad lines to it, so that they are counted once.
            tally = Tally(name, bad_lines if own else None)
            labels = array("i")
            examples = self._watch(self._examples(name, tally.add), name)
            rows, first, second = write_split(out / name, self._texts(examples, labels), tokenizer)
            if not rows:
                skipped = ", ".join(f"{count:,} {reason}" for reason, count in sorted(tally.counts.items())) or "none"
                raise DataError(f"{name}: expected labelled examples, found none (lines skipped: {skipped})")
            stored = np.array(labels, dtype=np.int32)
            np.save(out / name / LABELS_FILE, stored, allow_pickle=False)
            counts = np.bincount(stored, minlength=len(self.labels)).tolist()
            infos[name] = LabelledSplitInfo(
                examples=rows,
                first_tokens=first,
                second_tokens=second,
                by_label=dict(zip(self.labels, counts, strict=True)),
                sources=[source.name for source in self._corpus.splits.get(name, self._corpus.splits["train"])],
                skipped=tally.skipped() if own else {},
                overlapping=self._overlapping if name == "train" else 0,
            )
        return infos

    def _texts(self, examples: Iterator[Example], labels: "array[int]") -> Iterator[tuple[str, str]]:
        """The sentences of ``examples``, whose labels are appended to ``labels``."""
        for example in examples:
            labels.append(self._places[example.label])
            yield example.first, example.second

    def _examples(self, name: SplitName, on_bad: OnBadLine) -> Iterator[Example]:
        """The examples of one split."""
        own = name in self._corpus.splits
        if self._assignment is None or (own and name != "train"):
            yield from self._read(name, on_bad)
            return
        overlapping = 0
        for index, example in enumerate(self._read("train", on_bad)):
            split = self._assignment.split_of(index, *_sides(example))
            overlapping += split is None
            if split == name:
                yield example
        self._overlapping = overlapping

    def _read(self, name: SplitName, on_bad: OnBadLine) -> Iterator[Example]:
        """All examples of the sources of a split; outside training only those with a label that training has."""
        for source in self._corpus.splits[name]:
            for example in source.examples(on_bad):
                if name != "train" and example.label not in self._places:
                    on_bad(BadLine(source.name, example.line, "unknown_label"))
                else:
                    yield example

    def _watch(self, examples: Iterator[Example], stage: str) -> Iterator[Example]:
        """Pass ``examples`` on and report how many there were."""
        done = 0
        for done, example in enumerate(examples, start=1):
            yield example
            if done % _PROGRESS_EXAMPLES == 0:
                self._report(stage, done, None)
        self._report(stage, done, done)


def _sides(example: Example) -> tuple[str, str]:
    """What a split rule compares: both sentences, or the only one twice."""
    return example.first, example.second or example.first
