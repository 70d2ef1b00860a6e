"""The data directory: what ``lite-nlp data prepare`` writes and training, evaluation and compression read.

A directory is of one kind: sentence pairs (here), running text (:mod:`lite_nlp.data.text.directory`) or labelled
examples (:mod:`lite_nlp.data.labelled.directory`). In every kind ``DIR/data.json`` holds the facts, ``kind`` among
them, ``DIR/tokenizer.json`` the vocabulary that the text is tokenized with, ``DIR/bad_lines.jsonl`` every skipped line.
Of pairs, ``DIR/{train,valid,test}/`` are the splits (see :mod:`lite_nlp.data.pairs.storage`).
"""

import json
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveInt, ValidationError

from lite_nlp.core.errors import DataError
from lite_nlp.data.holdout import SplitName
from lite_nlp.data.pairs.storage import Split, load_split
from lite_nlp.data.tokenizer import Normalization, Tokenizer

__all__ = [
    "BAD_LINES_FILE",
    "INFO_FILE",
    "SPLITS",
    "TOKENIZER_FILE",
    "DataDirectory",
    "DataInfo",
    "DataKind",
    "Facts",
    "Languages",
    "PairTask",
    "SkippedLines",
    "SplitInfo",
    "TokenizerInfo",
    "data_task",
    "open_data",
    "open_tokenizer",
    "read_info",
]

DataKind = Literal["pairs", "text", "labelled"]

#: What pairs are for: it decides what a model's output is measured by.
PairTask = Literal["translation", "summarization"]

#: What a directory of each kind holds, for messages.
_CONTENTS: Final[dict[str, str]] = {
    "pairs": "sentence pairs",
    "text": "running text",
    "labelled": "labelled examples",
}

INFO_FILE: Final = "data.json"
TOKENIZER_FILE: Final = "tokenizer.json"
BAD_LINES_FILE: Final = "bad_lines.jsonl"

#: Names of the splits; the last two may be absent.
SPLITS: Final[tuple[SplitName, ...]] = ("train", "valid", "test")


class Facts(BaseModel):
    """A part of ``data.json``."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Languages(Facts):
    """Codes of the two languages, or ``src`` and ``tgt`` where they are not known."""

    src: str
    tgt: str


class TokenizerInfo(Facts):
    """The tokenizer of the directory; ``sha256`` is that of ``tokenizer.json``."""

    sha256: str
    vocab_size: PositiveInt
    lowercase: bool
    normalization: Normalization

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Self:
        """What ``data.json`` says of ``tokenizer``."""
        return cls(
            sha256=tokenizer.sha256,
            vocab_size=tokenizer.vocab_size,
            lowercase=tokenizer.lowercase,
            normalization=tokenizer.normalization,
        )


class SkippedLines(Facts):
    """Lines skipped for one reason: how many, and the first of them as ``file:line``."""

    count: PositiveInt
    first: list[str]


class SplitInfo(Facts):
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


class DataInfo(Facts):
    """The content of the ``data.json`` of sentence pairs."""

    schema_version: Literal[1]
    kind: Literal["pairs"] = "pairs"
    task: PairTask = "translation"
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
        return open_tokenizer(self.path, self.info.tokenizer)

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
    """Open the data directory ``path`` of sentence pairs; its tokenizer and splits are read when first asked for.

    Raises:
        DataError: If ``path`` is no data directory or one of another kind, or its ``data.json`` is damaged.
    """
    directory = Path(path)
    return DataDirectory(directory, read_info(directory, DataInfo, kind="pairs"))


def open_tokenizer(directory: Path, facts: TokenizerInfo) -> Tokenizer:
    """The tokenizer of a data directory of any kind.

    Raises:
        DataError: If it is missing, damaged, or not the one that the splits were tokenized with.
    """
    tokenizer = Tokenizer.load(directory / TOKENIZER_FILE)
    if tokenizer.sha256 != facts.sha256:
        expected, found = facts.sha256[:12], tokenizer.sha256[:12]
        raise DataError(f"{directory / TOKENIZER_FILE}: expected SHA-256 {expected}... of data.json, found {found}...")
    return tokenizer


def data_task(path: str | Path) -> tuple[str, str | None]:
    """The kind of the data directory ``path``, and the task that its ``data.json`` names, if it names one.

    Directories older than the kinds hold pairs, and pairs older than the tasks are for translation, without saying so.

    Raises:
        DataError: If ``path`` is no data directory or its ``data.json`` is damaged.
    """
    facts = _read_json(Path(path))
    kind = str(facts.get("kind", "pairs"))
    task = facts.get("task", "translation" if kind == "pairs" else None)
    return kind, None if task is None else str(task)


InfoT = TypeVar("InfoT", bound=Facts)


def read_info(directory: Path, info: type[InfoT], *, kind: DataKind) -> InfoT:
    """Read the ``data.json`` of a directory of a certain kind.

    Args:
        directory: The data directory.
        info: The facts of that kind.
        kind: The kind that the caller can use.

    Raises:
        DataError: If ``directory`` is no data directory or one of another kind, or its ``data.json`` is damaged.
    """
    found, _ = data_task(directory)
    if found != kind:
        raise DataError(
            f"{directory}: expected a data directory of {_CONTENTS[kind]}, found one of {_CONTENTS.get(found, found)}"
        )
    try:
        return info.model_validate(_read_json(directory))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise DataError(
            f"{directory / INFO_FILE}: expected the facts of a data directory, found {where}: {first['msg']}"
        ) from error


def _read_json(directory: Path) -> dict[str, Any]:
    try:
        content = (directory / INFO_FILE).read_bytes()
    except OSError as error:
        detail = error.strerror or str(error)
        raise DataError(f"{directory}: expected a data directory with {INFO_FILE}, found none: {detail}") from error
    try:
        facts = json.loads(content)
    except ValueError as error:
        raise DataError(
            f"{directory / INFO_FILE}: expected the facts of a data directory, found no JSON: {error}"
        ) from error
    if not isinstance(facts, dict):
        raise DataError(f"{directory / INFO_FILE}: expected the facts of a data directory, found no JSON object")
    return facts
