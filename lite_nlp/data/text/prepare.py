"""From running text to a data directory, in passes that hold none of the text in memory."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

import numpy as np

from lite_nlp.core.errors import DataError
from lite_nlp.core.files import atomic_directory
from lite_nlp.core.special_tokens import EOS_ID
from lite_nlp.data.holdout import SplitName
from lite_nlp.data.pairs.directory import BAD_LINES_FILE, INFO_FILE, SPLITS, TOKENIZER_FILE, TokenizerInfo
from lite_nlp.data.pairs.prepare import OnProgress, Tally, VocabularyOptions, no_progress
from lite_nlp.data.pairs.readers import BadLine, OnBadLine, ignore_bad_line, read_lines
from lite_nlp.data.text.directory import TOKEN_TYPE, TextInfo, TextSplitInfo, tokens_file
from lite_nlp.data.tokenizer import Tokenizer

__all__ = ["MAX_LINE_BYTES", "TextCorpus", "prepare_text", "read_text"]

#: A longer line is skipped: a paragraph has a few thousand bytes, and a line is tokenized in one piece.
MAX_LINE_BYTES: Final = 1_000_000

#: One line of so many is held out for validation, and as many for test.
_HELD_OUT_SHARE: Final = 20

#: What is tokenized at a time, in lines and characters.
_CHUNK_LINES: Final = 5_000
_CHUNK_CHARACTERS: Final = 1_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class TextCorpus:
    """Where the text comes from.

    Attributes:
        splits: For each split, the files it is made of, one after the other; ``train`` must be there.
        hold_out: Whether the last twentieth of the lines of ``train`` is for test, and the one before it for
            validation.
    """

    splits: Mapping[SplitName, Sequence[Path]]
    hold_out: bool = False


def prepare_text(
    out: Path,
    corpus: TextCorpus,
    *,
    options: VocabularyOptions,
    force: bool = False,
    on_progress: OnProgress | None = None,
) -> TextInfo:
    """Write the data directory ``out``, whole or not at all.

    Args:
        out: The directory to make.
        corpus: The text.
        options: Vocabulary.
        force: Whether to replace an existing ``out``.
        on_progress: Told how far it is.

    Raises:
        DataError: If a file is missing or damaged, there is too little text to hold some out, or a split has none.
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
        info = TextInfo(
            schema_version=1,
            tokenizer=TokenizerInfo.of(tokenizer),
            splits=splits,
        )
        (partial / INFO_FILE).write_text(info.model_dump_json(indent=2) + "\n", encoding="utf-8")
    return info


def read_text(path: Path, on_bad: OnBadLine) -> Iterator[str]:
    """Yield the lines of a text, plain or gzip, without their ends; white space and empty lines stay as they are.

    Args:
        path: The file.
        on_bad: Told about lines that are no UTF-8 or too long, which are left out.

    Raises:
        DataError: If the file is missing, empty, or its gzip stream is damaged.
    """
    for number, line in enumerate(read_lines(path, max_bytes=MAX_LINE_BYTES), start=1):
        if line is None:
            on_bad(BadLine(str(path), number, "too_long"))
            continue
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError:
            on_bad(BadLine(str(path), number, "invalid_utf8"))


