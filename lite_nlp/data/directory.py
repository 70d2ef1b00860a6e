"""What data directories of every kind have in common.

``DIR/data.json`` holds the facts, ``kind`` among them, ``DIR/tokenizer.json`` the vocabulary that the text is tokenized
with, ``DIR/bad_lines.jsonl`` every skipped line. The splits differ by kind: sentence pairs
(:mod:`lite_nlp.data.pairs.directory`), running text (:mod:`lite_nlp.data.text.directory`), labelled examples
(:mod:`lite_nlp.data.labelled.directory`).
"""

import hashlib
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, Self, TypeVar

from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveInt, TypeAdapter, ValidationError, field_validator

from lite_nlp.core.display import in_utf8
from lite_nlp.core.errors import DataError
from lite_nlp.core.files import sha256_file
from lite_nlp.core.parsing import parse_json_object, read_document
from lite_nlp.core.suggestions import did_you_mean_path, expected_one_of
from lite_nlp.data.choices import SPLITS, Normalization, Sameness, SplitName

if TYPE_CHECKING:
    from lite_nlp.data.tokenizer import Tokenizer

__all__ = [
    "BAD_LINES_FILE",
    "DATA_FILES",
    "INFO_FILE",
    "TOKENIZER_FILE",
    "DataDirectory",
    "Facts",
    "Overlap",
    "SharedLine",
    "SkippedLine",
    "SkippedLines",
    "SplitFacts",
    "TokenizerInfo",
    "content_digest",
    "data_task",
    "read_info",
    "read_overlaps",
    "split_counts",
]

INFO_FILE: Final = "data.json"
TOKENIZER_FILE: Final = "tokenizer.json"
BAD_LINES_FILE: Final = "bad_lines.jsonl"

#: Endings of the files that hold the items of a split, after its name, and of those beside them.
_ITEM_FILES: Final = (".tokens", "/data-*.arrow", "/labels.npy")
_SPLIT_FILES: Final = (*_ITEM_FILES, "/cache-*.arrow", "/dataset_info.json", "/state.json")

#: Patterns of the files of a data directory of any kind: what may be lost where one is replaced.
DATA_FILES: Final = (
    *(INFO_FILE, TOKENIZER_FILE, BAD_LINES_FILE),
    *(f"{split}{ending}" for split in SPLITS for ending in _SPLIT_FILES),
)

#: Contents of a directory by its kind, for messages; of other kinds the name must do.
_CONTENTS: Final[Mapping[str, str]] = {
    "pairs": "sentence pairs",
    "text": "running text",
    "labelled": "labelled examples",
}


