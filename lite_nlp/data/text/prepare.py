"""The preparation of a data directory of running text."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, ClassVar, Final

import numpy as np

from lite_nlp.core.progress import Progress
from lite_nlp.core.special_tokens import EOS_ID
from lite_nlp.data.choices import SplitName
from lite_nlp.data.directory import TokenizerInfo
from lite_nlp.data.keys import folded_letters
from lite_nlp.data.passes import DataFormat, SplitPass
from lite_nlp.data.preparation import prepare_directory
from lite_nlp.data.text.directory import TOKEN_TYPE, TextInfo, TextSplitInfo, tokens_file
from lite_nlp.data.text.readers import TextCorpus
from lite_nlp.data.tokenizer import Tokenizer
from lite_nlp.data.vocabulary import VocabularyOptions

__all__ = ["MIN_COMPARED_LETTERS", "prepare_text"]

#: Letters, in bytes of UTF-8, that a line needs for it to say anything that another text has the same line.
MIN_COMPARED_LETTERS: Final = 16

#: What is tokenized at a time, in lines and characters.
_CHUNK_LINES: Final = 5_000
_CHUNK_CHARACTERS: Final = 1_000_000


def prepare_text(
    out: Path,
    corpus: TextCorpus,
    *,
    vocabulary: VocabularyOptions,
    drop_overlap: bool = False,
    force: bool = False,
    progress: Progress | None = None,
    say: Callable[[str], None] | None = None,
) -> TextInfo:
    """Write the data directory ``out`` of running text; see :func:`lite_nlp.data.preparation.prepare_directory`."""
    return prepare_directory(
        out,
        corpus,
        _TextFormat(),
        vocabulary=vocabulary,
        drop_overlap=drop_overlap,
        force=force,
        progress=progress,
        say=say,
    )


class _TextFormat(DataFormat[str, TextSplitInfo, TextInfo]):
    contents: ClassVar[str] = "lines of text"

    def sides(self, item: str) -> tuple[str, str]:
        return item, item

    def texts(self, item: str) -> tuple[str]:
        return (item,)

    def compared(self, item: str) -> tuple[str, ...]:
        return (item,) if len(folded_letters(item)) >= MIN_COMPARED_LETTERS else ()

    def write_split(self, directory: Path, split: SplitPass[str], tokenizer: Tokenizer) -> TextSplitInfo:
        with tokens_file(directory, split.name).open("wb") as file:
            counts = _write_tokens(file, split, tokenizer)
        return TextSplitInfo(**counts, sources=split.sources, skipped=split.skipped, **split.overlap)

    def info(self, tokenizer: TokenizerInfo, splits: dict[SplitName, TextSplitInfo]) -> TextInfo:
        return TextInfo(schema_version=1, tokenizer=tokenizer, splits=splits)


def _write_tokens(file: IO[bytes], lines: Iterable[str], tokenizer: Tokenizer) -> dict[str, Any]:
    """Tokenize the lines into ``file``, an end mark after each; their counts."""
    counts: dict[str, Any] = dict.fromkeys(("tokens", "lines", "words", "characters", "bytes"), 0)
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


def _chunks(lines: Iterable[str]) -> Iterator[list[str]]:
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
