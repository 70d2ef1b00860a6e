"""Damaged copies of a container: cut off, overwritten, and rebuilt with a valid checksum over invalid content."""

import base64
import hashlib
import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final, Literal

import numpy as np

from lite_nlp.compress.lnlp.container import container_bytes, parse_container
from lite_nlp.compress.lnlp.encodings import encode_fp16, encode_fp32
from lite_nlp.compress.lnlp.vocabulary import encode_vocabulary
from lite_nlp.core.errors import ContainerError
from tools.golden.damaged_payloads import bad_payloads

__all__ = ["apply_damage", "damaged_vectors"]

#: What a reader must say of a damaged file; ``payload`` only when the tensor is decoded.
Failure = Literal["not a container", "newer", "older", "truncated", "altered", "malformed", "too large", "payload"]

#: What the Python reader's message looks like for each failure.
_SIGNS: Final[Mapping[Failure, str]] = {
    "not a container": r"not a container",
    "newer": r"newer format",
    "older": r"older format",
    "truncated": r"truncated",
    "altered": r"altered",
    "too large": r".*expected at most \d+ (weights|bytes of|bytes, found a size|files|tensors|aliases)",
    "malformed": r"header|sections|file '",
    "payload": r"tensor 'bad'",
}

_PREAMBLE: Final = Struct("<8sIIII")
_DIGEST_BYTES: Final = 32


@dataclass(frozen=True)
class _Parts:
    """A container taken apart: the header's JSON, the files stored as they are, and the sections behind it."""

    header: dict[str, Any]
    plain: bytes
    body: bytes

    @classmethod
    def of(cls, content: bytes) -> "_Parts":
        _, _, _, stored, size = _PREAMBLE.unpack_from(content)
        inflated = zlib.decompress(content[_PREAMBLE.size : _PREAMBLE.size + stored])
        body = content[_PREAMBLE.size + stored : -_DIGEST_BYTES]
        return cls(json.loads(inflated[:size]), inflated[size:], body)

    def join(self, *, raw: bytes | None = None, stored: bytes | None = None, size: int | None = None) -> bytes:
        """Serialize a file with a valid checksum, whatever its content."""
        raw = json.dumps(self.header, sort_keys=True, separators=(",", ":")).encode() if raw is None else raw
        stored = zlib.compress(raw + self.plain, 9) if stored is None else stored
        total = _PREAMBLE.size + len(stored) + len(self.body) + _DIGEST_BYTES
        size = len(raw) if size is None else size
        content = _PREAMBLE.pack(b"\x89LNLP\r\n\x1a", 2, total, len(stored), size) + stored + self.body
        return content + hashlib.sha256(content).digest()


def damaged_vectors(content: bytes, tokenizer: bytes) -> list[dict[str, Any]]:
    """Damaged copies of a file, with the failure that each must give.

    Args:
        content: The file.
        tokenizer: One that is stored by its merges.
    """
    return [*_edited(content), *_rebuilt(tokenizer)]


def _edited(content: bytes) -> list[dict[str, Any]]:
    """Damage without a new checksum: truncation, appended bytes, overwritten bytes."""
    body = _PREAMBLE.size + int.from_bytes(content[16:20], "little")
    vectors = []

    def add(
        name: str,
        failure: Failure,
        *,
        keep: int | None = None,
        append: bytes = b"",
        at: tuple[int, bytes] | None = None,
    ) -> None:
        edits = [] if at is None else [[at[0], at[1].hex()]]
        vector = {"name": name, "keep": keep, "append": append.hex(), "edits": edits}
        _confirm(apply_damage(content, vector), failure, name)
        vectors.append({**vector, "failure": failure})

    # A beginning of the file is a truncated file, down to no byte at all.
    for keep in (0, 1, 7, 8, 11, 12, 23, 24, body - 1, body, body + 5, len(content) - 33, len(content) - 1):
        add(f"the first {keep} bytes", "truncated", keep=keep)
    add("one byte more", "altered", append=b"\0")
    add("twice", "altered", append=content[:64])
    for offset in range(8):
        add(f"magic, byte {offset}", "not a container", at=(offset, bytes([content[offset] ^ 1])))
    add("line ends translated", "not a container", at=(5, b"\n"))
    add("version 3", "newer", at=(8, b"\x03"))
    add("version 3 and cut off", "newer", keep=12, at=(8, b"\x03"))
    add("version 1", "older", at=(8, b"\x01"))
    add("version 0", "older", at=(8, b"\x00"))
    add("length, one less", "altered", at=(12, (len(content) - 1).to_bytes(4, "little")))
    add("length, one more", "truncated", at=(12, (len(content) + 1).to_bytes(4, "little")))
    for offset in (16, 19, 20, 23, 24, body - 1, body, body + 100):
        add(f"a byte, {offset}", "altered", at=(offset, bytes([content[offset] ^ 0x40])))
    add("digest", "altered", at=(len(content) - 1, bytes([content[-1] ^ 1])))
    return vectors


