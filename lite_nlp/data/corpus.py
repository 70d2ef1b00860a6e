"""The data directory: what ``lite-nlp data prepare`` writes and training, evaluation and compression read.

``DIR/{train,valid,test}/`` hold the sentence pairs (see :mod:`lite_nlp.data.splits`), ``DIR/tokenizer.json`` the
vocabulary they are tokenized with, ``DIR/data.json`` the facts below, ``DIR/bad_lines.jsonl`` every skipped line.
"""

from functools import cached_property
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveInt, ValidationError

from lite_nlp.data.holdout import SplitName
from lite_nlp.data.splits import Split, load_split
from lite_nlp.data.tokenizer import Normalization, Tokenizer
from lite_nlp.errors import DataError

__all__ = [
    "BAD_LINES_FILE",
    "INFO_FILE",
    "SPLITS",
    "TOKENIZER_FILE",
    "DataDirectory",
    "DataInfo",
    "Languages",
    "SkippedLines",
    "SplitInfo",
    "TokenizerInfo",
    "open_data",
]

INFO_FILE: Final = "data.json"
TOKENIZER_FILE: Final = "tokenizer.json"
BAD_LINES_FILE: Final = "bad_lines.jsonl"

#: Names of the splits; the last two may be absent.
SPLITS: Final[tuple[SplitName, ...]] = ("train", "valid", "test")


class _Facts(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Languages(_Facts):
    """Codes of the two languages, or ``src`` and ``tgt`` where they are not known."""

    src: str
    tgt: str


class TokenizerInfo(_Facts):
    """The tokenizer of the directory; ``sha256`` is that of ``tokenizer.json``."""

    sha256: str
    vocab_size: PositiveInt
    lowercase: bool
    normalization: Normalization


class SkippedLines(_Facts):
    """Lines skipped for one reason: how many, and the first of them as ``file:line``."""

    count: PositiveInt
    first: list[str]


class SplitInfo(_Facts):
    """Counts of one split.

    Attributes:
        pairs: Sentence pairs.
        src_tokens: Source tokens, special tokens not counted.
        tgt_tokens: Target tokens, special tokens not counted.
        sources: The files it was read from.
        skipped: Bad lines by reason.
        overlapping: Pairs left out because a sentence of theirs is in a held-out split.
    """

    pairs: PositiveInt
    src_tokens: NonNegativeInt
    tgt_tokens: NonNegativeInt
    sources: list[str]
    skipped: dict[str, SkippedLines]
    overlapping: NonNegativeInt = 0


class DataInfo(_Facts):
    """The content of ``data.json``."""

    schema_version: Literal[1]
    languages: Languages
    tokenizer: TokenizerInfo
    splits: dict[SplitName, SplitInfo]

    @property
    def src_lang(self) -> str:
        """Code of the source language."""
        return self.languages.src

    @property
    def tgt_lang(self) -> str:
        """Code of the target language."""
        return self.languages.tgt


class DataDirectory:
    """An opened data directory.

    Attributes:
        path: The directory.
        info: Languages, tokenizer and counts.
    """

    def __init__(self, path: Path, info: DataInfo) -> None:
        self.path = path
        self.info = info
        self._splits: dict[str, Split] = {}

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the directory.

        Raises:
            DataError: If it is missing, damaged, or not the one that the splits were tokenized with.
        """
        tokenizer = Tokenizer.load(self.path / TOKENIZER_FILE)
        if tokenizer.sha256 != self.info.tokenizer.sha256:
            expected, found = self.info.tokenizer.sha256[:12], tokenizer.sha256[:12]
            raise DataError(
                f"{self.path / TOKENIZER_FILE}: expected SHA-256 {expected}... of data.json, found {found}..."
            )
        return tokenizer

    def split(self, name: str) -> Split:
        """The split ``train``, ``valid`` or ``test``.

        Raises:
            DataError: If the directory has no such split or it is damaged.
        """
        facts = {str(split): info for split, info in self.info.splits.items()}
        if name not in facts:
            raise DataError(f"{self.path}: expected a split of {', '.join(facts)}, found {name}")
        if name not in self._splits:
            split = load_split(self.path / name, name)
            if len(split) != facts[name].pairs:
                raise DataError(f"{self.path / name}: expected {facts[name].pairs:,} pairs, found {len(split):,}")
            self._splits[name] = split
        return self._splits[name]


def open_data(path: str | Path) -> DataDirectory:
    """Open the data directory ``path``; its tokenizer and splits are read when first asked for.

    Raises:
        DataError: If ``path`` is no data directory or its ``data.json`` is damaged.
    """
    directory = Path(path)
    try:
        content = (directory / INFO_FILE).read_bytes()
    except OSError as error:
        detail = error.strerror or str(error)
        raise DataError(f"{path}: expected a data directory with {INFO_FILE}, found none: {detail}") from error
    try:
        info = DataInfo.model_validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise DataError(
            f"{directory / INFO_FILE}: expected the facts of a data directory, found {where}: {first['msg']}"
        ) from error
    return DataDirectory(directory, info)