class _Preparation:
    """The passes over one text."""

    def __init__(self, corpus: TextCorpus, report: OnProgress) -> None:
        self._corpus = corpus
        self._report = report
        #: Of the lines of the training files, where each split begins and ends.
        self._bounds: dict[SplitName, tuple[int, int | None]] = {"train": (0, None)}
        if corpus.hold_out:
            lines = sum(1 for _ in self._watch(self._chain("train", ignore_bad_line), "splits", None))
            held = lines // _HELD_OUT_SHARE
            if not held:
                raise DataError(
                    f"text: expected at least {_HELD_OUT_SHARE} lines, to hold out a twentieth to validate and a"
                    f" twentieth for test, found {lines}"
                )
            valid, test = lines - 2 * held, lines - held
            self._bounds = {"train": (0, valid), "valid": (valid, test), "test": (test, lines)}

    def train_tokenizer(self, options: VocabularyOptions) -> Tokenizer:
        """Learn the vocabulary from the training text."""
        return Tokenizer.train(
            self._watch(self._lines("train", ignore_bad_line), "vocabulary", self._bounds["train"][1]),
            vocab_size=options.vocab_size,
            lowercase=options.lowercase,
            normalization=options.normalization,
        )

    def write_splits(self, out: Path, tokenizer: Tokenizer, bad_lines: IO[str]) -> dict[SplitName, TextSplitInfo]:
        """Tokenize and write every split there is."""
        infos = {}
        for name in SPLITS:
            own = name in self._corpus.splits
            if not own and name not in self._bounds:
                continue
            # Splits taken out of the training text leave its bad lines to it, so that they are counted once.
            tally = Tally(name, bad_lines if own else None)
            total = None if name not in self._bounds else self._bounds[name][1]
            with tokens_file(out, name).open("wb") as file:
                counts = _write_tokens(file, self._watch(self._lines(name, tally.add), name, total), tokenizer)
            if not counts["lines"]:
                skipped = ", ".join(f"{count:,} {reason}" for reason, count in sorted(tally.counts.items())) or "none"
                raise DataError(f"{name}: expected lines of text, found none (lines skipped: {skipped})")
            infos[name] = TextSplitInfo(
                **counts,
                sources=[str(path) for path in self._corpus.splits.get(name, self._corpus.splits["train"])],
                skipped=tally.skipped() if own else {},
            )
        return infos

    def _lines(self, name: SplitName, on_bad: OnBadLine) -> Iterator[str]:
        """The usable lines of one split."""
        own = name in self._corpus.splits
        if own and name != "train":
            yield from self._chain(name, on_bad)
            return
        start, stop = self._bounds[name]
        # The training files are read to their end, so that all their bad lines are seen.
        for number, line in enumerate(self._chain("train", on_bad)):
            if start <= number and (stop is None or number < stop):
                yield line

    def _chain(self, name: SplitName, on_bad: OnBadLine) -> Iterator[str]:
        for path in self._corpus.splits[name]:
            yield from read_text(path, on_bad)

    def _watch(self, lines: Iterator[str], stage: str, total: int | None) -> Iterator[str]:
        """Pass ``lines`` on and report how many there were."""
        done = 0
        for done, line in enumerate(lines, start=1):
            yield line
            if done % _CHUNK_LINES == 0:
                self._report(stage, done, total)
        self._report(stage, done, done)


def _write_tokens(file: IO[bytes], lines: Iterator[str], tokenizer: Tokenizer) -> dict[str, int]:
    """Tokenize the lines into ``file``, an end mark after each; their counts."""
    counts = dict.fromkeys(("tokens", "lines", "words", "characters", "bytes"), 0)
    for chunk in _chunks(lines):
        rows = tokenizer.encode_batch(chunk)
        ids = np.concatenate([np.array([*row, EOS_ID], dtype=TOKEN_TYPE) for row in rows])
        file.write(ids.tobytes())
        # One more for the line end.
        sizes: tuple[tuple[str, Callable[[str], int]], ...] = (
            ("words", lambda line: len(line.split())),
            ("characters", lambda line: len(line) + 1),
            ("bytes", lambda line: len(line.encode("utf-8")) + 1),
        )
        for name, size in sizes:
            counts[name] += sum(map(size, chunk))
        counts["tokens"] += len(ids)
        counts["lines"] += len(chunk)
    return counts


def _chunks(lines: Iterator[str]) -> Iterator[list[str]]:
    """Lines in pieces that fit into memory."""
    chunk: list[str] = []
    characters = 0
    for line in lines:
        chunk.append(line)
        characters += len(line)
        if len(chunk) == _CHUNK_LINES or characters >= _CHUNK_CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk
