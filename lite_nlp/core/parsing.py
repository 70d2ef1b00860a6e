"""Documents that nobody vouches for, inside or beside a model: JSON, TOML and text, with bounds and one boundary.

A parser may raise anything on a hostile file: other kinds of ``ValueError``, ``RecursionError``, a panic of a Rust
library, which is no ``Exception``. :func:`parsing` turns all of it into one of our errors. The JSON that is read here
is that of RFC 8259 and of the reader in the Android app: both accept the same documents.
"""

import json
import math
import os
import re
import stat
import tomllib
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NoReturn

from lite_nlp.core.errors import LiteNlpError

__all__ = [
    "MAX_DEPTH",
    "MAX_DOCUMENT_BYTES",
    "MAX_VALUES",
    "decode_text",
    "parse_json",
    "parse_json_object",
    "parse_toml",
    "parsing",
    "read_document",
]

#: Size of a document: configs, cards, manifests and headers have some ten thousand bytes.
MAX_DOCUMENT_BYTES: Final = 4 << 20

#: Values in a document, keys not counted; one costs a parser up to 300 bytes, whatever it costs in the file.
MAX_VALUES: Final = 100_000

#: Levels of objects and lists; every level costs stack, here and in whatever walks the document later.
MAX_DEPTH: Final = 256

#: Size of a document in TOML: a config has three thousand bytes, and every key that is wrong costs a message.
_MAX_TOML_BYTES: Final = 256 << 10

#: Dots in it, of numbers and keys: reading a dotted key takes time in the square of its parts.
_MAX_TOML_DOTS: Final = 4096

#: Whole numbers: of 64 bits, so that whatever is done with one later neither overflows nor takes long.
_MIN_INTEGER: Final = -(1 << 63)
_MAX_INTEGER: Final = (1 << 63) - 1

_BLOCK_BYTES: Final = 64 << 10

