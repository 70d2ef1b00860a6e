"""The data directory of running text: one long row of token ids for each split, to learn language models from.

``DIR/{train,valid,test}.tokens`` hold the ids as little-endian int32, nothing else: the lines of the text one after the
other, each followed by the end mark, which stands for the line end. ``DIR/tokenizer.json`` and ``DIR/bad_lines.jsonl``
are as in :mod:`lite_nlp.data.directory`.
"""

from pathlib import Path
from typing import Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import NonNegativeInt, PositiveInt

from lite_nlp.core.errors import DataError
from lite_nlp.core.special_tokens import EOS_ID, PAD_ID
from lite_nlp.data.choices import SplitName
from lite_nlp.data.directory import (
    DataDirectory,
    Facts,
    SkippedLines,
    SplitFacts,
    TokenizerInfo,
    read_info,
    split_counts,
)

__all__ = [
    "TOKEN_TYPE",
    "TextBlocks",
    "TextDirectory",
    "TextInfo",
    "TextSplitInfo",
    "TokenStream",
    "cut_blocks",
    "open_running_text",
    "tokens_file",
]

#: Type of the ids on disk.
TOKEN_TYPE: Final = np.dtype("<i4")

IntArray = npt.NDArray[np.int64]


class TextSplitInfo(SplitFacts):
    """Counts of one split, by which a likelihood per token is converted to one per word, character or byte.

    Attributes:
        tokens: Tokens, one end mark per line included.
        lines: Lines.
        words: Stretches without white space.
        characters: Unicode characters of the text as it was read, one per line end included.
        bytes: Bytes of it in UTF-8, one per line end included.
        sources: The files it was read from.
        skipped: Bad lines by reason.
    """

    tokens: PositiveInt
    lines: PositiveInt
    words: NonNegativeInt
    characters: PositiveInt
    bytes: PositiveInt
    sources: list[str]
    skipped: dict[str, SkippedLines]


class TextInfo(Facts):
    """The content of the ``data.json`` of running text."""

    schema_version: Literal[1]
    kind: Literal["text"] = "text"
    tokenizer: TokenizerInfo
    splits: dict[SplitName, TextSplitInfo]


class TextBlocks(NamedTuple):
    """Stretches of text as a language model is trained on them: inputs, and the same tokens one place later as labels.

    Attributes:
        tokens: (B, T) int64, the inputs; before the first token of the text stands the end mark.
        labels: (B, T) int64, the tokens to predict; padding is 0.
    """

    tokens: IntArray
    labels: IntArray


class TokenStream:
    """The token ids of a text; only those asked for are read from disk.

    Args:
        name: Name of the text in errors.
        tokens: (N,) integers, all in the vocabulary.
        vocab_size: Ids are below it.
    """

    def __init__(self, name: str, tokens: npt.NDArray[np.integer], *, vocab_size: int) -> None:
        self.name = name
        self._tokens = tokens
        self._vocab_size = vocab_size

    def __len__(self) -> int:
        return len(self._tokens)

    def head(self, length: int) -> "TokenStream":
        """The first tokens, at most so many."""
        return TokenStream(self.name, self._tokens[:length], vocab_size=self._vocab_size)

    def read(self, start: int, stop: int) -> IntArray:
        """The ids of places ``start`` to ``stop``, as far as the text reaches.

        Raises:
            DataError: If one is outside the vocabulary: the file is damaged.
        """
        ids = np.array(self._tokens[max(start, 0) : max(stop, 0)], dtype=np.int64)
        if ids.size and not 0 < ids.min() <= ids.max() < self._vocab_size:
            raise DataError(
                f"{self.name}: expected token ids 1 to {self._vocab_size - 1}, found {ids.min()} to {ids.max()}"
            )
        return ids


def cut_blocks(stream: TokenStream, starts: npt.NDArray[np.integer], *, block_tokens: int) -> TextBlocks:
    """The stretches of ``block_tokens`` tokens that begin at ``starts``, padded on the right to the longest.

    Args:
        stream: The text.
        starts: (B,) places in it, at least one; what of a stretch is before or after the text is left out.
        block_tokens: Tokens to be predicted in a stretch.
    """
    labels = [stream.read(start, start + block_tokens) for start in starts.tolist()]
    width = max(len(row) for row in labels)
    blocks = TextBlocks(*(np.full((len(labels), width), PAD_ID, dtype=np.int64) for _ in range(2)))
    for row, (start, predicted) in enumerate(zip(starts.tolist(), labels, strict=True)):
        before = stream.read(start - 1, start) if start > 0 else np.array([EOS_ID])
        blocks.labels[row, : len(predicted)] = predicted
        blocks.tokens[row, : len(predicted)] = np.concatenate([before, predicted[:-1]])
    return blocks


class TextDirectory(DataDirectory[TextInfo]):
    """An opened data directory of running text."""

    def counts(self, name: str) -> TextSplitInfo:
        """The counts of a split.

        Raises:
            DataError: If the directory has no such split.
        """
        return split_counts(self.path, self.info.splits, name)

    def stream(self, name: str) -> TokenStream:
        """The text of the split ``train``, ``valid`` or ``test``.

        Raises:
            DataError: If the directory has no such split or it is damaged.
        """
        path = tokens_file(self.path, name)
        expected = self.counts(name).tokens * TOKEN_TYPE.itemsize
        try:
            size = path.stat().st_size
            if size != expected:
                raise DataError(f"{path}: expected {expected:,} bytes, as data.json says, found {size:,}")
            tokens = np.memmap(path, dtype=TOKEN_TYPE, mode="r")
        except OSError as error:
            raise DataError(f"{path}: expected a file of token ids, found none: {error}") from error
        return TokenStream(str(path), tokens, vocab_size=self.info.tokenizer.vocab_size)


def tokens_file(directory: Path, split: str) -> Path:
    """The file of the ids of a split."""
    return directory / f"{split}.tokens"


def open_running_text(path: str | Path) -> TextDirectory:
    """Open the data directory ``path`` of running text.

    Raises:
        DataError: If ``path`` is no data directory or one of another kind, or its ``data.json`` is damaged.
    """
    directory = Path(path)
    return TextDirectory(directory, read_info(directory, TextInfo, kind="text"))
