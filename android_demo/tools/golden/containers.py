"""Vectors of the ``.lnlp`` container: one small file with every encoding, and damaged copies of it."""

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
from lite_nlp.compress.lnlp.encodings import (
    ClusteredTensor,
    EncodedTensor,
    encode_fp16,
    encode_fp32,
    encode_int64,
    encode_kmeans,
    encode_kmeans_rans,
    encode_pruned,
)
from lite_nlp.compress.lnlp.limits import limits_of
from lite_nlp.core.errors import ContainerError

__all__ = ["container_vectors"]

#: What a reader must say of a damaged file; ``payload`` only when the tensor is decoded.
Failure = Literal["not a container", "newer", "truncated", "altered", "malformed", "too large", "payload"]

#: What the Python reader's message looks like for each failure.
_SIGNS: Final[Mapping[Failure, str]] = {
    "not a container": r"not a container",
    "newer": r"newer format",
    "truncated": r"truncated",
    "altered": r"altered",
    "too large": r".*expected at most \d+ (weights|bytes of|bytes, found a size|files|tensors|aliases)",
    "malformed": r"header|file '",
    "payload": r"tensor 'bad'",
}

#: Sizes of a file and of a codebook whose limits are told.
_LIMIT_CASES: Final = ((0, 1), (100, 512), (1_000_000, 513), (1 << 26, 1024), (1 << 40, 4096))

_PREAMBLE: Final = Struct("<8sIIIIQ")
_START: Final = _PREAMBLE.size + 4
_DIGEST_BYTES: Final = 32


@dataclass(frozen=True)
class _Parts:
    """A container taken apart: the header's JSON, and the sections behind it."""

    header: dict[str, Any]
    body: bytes

    @classmethod
    def of(cls, content: bytes) -> "_Parts":
        stored = int.from_bytes(content[12:16], "little")
        return cls(
            json.loads(zlib.decompress(content[_START : _START + stored])), content[_START + stored : -_DIGEST_BYTES]
        )

    def join(self, *, raw: bytes | None = None, stored: bytes | None = None, size: int | None = None) -> bytes:
        """Serialize a file with valid checksums, whatever its content."""
        raw = json.dumps(self.header, sort_keys=True, separators=(",", ":")).encode() if raw is None else raw
        stored = zlib.compress(raw, 9) if stored is None else stored
        total = _START + len(stored) + len(self.body) + _DIGEST_BYTES
        preamble = _PREAMBLE.pack(
            b"\x89LNLP\r\n\x1a", 1, len(stored), len(raw) if size is None else size, zlib.crc32(stored), total
        )
        content = preamble + zlib.crc32(preamble).to_bytes(4, "little") + stored + self.body
        return content + hashlib.sha256(content).digest()


def container_vectors() -> dict[str, Any]:
    """The file, its tensors, and damaged copies with the failure that each must give."""
    tensors = _tensors()
    aliases = {"output.weight": "coded", "äöü.weight": "raw"}
    content = container_bytes(
        tensors=tensors,
        files={
            "config.toml": b'name = "small"\n',
            "empty": b"",
            "notes.txt": "Übung macht den Meister.\n".encode() * 9,
        },
        metadata={"kind": "model", "name": "kleines Modell ✓", "nested": {"list": [1, 2.5, None, True, "x"]}},
        aliases=aliases,
    )
    parsed = parse_container(content)
    state = parsed.state_dict()
    return {
        "container": _text(content),
        "metadata": parsed.metadata,
        "files": {name: _text(file) for name, file in parsed.files.items()},
        "aliases": parsed.aliases,
        "tensors": {
            name: {
                "encoding": tensor.encoding,
                "shape": list(tensor.shape),
                "values": _text(state[name].astype("<i8" if tensor.encoding == "int64" else "<f4").tobytes()),
            }
            for name, tensor in tensors.items()
        },
        "limits": [[size, centroids, limits_of(size, centroids)] for size, centroids in _LIMIT_CASES],
        "damaged": [*_edited(content), *_rebuilt(content)],
    }