#: A string of JSON; one without an end reaches to the end of the text, which keeps the search linear.
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_BRACKET: Final = re.compile(rb"[\[\]{}]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


@contextmanager
def parsing(source: str, expected: str, error: type[LiteNlpError]) -> Iterator[None]:
    """Turn whatever a parser raises in the block into ``error``; errors of ours pass unchanged.

    Args:
        source: Stands for the document in the message.
        expected: What the document should have been.
        error: Kind of the error.
    """
    try:
        yield
    except (LiteNlpError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as found:
        # Not Exception: a panic in a library that is written in Rust arrives as a BaseException.
        detail = f"missing {found}" if isinstance(found, KeyError) else str(found) or type(found).__name__
        raise error(f"{source}: expected {expected}, found an error: {detail}") from found


def decode_text(content: bytes, *, source: str, error: type[LiteNlpError]) -> str:
    """The text of a document in UTF-8.

    Raises:
        LiteNlpError: Of the kind ``error``, if it is not UTF-8.
    """
    with parsing(source, "text in UTF-8", error):
        return content.decode("utf-8")


def parse_json(
    content: bytes,
    *,
    source: str,
    error: type[LiteNlpError],
    max_bytes: int = MAX_DOCUMENT_BYTES,
    max_values: int = MAX_VALUES,
) -> Any:
    """Read JSON as RFC 8259 has it: UTF-8, no NaN, no infinite numbers, no half of a surrogate pair.

    Integers have 64 bits. Size, number of values and depth are counted before anything is made of them. Equal keys in
    one object are refused: readers differ in which of them counts.

    Args:
        content: The document.
        source: Stands for it in messages.
        error: Kind of the error.
        max_bytes: Largest size.
        max_values: Most values, keys not counted.

    Raises:
        LiteNlpError: Of the kind ``error``, if it is no JSON, or larger or deeper than the bounds.
    """
    if len(content) > max_bytes:
        raise error(f"{source}: expected at most {max_bytes} bytes, found {len(content)}")
    skeleton = _STRING.sub(b"0", content)
    # Every value but the first of a list follows a comma; brackets are counted for their own value and the first.
    values = 1 + sum(map(skeleton.count, (b",", b"[", b"{")))
    if values > max_values:
        raise error(f"{source}: expected JSON of at most {max_values} values, found {values}")
    _check_depth(skeleton, source, error)
    with parsing(source, "JSON", error):
        text = content.decode("utf-8")
        document = json.loads(
            text,
            parse_constant=_refuse_constant,
            parse_float=_finite,
            parse_int=_bounded,
            object_pairs_hook=_unique,
        )
        if "\\u" in text:
            _check_strings(document)
        return document


def parse_json_object(
    content: bytes,
    *,
    source: str,
    error: type[LiteNlpError],
    max_bytes: int = MAX_DOCUMENT_BYTES,
    max_values: int = MAX_VALUES,
) -> dict[str, Any]:
    """:func:`parse_json` of a document that has to be an object."""
    document = parse_json(content, source=source, error=error, max_bytes=max_bytes, max_values=max_values)
    if not isinstance(document, dict):
        raise error(f"{source}: expected a JSON object, found {_kind(document)}")
    return document


def parse_toml(content: bytes, *, source: str, error: type[LiteNlpError]) -> dict[str, Any]:
    """Read TOML.

    Raises:
        LiteNlpError: Of the kind ``error``, if it is no TOML in UTF-8, larger than 256 KiB, or deeper than
            :data:`MAX_DEPTH` levels.
    """
    if len(content) > _MAX_TOML_BYTES:
        raise error(f"{source}: expected at most {_MAX_TOML_BYTES} bytes, found {len(content)}")
    if (dots := content.count(b".")) > _MAX_TOML_DOTS:
        raise error(f"{source}: expected TOML with at most {_MAX_TOML_DOTS} dots, found {dots}")
    # Editors of Windows begin a file with a byte order mark.
    text = decode_text(content, source=source, error=error).removeprefix("\ufeff")
    with parsing(source, "TOML", error):
        document = tomllib.loads(text)
    level: list[Any] = [document]
    for _ in range(MAX_DEPTH):
        level = [inner for value in level for inner in _inside(value)]
    if level:
        raise error(f"{source}: expected TOML of at most {MAX_DEPTH} levels, found more")
    return document


def read_document(
    path: Path, *, expected: str, error: type[LiteNlpError], max_bytes: int = MAX_DOCUMENT_BYTES
) -> bytes:
    """The content of a file that is read as a whole.

    Args:
        path: The file.
        expected: What it should be.
        error: Kind of the error.
        max_bytes: Largest size; no more is read, whatever the file becomes meanwhile.

    Raises:
        LiteNlpError: Of the kind ``error``, if there is no such file, it is a directory, device or pipe, which might
            never end, or it is larger.
    """
    try:
        # Opening a pipe would wait for a writer.
        with open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise error(f"{path}: expected {expected}, found something that is no regular file")
            # Memory for all that is asked for is taken before it is read.
            content = file.read(min(max_bytes, max(status.st_size, _BLOCK_BYTES)) + 1)
    except OSError as refused:
        raise error(f"{path}: expected {expected}, found none: {refused.strerror}") from refused
    if len(content) > max_bytes:
        raise error(f"{path}: expected {expected} of at most {max_bytes} bytes, found more")
    return content


def _check_depth(skeleton: bytes, source: str, error: type[LiteNlpError]) -> None:
    depth = 0
    for bracket in _BRACKET.findall(skeleton):
        depth += 1 if bracket in b"[{" else -1
        if depth > MAX_DEPTH:
            raise error(f"{source}: expected JSON of at most {MAX_DEPTH} levels, found more")


def _check_strings(value: Any) -> None:
    """Refuse strings that no UTF-8 can hold, which only escapes can make."""
    rest = [value]
    while rest:
        found = rest.pop()
        rest += _inside(found)
        if isinstance(found, dict):
            rest += found
        elif isinstance(found, str) and (surrogate := _SURROGATE.search(found)):
            raise ValueError(f"a string with the lone surrogate U+{ord(surrogate.group()):04X}")


def _inside(value: Any) -> Collection[Any]:
    """The values directly inside an object or a list."""
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) < len(pairs):
        [(repeated, _)] = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"the key {repeated[:40]!r} twice in one object")
    return unique


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name}, which is no number of JSON")


def _finite(number: str) -> float:
    value = float(number)
    if math.isinf(value):
        raise ValueError(f"a number beyond the range of doubles, {number[:40]}")
    return value


def _bounded(number: str) -> int:
    # The length first: reading an integer takes time in the square of its digits.
    if len(number) > len(str(_MIN_INTEGER)) or not _MIN_INTEGER <= int(number) <= _MAX_INTEGER:
        raise ValueError(f"an integer beyond 64 bits, {number[:40]}")
    return int(number)


def _kind(document: Any) -> str:
    return {list: "a list", str: "a string", bool: "a truth value", type(None): "null"}.get(type(document), "a number")
