"""Mutations of bytes and of values of JSON, which know nothing of the format around them."""

import copy
import json
from random import Random
from typing import Any, Final

__all__ = ["dump_json", "edit_json", "mutate_bytes", "mutate_json_text"]

#: Values at the edges of what a reader expects.
_VALUES: Final[tuple[Any, ...]] = (
    None, True, False, 0, -1, 1, 2, 255, 256, 4096, 65536, 1 << 24, 1 << 31, (1 << 31) - 1, 1 << 32, 1 << 53,
    (1 << 63) - 1, 1 << 63, 10**30, -(1 << 63), 0.0, -0.0, 0.5, 1.0, 1e308, 5e-324, float("nan"), float("inf"), "",
    "a", "é", "\0", "\x1b[2J", "\ud800", "👍", "../x", ".x", "CON", "x" * 129, "x" * 300, "fp32", "kmeans",
    "kmeans+rans", "manifest.json", "tokenizer.json", "batch", [], {}, [[]], [0], [1, 1], {"a": 1}, "0" * 64,
)  # fmt: skip

#: Values and characters that an edit leaves in a document, about.
_MAX_SIZE: Final = 300_000

#: Pieces of JSON, some of which belong nowhere.
_PIECES: Final = (
    b"[", b"]", b"{", b"}", b",", b":", b'"', b"\\", b"\\u", b"\\ud800", b"\\u0000", b"null", b"true", b"NaN",
    b"-Infinity", b"-", b"1", b"0", b".", b"e", b"E+5", b"1e400", b"-0", b" ", b"\n", b"\t", b"\r", b"\0", b"\x0c",
    b"\xef\xbb\xbf", b"\xff", b"\xc3", b"\xed\xa0\x80", b"/*", b"//", b"'", b"9" * 5000, b"[" * 300, b'{"a":' * 300,
    b'"a":0,', b'"a":1,',
)  # fmt: skip


def mutate_bytes(rng: Random, content: bytes) -> bytes:
    """Flip, overwrite, cut, repeat, insert or move some bytes."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 16))):
        start = rng.randrange(len(data) + 1)
        stop = min(len(data), start + rng.choice((1, 1, 2, 4, 8, 64, len(data))))
        match rng.randrange(7):
            case 0 if start < stop:
                data[start] ^= 1 << rng.randrange(8)
            case 1:
                data[start:stop] = rng.randbytes(stop - start)
            case 2:
                del data[start:stop]
            case 3:
                data[start:start] = data[start:stop]
            case 4:
                data[start:start] = rng.randbytes(rng.choice((1, 2, 4, 32)))
            case 5:
                data[start:stop] = bytes([rng.choice((0, 1, 0x7F, 0x80, 0xFF))]) * (stop - start)
            case 6:
                part = data[start:stop]
                del data[start:stop]
                place = rng.randrange(len(data) + 1)
                data[place:place] = part
    return bytes(data)


def edit_json(rng: Random, document: Any) -> Any:
    """A copy of a document with a few of its values changed, removed, repeated, moved or wrapped."""
    box = [copy.deepcopy(document)]
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        # What grew large is not made to grow once more.
        if _size(box) < _MAX_SIZE:
            _edit_one(rng, box)
    return box[0]


def _size(value: Any) -> int:
    """Values and characters of a document, counted up to the largest size that matters."""
    size, rest = 1, [value]
    while rest and size <= _MAX_SIZE:
        found = rest.pop()
        size += len(found) if isinstance(found, str | list | dict) else 1
        if isinstance(found, dict | list):
            rest += found.values() if isinstance(found, dict) else found
    return size


def _edit_one(rng: Random, box: list[Any]) -> None:
    places = _places(box)
    parent, key = rng.choice(places)
    value = parent[key]
    match rng.randrange(10):
        case 0 | 1 | 2:
            parent[key] = copy.deepcopy(rng.choice(_VALUES))
        case 3 if isinstance(value, int) and not isinstance(value, bool):
            parent[key] = value + rng.choice((-1, 1, value, 7, 1000, -2 * value))
        case 3 if isinstance(value, str):
            parent[key] = mutate_bytes(rng, value.encode("utf-8", "replace")).decode("utf-8", "replace")
        case 4 if parent is not box:
            del parent[key]
        case 5:
            other, other_key = rng.choice(places)
            parent[key] = copy.deepcopy(other[other_key])
        case 6 if isinstance(value, list):
            times = min(rng.choice((2, 3, 100, 12_000)), _MAX_SIZE // _size(value))
            parent[key] = [copy.deepcopy(entry) for _ in range(times) for entry in value]
        case 6 if isinstance(value, dict):
            extra = copy.deepcopy(rng.choice(list(value.values()))) if value else 0
            for index in range(min(rng.choice((1, 2, 100, 12_000)), _MAX_SIZE // _size(extra))):
                # A copy each: one that stood in thousands of places would make a later edit one of all of them.
                value[f"k{index}"] = copy.deepcopy(extra)
        case 7 if isinstance(parent, dict):
            parent[str(rng.choice(_VALUES))] = parent.pop(key)
        case 8 if isinstance(value, list):
            rng.shuffle(value)
        case 9:
            for _ in range(rng.choice((1, 2, 300))):
                value = [value]
            parent[key] = value


def _places(box: list[Any]) -> list[tuple[Any, Any]]:
    """Every place of a value: its list or object, and its key there."""
    found: list[tuple[Any, Any]] = []
    rest: list[Any] = [box]
    while rest:
        parent = rest.pop()
        for key in list(parent) if isinstance(parent, dict) else range(len(parent)):
            found.append((parent, key))
            if isinstance(parent[key], dict | list):
                rest.append(parent[key])
    return found


def dump_json(rng: Random, document: Any) -> bytes:
    """The document as JSON, in one of the forms that writers give it, NaN and lone surrogates included."""
    text = json.dumps(
        document,
        ensure_ascii=rng.random() < 0.5,
        # Every level of a deep document indents all that is in it.
        indent=rng.choice((None, None, 1)) if _size(document) < _MAX_SIZE // 10 else None,
        separators=rng.choice((None, (",", ":"))),
    )
    return text.encode("utf-8", "surrogatepass")


def mutate_json_text(rng: Random, content: bytes) -> bytes:
    """Pieces of JSON in places where they mostly do not belong."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        start = rng.randrange(len(content) + 1)
        stop = rng.choice((start, start, min(len(content), start + rng.randrange(1, 9))))
        content = content[:start] + rng.choice(_PIECES) + content[stop:]
    return content