def _tensors() -> dict[str, EncodedTensor]:
    random = np.random.default_rng(11)
    normal = random.normal(size=(6, 7)).astype(np.float32)
    special = np.array([0.0, -0.0, 1e-45, -1e-40, 3.4e38, -1.5, np.inf, np.nan], np.float32)
    half = np.array([0.0, -0.0, 6e-8, 6.1e-5, 65504.0, -1.5, 0.333251953125, 2.0], np.float32)
    sparse = np.where(random.random((5, 9)) < 0.3, random.normal(size=(5, 9)), 0.0).astype(np.float32)

    def clustered(shape: tuple[int, ...], centroids: int, scale: float = 1.0) -> ClusteredTensor:
        skewed = np.minimum(random.geometric(0.2, size=shape) - 1, centroids - 1)
        skewed.reshape(-1)[:centroids] = np.arange(min(centroids, skewed.size))
        return ClusteredTensor((scale * random.normal(size=centroids)).astype(np.float32), skewed.astype(np.uint16))

    coded = {
        "coded": clustered((40, 61), 30),
        "coded.wide": clustered((3, 1500), 300, 1e6),
        "coded.one": ClusteredTensor(np.array([0.25], np.float32), np.zeros((7,), np.uint16)),
    }
    return {
        "raw": encode_fp32(normal),
        "raw.special": encode_fp32(special),
        "raw.scalar": encode_fp32(np.array(2.5, np.float32)),
        "raw.empty": encode_fp32(np.zeros((0, 4), np.float32)),
        "half": encode_fp16(half.reshape(2, 4)),
        "counter": encode_int64(np.array([0, -1, 1 << 62, -(1 << 63)], np.int64)),
        "pruned": encode_pruned(sparse),
        "pruned.all": encode_pruned(np.zeros((3, 3), np.float32)),
        "clustered": encode_kmeans(clustered((9, 11), 20)),
        "clustered.two": encode_kmeans(clustered((13,), 2)),
        "clustered.one": encode_kmeans(clustered((4,), 1)),
        "clustered.256": encode_kmeans(clustered((300,), 256)),
        "clustered.300": encode_kmeans(clustered((310,), 300, 1e6)),
        **encode_kmeans_rans(coded),
    }


