"""Running text out of text files, line by line; white space and empty lines stay as they are."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lite_nlp.data.choices import SplitName
from lite_nlp.data.holdout import LastLines
from lite_nlp.data.lines import LongLine, read_lines
from lite_nlp.data.sources import BadLine, Corpus, OnBadLine, Reason, general_advice

__all__ = ["MAX_LINE_BYTES", "TextCorpus", "TextFile", "text_in_files"]

#: A longer line is skipped: a paragraph has a few thousand bytes, and a line is tokenized in one piece.
MAX_LINE_BYTES: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class TextFile:
    """A text file, plain or compressed.

    Attributes:
        path: The file.
    """

    path: Path

    @property
    def name(self) -> str:
        """The file."""
        return str(self.path)

    @property
    def file(self) -> str:
        """See :class:`~lite_nlp.data.sources.ItemSource`."""
        return str(self.path)

    def read(self, on_bad: OnBadLine) -> Iterator[tuple[int, str]]:
        """Yield number and text of the lines without their ends; those that are no UTF-8 or too long are bad lines.

        Raises:
            DataError: If the file is missing, empty, or its compressed stream is damaged.
        """
        for number, line in enumerate(read_lines(self.path, max_bytes=MAX_LINE_BYTES), start=1):
            if isinstance(line, LongLine):
                on_bad(BadLine(self.name, number, "too_long", line.start))
                continue
            try:
                text = line.decode("utf-8")
            except UnicodeDecodeError:
                on_bad(BadLine(self.name, number, "invalid_utf8", line))
            else:
                yield number, text

    def advise(self, reason: Reason) -> str:
        """See :class:`~lite_nlp.data.sources.ItemSource`."""
        return general_advice(reason)


@dataclass(frozen=True, kw_only=True, slots=True)
class TextCorpus(Corpus[str]):
    """The running text that a data directory is prepared from."""


def text_in_files(files: Mapping[SplitName, Sequence[Path]]) -> TextCorpus:
    """A corpus of running text in files; of a training text alone, the end is held out.

    Args:
        files: For each split, its files; ``train`` must have some.
    """
    splits = {name: [TextFile(path) for path in paths] for name, paths in files.items() if paths}
    return TextCorpus(splits=splits, rule=LastLines() if set(splits) == {"train"} else None)
