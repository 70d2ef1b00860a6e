"""The data directory of sentence pairs: what training, evaluation and compression of translators read.

``DIR/{train,valid,test}/`` are the splits (see :mod:`lite_nlp.data.pairs.storage`); the other files are as in
:mod:`lite_nlp.data.directory`.
"""

from pathlib import Path
from typing import Literal

from pydantic import NonNegativeInt, PositiveInt

from lite_nlp.core.errors import DataError
from lite_nlp.data.choices import PairTask, SplitName
from lite_nlp.data.directory import (
    DataDirectory,
    Facts,
    SkippedLines,
    SplitFacts,
    TokenizerInfo,
    read_info,
    split_counts,
)
from lite_nlp.data.pairs.storage import Split, load_split

__all__ = ["LanguagePair", "PairDirectory", "PairInfo", "PairSplitInfo", "open_sentence_pairs"]


class LanguagePair(Facts):
    """Codes of the two languages, or ``src`` and ``tgt`` where they are not known."""

    src: str
    tgt: str


class PairSplitInfo(SplitFacts):
    """Counts of one split.

    Attributes:
        pairs: Sentence pairs.
        src_tokens: Source tokens, special tokens not counted.
        tgt_tokens: Target tokens, special tokens not counted.
        sources: The files it was read from.
        skipped: Bad lines by reason.
    """

    pairs: PositiveInt
    src_tokens: NonNegativeInt
    tgt_tokens: NonNegativeInt
    sources: list[str]
    skipped: dict[str, SkippedLines]


class PairInfo(Facts):
    """The content of the ``data.json`` of sentence pairs."""

    schema_version: Literal[1]
    kind: Literal["pairs"] = "pairs"
    task: PairTask = "translation"
    languages: LanguagePair
    tokenizer: TokenizerInfo
    splits: dict[SplitName, PairSplitInfo]

    @property
    def src_lang(self) -> str:
        """Code of the source language."""
        return self.languages.src

    @property
    def tgt_lang(self) -> str:
        """Code of the target language."""
        return self.languages.tgt


class PairDirectory(DataDirectory[PairInfo]):
    """An opened data directory of sentence pairs."""

    def __init__(self, path: Path, info: PairInfo) -> None:
        super().__init__(path, info)
        self._splits: dict[str, Split] = {}

    def split(self, name: str) -> Split:
        """The split ``train``, ``valid`` or ``test``.

        Raises:
            DataError: If the directory has no such split or it is damaged.
        """
        expected = split_counts(self.path, self.info.splits, name).pairs
        if name not in self._splits:
            split = load_split(self.path / name, name)
            if len(split) != expected:
                raise DataError(f"{self.path / name}: expected {expected:,} pairs, found {len(split):,}")
            self._splits[name] = split
        return self._splits[name]


def open_sentence_pairs(path: str | Path) -> PairDirectory:
    """Open the data directory ``path`` of sentence pairs.

    Raises:
        DataError: If ``path`` is no data directory or one of another kind, or its ``data.json`` is damaged.
    """
    directory = Path(path)
    return PairDirectory(directory, read_info(directory, PairInfo, kind="pairs"))
