"""News stories with highlights (Hermann et al. 2015) as pairs for summarization: an article and its summary a line.

A story is a file of paragraphs with blank lines between them: the article, then ``@highlight`` before each sentence of
the summary. It is named by the SHA-1 of its address in hexadecimal digits; lists of addresses make up the splits.
"""

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path, PurePosixPath
from typing import IO, Final

from lite_nlp.core.errors import DataError
from lite_nlp.core.files import atomic_directory
from lite_nlp.data.choices import SplitName
from lite_nlp.data.lines import read_lines
from lite_nlp.data.published.archives import open_archive

__all__ = ["ARTICLE", "HIGHLIGHTS", "extract_stories", "split_story"]

#: Names of the two sides of the corpus, in place of languages.
ARTICLE: Final = "article"
HIGHLIGHTS: Final = "highlights"

_MARK: Final = "@highlight"

#: No address in the lists is as long.
_MAX_ADDRESS_BYTES: Final = 16_384

#: Ends of highlights that stay as they are; the others, most of them, get a full stop, so that sentences stay apart.
_ENDS: Final = tuple(".!?…'\"’”)")  # noqa: RUF001 - these are the characters meant


def extract_stories(
    archives: Sequence[Path], addresses: Mapping[SplitName, Path], out: Path
) -> dict[SplitName, tuple[Path, Path]]:
    """Write the stories of each split to ``{split}.article`` and ``{split}.highlights``, a line each.

    They come in the order of the archives, each of which is read once.

    Args:
        archives: Archives of the stories.
        addresses: For each split, a text file with the address of one story per line.
        out: Directory for the files, made whole or not at all; if it holds them already, nothing is read.

    Returns:
        The two files of each split.

    Raises:
        DataError: If an archive is damaged, or a story is not in the archives.
        OutputError: If ``out`` cannot be written.
    """
    names = {split: (f"{split}.{ARTICLE}", f"{split}.{HIGHLIGHTS}") for split in addresses}
    if not all((out / name).is_file() for pair in names.values() for name in pair):
        wanted = _by_name(addresses)
        with atomic_directory(out, force=True, owned=None) as partial, ExitStack() as stack:
            files = {
                split: [stack.enter_context((partial / name).open("wb")) for name in pair]
                for split, pair in names.items()
            }
            for archive in archives:
                _extract(archive, wanted, files)
            if wanted:
                raise DataError(
                    f"{', '.join(str(path) for path in archives)}: expected every story that is listed, found "
                    f"{len(wanted):,} missing, {next(iter(wanted))}.story for one"
                )
    return {split: (out / article, out / highlights) for split, (article, highlights) in names.items()}


def split_story(text: str) -> tuple[str, str]:
    """Article and summary of a story, each in one line."""
    paragraphs = [stripped for line in text.splitlines() if (stripped := " ".join(line.split()))]
    end = paragraphs.index(_MARK) if _MARK in paragraphs else len(paragraphs)
    highlights = [paragraph for paragraph in paragraphs[end:] if paragraph != _MARK]
    ended = [highlight if highlight.endswith(_ENDS) else f"{highlight}." for highlight in highlights]
    return " ".join(paragraphs[:end]), " ".join(ended)


def _by_name(addresses: Mapping[SplitName, Path]) -> dict[str, SplitName]:
    """The split of each story, by the name of its file."""
    return {
        hashlib.sha1(line.strip(), usedforsecurity=False).hexdigest(): split
        for split, path in addresses.items()
        for line in read_lines(path, max_bytes=_MAX_ADDRESS_BYTES)
        if isinstance(line, bytes) and line
    }


def _extract(archive: Path, wanted: dict[str, SplitName], files: Mapping[SplitName, Sequence[IO[bytes]]]) -> None:
    """Write the stories of an archive that are ``wanted``, and remove them from that list."""
    with open_archive(archive) as members:
        for member, content in members:
            split = wanted.pop(PurePosixPath(member).stem, None)
            if split is not None:
                # Bytes that are no UTF-8 pass through, so that the line is reported when it is read.
                story = split_story(content.read().decode("utf-8", "surrogateescape"))
                for file, line in zip(files[split], story, strict=True):
                    file.write(f"{line}\n".encode("utf-8", "surrogateescape"))