def apply_damage(content: bytes, vector: Mapping[str, Any]) -> bytes:
    """Apply a vector's edits to a file: overwrite, then truncate, then append."""
    damaged = bytearray(content)
    for offset, patch in vector["edits"]:
        new = bytes.fromhex(patch)
        damaged[offset : offset + len(new)] = new
    return bytes(damaged[: vector["keep"]]) + bytes.fromhex(vector["append"])


#: Headers wrong in one field: the failure, the field's value, and the way to it.
_BAD_FIELDS: Final[dict[str, tuple[Any, ...]]] = {
    "header: metadata a list": ("malformed", [], "metadata"),
    **{
        f"header: file name {name!r}": ("malformed", name, "files", 0, "name")
        for name in ("../up", ".hidden", "a/b", "", "x" * 129, "a\\b", "ä")
    },
    "header: tensor, length -1": ("malformed", -1, "tensors", "lengths", 0),
    "header: tensor, length as text": ("malformed", "4", "tensors", "lengths", 0),
    "header: tensor, length true": ("malformed", True, "tensors", "lengths", 0),
    "header: tensor, length 1.0": ("malformed", 1.0, "tensors", "lengths", 0),
    "header: tensor, length 2^63": ("malformed", 1 << 63, "tensors", "lengths", 0),
    "header: tensor, no name": ("malformed", None, "tensors", "names", 0),
    "header: tensors, no lengths": ("malformed", None, "tensors", "lengths"),
    "header: tensors, a shape too few": ("malformed", [[4]], "tensors", "shapes"),
    "header: tensors, shapes an object": ("malformed", {}, "tensors", "shapes"),
    "header: tensors, a list": ("malformed", [], "tensors"),
    "header: tensor, shape as text": ("malformed", "2", "tensors", "shapes", 0),
    "header: tensor, shape negative": ("malformed", [-1, 4], "tensors", "shapes", 0),
    "header: tensor, shape of nine dimensions": ("malformed", [1] * 9, "tensors", "shapes", 0),
    "header: tensor, unknown encoding": ("malformed", "fp8", "tensors", "encodings", 0),
    "header: tensor, the name of another": ("malformed", "half", "tensors", "names", 0),
    "header: too many weights": ("too large", [1 << 28, 2], "tensors", "shapes", 0),
    "header: too many weights in an empty shape": ("too large", [0, 1 << 60], "tensors", "shapes", 0),
    "header: too many tensors": (
        "too large",
        {key: [None] * 10_001 for key in ("names", "shapes", "encodings", "lengths")},
        "tensors",
    ),
    "header: too many files": ("too large", [None] * 65, "files"),
    "header: too many aliases": ("too large", {f"a{index}": "raw" for index in range(10_001)}, "aliases"),
    "header: too many values": ("malformed", [0] * 100_000, "metadata", "x"),
    "header: tensor, encoding a list": ("malformed", [], "tensors", "encodings", 0),
    "header: alias of nothing": ("malformed", "none", "aliases", "b"),
    "header: alias of its own name": ("malformed", "raw", "aliases", "raw"),
    "header: alias of a number": ("malformed", 1, "aliases", "b"),
    "header: file, a list": ("malformed", [], "files", 0),
    "header: file, length -1": ("malformed", -1, "files", 0, "length"),
    "header: file, length null": ("malformed", None, "files", 0, "length"),
    "sections longer than the file": ("malformed", 1 << 40, "tensors", "lengths", 0),
    "sections shorter than the file": ("malformed", 1, "tensors", "lengths", 0),
    "sections of a file more": ("malformed", 5, "files", 0, "length"),
    "file: 17 MiB stated": ("too large", 17 << 20, "files", 0, "size"),
    "file: larger than stated": ("malformed", 1, "files", 0, "size"),
    "file: smaller than stated": ("malformed", 999, "files", 0, "size"),
}


#: JSON that is refused wherever it stands.
_BAD_VALUES: Final[dict[str, bytes]] = {
    "NaN": b"NaN",
    "an infinite number": b"1e999",
    "half of a surrogate pair": b'"\\ud83d"',
    "halves in the wrong order": b'"\\ude00\\ud83d"',
    "half a pair as a key": b'{"\\udfff":0}',
    "an integer of 65 bits": b"9223372036854775808",
    "257 levels": b"[" * 255 + b"]" * 255,
    "two equal keys": b'{"a":0,"a":0}',
}


