"""Documents that nobody vouches for, inside or beside a model: JSON, TOML and text, with bounds and one boundary.

A parser may raise anything on a hostile file: other kinds of ``ValueError``, ``RecursionError``, a panic of a Rust
library, which is no ``Exception``. :func:`parsing` turns all of it into one of our errors. The JSON that is read here
is that of RFC 8259 and of the reader in the Android app: both accept the same documents.
"""

import json
import math
import re
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
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
]

#: Size of a document: configs, cards, manifests and headers have some ten thousand bytes.
MAX_DOCUMENT_BYTES: Final = 4 << 20

#: Values in a document, keys not counted; one costs a parser up to 300 bytes, whatever it costs in the file.
MAX_VALUES: Final = 100_000

#: Levels of objects and lists; every level costs stack, here and in whatever walks the document later.
MAX_DEPTH: Final = 256

#: Of TOML, in which a value costs the parser much more than its two bytes.
_MAX_TOML_BYTES: Final = 1 << 20

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

    Size, number of values and depth are counted before anything is made of them. Of equal keys the last one counts.

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
        document = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
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
        LiteNlpError: Of the kind ``error``, if it is no TOML in UTF-8, or larger than 1 MiB.
    """
    if len(content) > _MAX_TOML_BYTES:
        raise error(f"{source}: expected at most {_MAX_TOML_BYTES} bytes, found {len(content)}")
    text = decode_text(content, source=source, error=error)
    with parsing(source, "TOML", error):
        return tomllib.loads(text)


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
        if isinstance(found, dict):
            rest += [*found, *found.values()]
        elif isinstance(found, list):
            rest += found
        elif isinstance(found, str) and (surrogate := _SURROGATE.search(found)):
            raise ValueError(f"a string with the lone surrogate U+{ord(surrogate.group()):04X}")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name}, which is no number of JSON")


def _finite(number: str) -> float:
    value = float(number)
    if math.isinf(value):
        raise ValueError(f"a number beyond the range of doubles, {number[:40]}")
    return value


def _kind(document: Any) -> str:
    return {list: "a list", str: "a string", bool: "a truth value", type(None): "null"}.get(type(document), "a number")
