"""Plain lines out of the formats that corpora are published in."""

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, Literal

from lite_nlp.core.errors import DataError
from lite_nlp.core.files import atomic_file
from lite_nlp.data.lines import LongLine, read_lines

__all__ = ["Markup", "plain_text"]

#: ``segments``: a test set in SGML; ``talks``: transcribed talks; ``inference``: JSON lines of natural language
#: inference; ``agreement``: the table of subject-verb dependencies. The last two become label, tab and sentences.
Markup = Literal["none", "segments", "talks", "inference", "agreement"]

#: Of the published formats; the longest lines have a few thousand.
_MAX_LINE_BYTES: Final = 1 << 20


def plain_text(path: Path, markup: Markup) -> Path:
    """Convert a published text to one sentence or example per line, in a file beside it; plain text is left as it is.

    Returns:
        The plain text.

    Raises:
        DataError: If the file is damaged, or not in the format that it should have.
        OutputError: If the copy cannot be written.
    """
    if markup == "none":
        return path
    plain = path.with_name(path.name + ".txt")
    if not plain.is_file():
        with atomic_file(plain) as partial, partial.open("wb") as file:
            try:
                for line in _READERS[markup](_lines(path)):
                    file.write(line.strip() + b"\n")
            except (KeyError, ValueError, TypeError, AttributeError, RecursionError, csv.Error) as error:
                raise DataError(f"{path}: expected the format of the published corpus, found: {error!r}") from error
    return plain


def _lines(path: Path) -> Iterator[bytes]:
    for number, line in enumerate(read_lines(path, max_bytes=_MAX_LINE_BYTES), start=1):
        if isinstance(line, LongLine):
            raise DataError(f"{path}: expected lines of at most {_MAX_LINE_BYTES:,} bytes, found line {number:,}")
        yield line


def _segments(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The sentences of an SGML test set."""
    for line in lines:
        if match := re.search(rb"<seg[^>]*>(.*?)</seg>", line):
            yield match[1]


def _talks(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The transcript without the metadata of a talk, which has no translation."""
    for line in lines:
        if not re.match(rb"\s*<(url|talkid|keywords|speaker|reviewer|translator)\b", line):
            # Title and description are translated; other angle brackets are the speaker's own.
            yield re.sub(rb"</?(title|description)>", b"", line)


def _inference(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Label, premise and hypothesis. Pairs on whose label the annotators did not agree are left out, as is usual."""
    for line in lines:
        entry = json.loads(line)
        if entry["gold_label"] != "-":
            yield _columns(entry["gold_label"], entry["sentence1"], entry["sentence2"])


def _agreement(lines: Iterable[bytes]) -> Iterator[bytes]:
    """``singular`` or ``plural``, and the sentence up to its verb, whose number is to be predicted."""
    numbers = {"VBZ": "singular", "VBP": "plural"}
    for entry in csv.DictReader((line.decode("utf-8") for line in lines), delimiter="\t"):
        words = entry["sentence"].split()[: int(entry["verb_index"]) - 1]
        yield _columns(numbers[entry["verb_pos"]], " ".join(words))


def _columns(*cells: str) -> bytes:
    """Cells separated by tabs; white space within one becomes single spaces."""
    return "\t".join(" ".join(cell.split()) for cell in cells).encode()


_READERS: Final[Mapping[str, Callable[[Iterable[bytes]], Iterator[bytes]]]] = {
    "segments": _segments,
    "talks": _talks,
    "inference": _inference,
    "agreement": _agreement,
}