def _rebuilt(tokenizer: bytes) -> list[dict[str, Any]]:
    """Hostile files: valid checksums over invalid content."""
    vectors = []

    def add(name: str, failure: Failure, damaged: bytes) -> None:
        _confirm(damaged, failure, name)
        vectors.append({"name": name, "content": _text(damaged), "failure": failure})

    small = _Parts.of(_small())
    add("header: no zlib stream", "malformed", small.join(stored=b"nothing"))
    add("header: larger than stated", "malformed", small.join(size=10))
    add("header: smaller than stated", "malformed", small.join(size=100_000))
    add("header: 5 MiB stated", "too large", small.join(size=5 << 20))
    add("header: no JSON", "malformed", small.join(raw=b"{"))
    add("header: not UTF-8", "malformed", small.join(raw=b'{"\xff": 1}'))
    add("header: a list", "malformed", small.join(raw=b"[]"))
    columns = b'{"encodings":[],"lengths":[],"names":[],"shapes":[]}'
    for name, value in _BAD_VALUES.items():
        raw = b'{"aliases":{},"files":[],"metadata":{"x":%s},"tensors":%s}' % (value, columns)
        add(f"header: {name}", "malformed", _Parts({}, b"", b"").join(raw=raw))
    whole = json.dumps(small.header).encode() + small.plain
    stored, size = zlib.compress(whole), len(whole) - len(small.plain)
    add("header: a byte after the stream", "malformed", small.join(stored=stored + b"x", size=size))
    add("header: a stream that is cut off", "malformed", small.join(stored=stored[:-1], size=size))
    add(
        "header: a byte in the stream after the files",
        "malformed",
        small.join(stored=zlib.compress(whole + b"x"), size=size),
    )
    add("header: a byte of the files too few", "malformed", small.join(stored=zlib.compress(whole[:-1]), size=size))
    for name, damaged in _bad_vocabularies(tokenizer).items():
        section = _Parts.of(container_bytes(tensors={}, files={}, metadata={}))
        section.header["files"] = [{"length": len(damaged[0]), "name": "t.json", "size": damaged[1]}]
        add(f"file: {name}", "malformed", _Parts(section.header, b"", damaged[0]).join())
    for key in small.header:
        without = {other: value for other, value in small.header.items() if other != key}
        add(f"header: no {key}", "malformed", _Parts(without, small.plain, small.body).join())
    for name, (failure, value, *place) in _BAD_FIELDS.items():
        parts = _Parts.of(_small())
        target: Any = parts.header
        for step in place[:-1]:
            target = target[step]
        target[place[-1]] = value
        add(name, failure, parts.join())
    for name, tensor in bad_payloads().items():
        add(f"payload: {name}", "payload", container_bytes(tensors={"bad": tensor}, files={}, metadata={}))
    return vectors


def _small() -> bytes:
    values = np.arange(4, dtype=np.float32)
    return container_bytes(
        tensors={"raw": encode_fp32(values), "half": encode_fp16(values)},
        files={"a.txt": b"a few words"},
        metadata={"kind": "model"},
        aliases={"tied": "raw"},
    )


def _bad_vocabularies(content: bytes) -> dict[str, tuple[bytes, int]]:
    """Stored merges with one defect each, and the size that is stated."""
    stored, size = encode_vocabulary(content), len(content)
    if stored is None:
        raise ValueError("expected a tokenizer that its merges give back, found another")
    start = 7 + int.from_bytes(stored[5:7], "little")

    def rebuilt(skeleton: bytes) -> bytes:
        return stored[:5] + len(skeleton).to_bytes(2, "little") + skeleton + stored[start:]

    return {
        "merges of six bytes": (stored[:6], size),
        "merges without text": (rebuilt(b""), size),
        "merges with text of two parts": (rebuilt(zlib.compress(b"{\0}")), size),
        "merges with text of four parts": (rebuilt(zlib.compress(b"{\0\0\0}")), size),
        "merges with text that goes on": (rebuilt(zlib.compress(bytes(2)) + b"x"), size),
        "merges with text of 64 KiB and more": (rebuilt(zlib.compress(bytes(2) + b" " * (1 << 16))), size),
        "merges without special tokens": (bytes(2) + stored[2:], size),
        "too many merges": (stored[:2] + (100_001).to_bytes(3, "little") + stored[5:], size),
        "a merge more": (stored[:2] + (stored[2] + 1).to_bytes(1, "little") + stored[3:], size),
        "merges and a byte more": (stored + b"\1", size),
        "merges and a zero more": (stored + b"\0", size),
        "merges of types to come": (stored[:start] + b"\xff" * 9, size),
        "merges of a larger document": (stored, size + 1),
        "merges of a smaller document": (stored, size - 1),
        "merges of a document without room": (stored, 10),
    }


def _confirm(content: bytes, failure: Failure, name: str) -> None:
    """Check that the Python reader gives the expected failure."""
    try:
        parse_container(content).state_dict()
    except ContainerError as error:
        message = str(error)
    else:
        raise ValueError(f"{name}: expected a file that is refused, found an accepted one")
    found = next((kind for kind, sign in _SIGNS.items() if re.match(sign, message)), None)
    if found != failure:
        raise ValueError(f"{name}: expected the failure {failure!r}, found {found!r}: {message}")


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