def _edited(content: bytes) -> list[dict[str, Any]]:
    """Damage without new checksums: truncation, appended bytes, overwritten bytes."""
    stored = int.from_bytes(content[12:16], "little")
    body = _START + stored
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
    for keep in (0, 1, 7, 8, 11, 12, 35, 36, body - 1, body, body + 5, len(content) - 33, len(content) - 1):
        add(f"the first {keep} bytes", "truncated", keep=keep)
    add("one byte more", "altered", append=b"\0")
    add("twice", "altered", append=content[:64])
    for offset in range(8):
        add(f"magic, byte {offset}", "not a container", at=(offset, bytes([content[offset] ^ 1])))
    add("line ends translated", "not a container", at=(5, b"\n"))
    add("version 2", "newer", at=(8, b"\x02"))
    add("version 2 and cut off", "newer", keep=12, at=(8, b"\x02"))
    add("version 0", "altered", at=(8, b"\x00"))
    for offset in (12, 16, 20, 24, 31, 32, 35):
        add(f"preamble, byte {offset}", "altered", at=(offset, bytes([content[offset] ^ 0x40])))
    for offset in (_START, _START + stored // 2, body - 1):
        add(f"header, byte {offset - _START}", "altered", at=(offset, bytes([content[offset] ^ 1])))
    for offset in (body, body + 100, len(content) - _DIGEST_BYTES - 1):
        add(f"section, byte {offset - body}", "altered", at=(offset, bytes([content[offset] ^ 0x80])))
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
    "header: tensor, length -1": ("malformed", -1, "tensors", 0, "length"),
    "header: tensor, length as text": ("malformed", "4", "tensors", 0, "length"),
    "header: tensor, length true": ("malformed", True, "tensors", 0, "length"),
    "header: tensor, length 1.0": ("malformed", 1.0, "tensors", 0, "length"),
    "header: tensor, length 2^63": ("malformed", 1 << 63, "tensors", 0, "length"),
    "header: tensor, no name": ("malformed", None, "tensors", 0, "name"),
    "header: tensor, no crc32": ("malformed", None, "tensors", 0, "crc32"),
    "header: tensor, shape as text": ("malformed", "2", "tensors", 0, "shape"),
    "header: tensor, shape negative": ("malformed", [-1, 4], "tensors", 0, "shape"),
    "header: tensor, shape of nine dimensions": ("malformed", [1] * 9, "tensors", 0, "shape"),
    "header: tensor, unknown encoding": ("malformed", "fp8", "tensors", 0, "encoding"),
    "header: tensor, the name of another": ("malformed", "half", "tensors", 0, "name"),
    "header: too many weights": ("too large", [1 << 28, 2], "tensors", 0, "shape"),
    "header: too many weights in an empty shape": ("too large", [0, 1 << 60], "tensors", 0, "shape"),
    "header: too many tensors": ("too large", [None] * 10_001, "tensors"),
    "header: too many files": ("too large", [None] * 65, "files"),
    "header: too many aliases": ("too large", {f"a{index}": "raw" for index in range(10_001)}, "aliases"),
    "header: too many values": ("malformed", [0] * 100_000, "metadata", "x"),
    "header: tensor, encoding a list": ("malformed", [], "tensors", 0, "encoding"),
    "header: alias of nothing": ("malformed", "none", "aliases", "b"),
    "header: alias of its own name": ("malformed", "raw", "aliases", "raw"),
    "header: alias of a number": ("malformed", 1, "aliases", "b"),
    "sections longer than the file": ("altered", 1 << 40, "tensors", 0, "length"),
    "sections shorter than the file": ("altered", 1, "tensors", 0, "length"),
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


def _rebuilt(content: bytes) -> list[dict[str, Any]]:
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
    for name, value in _BAD_VALUES.items():
        raw = b'{"aliases":{},"files":[],"metadata":{"x":%s},"tensors":[]}' % value
        add(f"header: {name}", "malformed", _Parts({}, b"").join(raw=raw))
    add("header: trailing bytes after the stream", "malformed", small.join(stored=zlib.compress(b"{}") + b"x", size=2))
    for key in small.header:
        without = {other: value for other, value in small.header.items() if other != key}
        add(f"header: no {key}", "malformed", _Parts(without, small.body).join())
    for name, (failure, value, *place) in _BAD_FIELDS.items():
        parts = _Parts.of(_small())
        target: Any = parts.header
        for step in place[:-1]:
            target = target[step]
        target[place[-1]] = value
        add(name, failure, parts.join())
    for name, tensor in _bad_payloads().items():
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


def _bad_payloads() -> dict[str, EncodedTensor]:
    """Payloads that do not fit their encoding, each with one defect."""
    random = np.random.default_rng(12)
    clustered = ClusteredTensor(np.array([-1.0, 0.0, 1.0], np.float32), random.integers(0, 3, 50).astype(np.uint16))
    kmeans, rans = encode_kmeans(clustered).payload, encode_kmeans_rans({"x": clustered})["x"].payload
    pruned = encode_pruned(np.array([0.0, 1.0, 2.0], np.float32)).payload
    centroids = 4 + 2 * 3
    # One frequency after the other, each of one or two bytes; behind them the number of lanes.
    frequencies_end = centroids
    for _ in range(3):
        while rans[frequencies_end] & 0x80:
            frequencies_end += 1
        frequencies_end += 1
    first = rans[centroids]

    # 4098 indices fill three lanes; for a shape of 4097 the last one is padding, but not the most frequent index.
    filled = ClusteredTensor(clustered.codebook, np.repeat(np.arange(3, dtype=np.uint16), (4090, 4, 4)))
    padded = encode_kmeans_rans({"x": filled})["x"].payload

    def patched(payload: bytes, offset: int, patch: bytes) -> bytes:
        return payload[:offset] + patch + payload[offset + len(patch) :]

    bad: dict[str, tuple[str, tuple[int, ...], bytes]] = {
        "fp32 a byte short": ("fp32", (2,), bytes(7)),
        "fp32 a byte long": ("fp32", (2,), bytes(9)),
        "fp16 of the length of fp32": ("fp16", (2,), bytes(8)),
        "int64 short": ("int64", (1,), bytes(4)),
        "pruned without bitmap": ("pruned", (9,), b"\x00"),
        "pruned with a value too few": ("pruned", (3,), pruned[:-4]),
        "pruned with a value too many": ("pruned", (3,), pruned + bytes(4)),
        "pruned with bits after the last weight": ("pruned", (3,), patched(pruned, 0, b"\x0e") + bytes(4)),
        "kmeans of three bytes": ("kmeans", (50,), kmeans[:3]),
        "kmeans with kind 3": ("kmeans", (50,), patched(kmeans, 0, b"\x03")),
        "kmeans with the wrong width": ("kmeans", (50,), patched(kmeans, 1, b"\x03")),
        "kmeans with 4097 centroids": ("kmeans", (50,), patched(kmeans, 2, b"\x00\x10") + bytes(8192)),
        "kmeans with an index too large": ("kmeans", (50,), patched(kmeans, centroids, b"\xff")),
        "kmeans a byte short": ("kmeans", (50,), kmeans[:-1]),
        "kmeans a byte long": ("kmeans", (50,), kmeans + b"\x00"),
        "kmeans with bits after the last index": ("kmeans", (50,), patched(kmeans, -1, bytes([kmeans[-1] | 0x80]))),
        "rans with scale bits 13 for 3 centroids": (
            "kmeans+rans",
            (50,),
            patched(rans, 1, b"\x0d")[:centroids] + b"\xfe\x3f\x01\x01" + rans[frequencies_end:],
        ),
        "rans with a number of four bytes": (
            "kmeans+rans",
            (50,),
            rans[:centroids] + b"\x81\x80\x80\0" + rans[centroids + 1 :],
        ),
        "rans with a number not in its shortest form": (
            "kmeans+rans",
            (50,),
            rans[:centroids] + bytes([rans[centroids], rans[centroids + 1] | 0x80, 0]) + rans[centroids + 2 :],
        ),
        "rans with other padding": ("kmeans+rans", (4097,), padded),
        "rans with scale bits 7": ("kmeans+rans", (50,), patched(rans, 1, b"\x07")),
        "rans with scale bits 16": ("kmeans+rans", (50,), patched(rans, 1, b"\x10")),
        "rans with another sum of frequencies": ("kmeans+rans", (50,), patched(rans, centroids, bytes([first ^ 1]))),
        "rans with an endless number": ("kmeans+rans", (50,), rans[:centroids] + b"\xff" * 40),
        "rans without lanes": ("kmeans+rans", (50,), patched(rans, frequencies_end, bytes(4))),
        "rans with more lanes than weights": (
            "kmeans+rans",
            (50,),
            patched(rans, frequencies_end, b"\x33\x00\x00\x00"),
        ),
        "rans with too few lanes for so many weights": ("kmeans+rans", (5000,), rans),
        "rans with a state below 2^16": ("kmeans+rans", (50,), patched(rans, frequencies_end + 4, b"\xff\xff\x00\x00")),
        "rans with another state": ("kmeans+rans", (50,), patched(rans, frequencies_end + 4, b"\x00\x00\x01\x01")),
        "rans with half a word": ("kmeans+rans", (50,), rans + b"\x00"),
        "rans with a word too many": ("kmeans+rans", (50,), rans + b"\x00\x00"),
        "rans with a word too few": ("kmeans+rans", (50,), rans[:-2]),
        "rans of no weights": ("kmeans+rans", (0,), rans),
    }
    return {name: EncodedTensor(shape, encoding, payload) for name, (encoding, shape, payload) in bad.items()}


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