class Facts(BaseModel):
    """A part of ``data.json``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @field_validator("*")
    @classmethod
    def _in_utf8(cls, value: Any) -> Any:
        """Names of files may have stray bytes, which a file in UTF-8 cannot hold."""
        if isinstance(value, str):
            return in_utf8(value)
        if isinstance(value, list):
            return [in_utf8(item) if isinstance(item, str) else item for item in value]
        return value


class TokenizerInfo(Facts):
    """The tokenizer of the directory; ``sha256`` is that of ``tokenizer.json``."""

    sha256: str
    vocab_size: PositiveInt
    lowercase: bool
    normalization: Normalization

    @classmethod
    def of(cls, tokenizer: "Tokenizer") -> Self:
        """The facts of ``tokenizer``."""
        return cls(
            sha256=tokenizer.sha256,
            vocab_size=tokenizer.vocab_size,
            lowercase=tokenizer.lowercase,
            normalization=tokenizer.normalization,
        )


class SkippedLine(Facts):
    """A skipped line: its file, number and the beginning of its text, in which unprintable characters are escaped."""

    file: str
    line: PositiveInt
    text: str

    @property
    def place(self) -> str:
        """File and number."""
        return f"{self.file}:{self.line}"


class SkippedLines(Facts):
    """Lines skipped for one reason.

    Attributes:
        count: How many.
        first: The first ten, as ``file:line``.
        examples: The first three with their text.
        advice: What to do, if this is why most lines of a file were skipped.
    """

    count: PositiveInt
    first: list[str]
    examples: list[SkippedLine] = []
    advice: str | None = None


class SharedLine(Facts):
    """A line that stands in two splits; ``text`` is its beginning in the first, unprintable characters escaped."""

    kind: Sameness
    file: str
    line: PositiveInt
    other_file: str
    other_line: PositiveInt
    text: str

    @property
    def places(self) -> tuple[str, str]:
        """File and number in the one split and in the other."""
        return f"{self.file}:{self.line}", f"{self.other_file}:{self.other_line}"


class Overlap(Facts):
    """How much of a split stands in another; each item counts once, as the first of the four that is true.

    Attributes:
        compared: Items that were looked for.
        exact: Those of which every text is the same there.
        near: Those of which it is but for case, punctuation and spacing.
        source: Those that share the source (first sentence) alone.
        target: Those that share the target (second sentence) alone.
        examples: The first three of each.
    """

    compared: NonNegativeInt
    exact: NonNegativeInt = 0
    near: NonNegativeInt = 0
    source: NonNegativeInt = 0
    target: NonNegativeInt = 0
    examples: list[SharedLine] = []


class SplitFacts(Facts):
    """What is known of a split of any kind.

    Attributes:
        overlapping: Of valid and test: items that stand in the training split that was written. Of train: items that
            stand in valid or test, or share a sentence with a pair held out of the same corpus.
        near_duplicates: The same but for case, punctuation and spacing; not among the former.
        dropped: Of train: the items that were left out because of that.
        excluded: Those of them that share a sentence with a held-out one, which no option asked for.
        overlaps: Of valid and test: the splits that it was compared with.
    """

    overlapping: NonNegativeInt = 0
    near_duplicates: NonNegativeInt = 0
    dropped: NonNegativeInt = 0
    excluded: NonNegativeInt = 0
    overlaps: dict[SplitName, Overlap] = {}


class _Info(Protocol):
    """What the facts of every kind of directory hold."""

    @property
    def tokenizer(self) -> TokenizerInfo: ...


InfoT = TypeVar("InfoT", bound=_Info)
FactsT = TypeVar("FactsT", bound=Facts)


class DataDirectory(Generic[InfoT]):
    """An opened data directory; its tokenizer and splits are read when first asked for.

    Attributes:
        path: The directory.
        info: The content of its ``data.json``.
    """

    def __init__(self, path: Path, info: InfoT) -> None:
        self.path = path
        self.info = info

    @cached_property
    def tokenizer(self) -> "Tokenizer":
        """The tokenizer of the directory.

        Raises:
            DataError: If it is missing, damaged, or not the one that the splits were tokenized with.
        """
        # Not above: the registry of tasks, which the command line imports, needs the facts of directories alone.
        from lite_nlp.data.tokenizer import Tokenizer

        file = self.path / TOKENIZER_FILE
        tokenizer = Tokenizer.load(file)
        expected, found = self.info.tokenizer.sha256, tokenizer.sha256
        if found != expected:
            raise DataError(f"{file}: expected SHA-256 {expected[:12]}... of data.json, found {found[:12]}...")
        return tokenizer


def content_digest(directory: Path) -> str:
    """Hexadecimal SHA-256 of what a data directory of any kind holds: facts, tokenizer and the items of all splits.

    The facts alone are counts and names of files, which other text may share.

    Raises:
        DataError: If a file cannot be read.
    """
    patterns = (INFO_FILE, TOKENIZER_FILE, *(f"{split}{ending}" for split in SPLITS for ending in _ITEM_FILES))
    digest = hashlib.sha256()
    for path in sorted(path for pattern in patterns for path in directory.glob(pattern)):
        try:
            digest.update(f"{path.relative_to(directory)} {sha256_file(path)}\n".encode())
        except OSError as error:
            raise DataError(f"{path}: expected a file of a data directory, found: {error.strerror}") from error
    return digest.hexdigest()


def split_counts(directory: Path, splits: Mapping[SplitName, FactsT], name: str) -> FactsT:
    """The counts of the split ``name``.

    Raises:
        DataError: If the directory has no such split.
    """
    for split, counts in splits.items():
        if split == name:
            return counts
    raise DataError(f"{directory}: split: {expected_one_of(splits, name)}")


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


def read_info(directory: Path, info: type[FactsT], *, kind: str) -> FactsT:
    """Read the ``data.json`` of a directory of a certain kind.

    Args:
        directory: The data directory.
        info: Model of the facts of that kind.
        kind: The kind that the caller can use.

    Raises:
        DataError: If ``directory`` is no data directory or one of another kind, or its ``data.json`` is damaged.
    """
    found, _ = data_task(directory)
    if found != kind:
        expected, found = (_CONTENTS.get(name, name) for name in (kind, found))
        raise DataError(f"{directory}: expected a data directory of {expected}, found one of {found}")
    try:
        return info.model_validate(_read_json(directory))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise DataError(
            f"{directory / INFO_FILE}: expected the facts of a data directory, found {where}: {first['msg']}"
        ) from error


def read_overlaps(directory: Path, split: str) -> dict[SplitName, Overlap]:
    """How much of a split stands in others, whatever the kind of the data directory; none if that is not known.

    Raises:
        DataError: If ``directory`` is no data directory or its ``data.json`` is damaged.
    """
    splits = _read_json(directory).get("splits")
    facts = splits.get(split) if isinstance(splits, dict) else None
    overlaps = facts.get("overlaps", {}) if isinstance(facts, dict) else {}
    try:
        return TypeAdapter(dict[SplitName, Overlap]).validate_python(overlaps)
    except ValidationError as error:
        raise DataError(f"{directory / INFO_FILE}: expected the overlaps of {split}, found others: {error}") from error


def _read_json(directory: Path) -> dict[str, Any]:
    path = directory / INFO_FILE
    if not path.exists():
        hint = did_you_mean_path(directory)
        raise DataError(f"{directory}: expected a data directory with {INFO_FILE}, found none{hint}")
    content = read_document(path, expected="the facts of a data directory", error=DataError)
    return parse_json_object(content, source=str(path), error=DataError)
