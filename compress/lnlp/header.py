"""The header of a container: every field is checked here, and none is trusted before."""

import re
from dataclasses import dataclass
from math import prod
from typing import Any, Final

from lite_nlp.compress.lnlp.encodings import ENCODINGS
from lite_nlp.compress.lnlp.limits import (
    MAX_ALIASES,
    MAX_DIMENSIONS,
    MAX_FILES,
    MAX_HEADER_BYTES,
    MAX_HEADER_VALUES,
    MAX_TENSORS,
    max_file_bytes,
    max_weights,
)
from lite_nlp.core.errors import ContainerError
from lite_nlp.core.parsing import parse_json_object

__all__ = ["FileEntry", "Header", "TensorEntry", "is_plain_file_name", "make_header", "parse_header"]

_FILE_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")
_KINDS: Final = {"metadata": dict, "files": list, "tensors": dict, "aliases": dict}
#: The lists of ``tensors``, one entry of each for a tensor: what is alike stands together and is compressed better.
_COLUMNS: Final = ("names", "shapes", "encodings", "lengths")


@dataclass(frozen=True)
class FileEntry:
    """An embedded file of ``size`` bytes.

    Attributes:
        name: A plain file name.
        size: Its bytes, as they are handed out.
        length: Bytes of its section, if it is stored by its merges; none if it is stored as it is.
    """

    name: str
    size: int
    length: int | None


@dataclass(frozen=True)
class TensorEntry:
    """A tensor, stored in a section of ``length`` bytes."""

    name: str
    shape: tuple[int, ...]
    encoding: str
    length: int


@dataclass(frozen=True)
class Header:
    """The header of a container, within the limits of the format.

    Attributes:
        metadata: Any JSON object.
        files: Embedded files, in the order of their contents or sections.
        tensors: Tensors, in the order of their sections, which follow those of the files.
        aliases: Further names of tensors: alias to the name in ``tensors``.
    """

    metadata: dict[str, Any]
    files: list[FileEntry]
    tensors: list[TensorEntry]
    aliases: dict[str, str]

    @property
    def plain_bytes(self) -> int:
        """Of the files that are stored as they are, together."""
        return sum(entry.size for entry in self.files if entry.length is None)


def is_plain_file_name(name: str) -> bool:
    """Whether an embedded file may have this name."""
    return _FILE_NAME.fullmatch(name) is not None


def make_header(header: Header) -> dict[str, Any]:
    """The JSON object of a header."""
    tensors = header.tensors
    return {
        "aliases": header.aliases,
        "files": [
            {"name": entry.name, "size": entry.size} | ({} if entry.length is None else {"length": entry.length})
            for entry in header.files
        ],
        "metadata": header.metadata,
        "tensors": {
            "names": [entry.name for entry in tensors],
            "shapes": [list(entry.shape) for entry in tensors],
            "encodings": [entry.encoding for entry in tensors],
            "lengths": [entry.length for entry in tensors],
        },
    }


def parse_header(raw: bytes, *, file_bytes: int) -> Header:
    """Read and check a header.

    Args:
        raw: Its JSON.
        file_bytes: Size of the whole container, which the limits depend on.

    Raises:
        ContainerError: If it is no such JSON, or states more than a file of that size may hold.
    """
    content = parse_json_object(
        raw, source="header", error=ContainerError, max_bytes=MAX_HEADER_BYTES, max_values=MAX_HEADER_VALUES
    )
    if any(not isinstance(content.get(key), kind) for key, kind in _KINDS.items()):
        raise ContainerError(f"header: expected an object with {', '.join(_KINDS)}")
    columns = [content["tensors"].get(key) for key in _COLUMNS]
    if not all(isinstance(column, list) and len(column) == len(columns[0]) for column in columns):
        raise ContainerError(f"header: expected tensors with {', '.join(_COLUMNS)} of one length")
    _check_limit("files", MAX_FILES, len(content["files"]))
    _check_limit("tensors", MAX_TENSORS, len(columns[0]))
    _check_limit("aliases", MAX_ALIASES, len(content["aliases"]))
    files = [_parse_file(entry) for entry in content["files"]]
    tensors = [_parse_tensor(*entry) for entry in zip(*columns, strict=True)]
    _check_limit("bytes of embedded files", max_file_bytes(file_bytes), sum(entry.size for entry in files))
    # Empty dimensions count as 1, so that [0, 2**60] is refused as well.
    weights = sum(prod(max(1, size) for size in entry.shape) for entry in tensors)
    _check_limit(f"weights in a file of {file_bytes} bytes", max_weights(file_bytes), weights)
    names = {entry.name for entry in tensors}
    if len(names) != len(tensors) or len({entry.name for entry in files}) != len(files):
        raise ContainerError("header: expected every name once")
    _check_aliases(content["aliases"], names)
    return Header(content["metadata"], files, tensors, content["aliases"])


def _check_limit(what: str, limit: int, found: int) -> None:
    if found > limit:
        raise ContainerError(f"header: expected at most {limit} {what}, found {found}")


def _parse_file(entry: object) -> FileEntry:
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        raise ContainerError(f"header: expected a file with name and size, found {entry!r}")
    name, size, length = entry["name"], entry.get("size"), entry.get("length")
    if not is_plain_file_name(name) or not _is_count(size) or not ("length" not in entry or _is_count(length)):
        raise ContainerError(f"header: file {name!r}: expected a plain file name and a size")
    return FileEntry(name, int(entry["size"]), length)


def _parse_tensor(name: object, shape: object, encoding: object, length: object) -> TensorEntry:
    if not isinstance(name, str) or not isinstance(length, int) or not _is_count(length):
        raise ContainerError(f"header: expected a tensor with a name and a length, found {name!r} and {length!r}")
    if not isinstance(shape, list) or len(shape) > MAX_DIMENSIONS or not all(_is_count(size) for size in shape):
        raise ContainerError(
            f"header: tensor {name!r}: expected a shape of at most {MAX_DIMENSIONS} sizes, found {shape!r}"
        )
    if not isinstance(encoding, str) or encoding not in ENCODINGS:
        raise ContainerError(
            f"header: tensor {name!r}: expected an encoding among {', '.join(ENCODINGS)}, found {encoding!r}"
        )
    return TensorEntry(name, tuple(shape), encoding, length)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63


def _check_aliases(aliases: dict[str, Any], names: set[str]) -> None:
    for alias, name in aliases.items():
        if not isinstance(name, str) or name not in names or alias in names:
            raise ContainerError(f"header: alias {alias!r}: expected a new name for a tensor, found {name!r}")
