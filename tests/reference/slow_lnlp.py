"""A reader of ``.lnlp`` files as compress/FORMAT.md has it, word for word: plain integers and floats, one at a time."""

import hashlib
import json
import math
import struct
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any


def read(content: bytes) -> tuple[dict[str, Any], dict[str, bytes], dict[str, tuple[list[int], list[float]]]]:
    """Header, files by name, and tensors by name: shape and weights."""
    assert content[:8] == bytes.fromhex("894C4E4C500D0A1A")
    version, length, stream, size = struct.unpack_from("<4I", content, 8)
    assert version == 2
    assert length == len(content)
    assert hashlib.sha256(content[:-32]).digest() == content[-32:]
    inflated = zlib.decompress(content[24 : 24 + stream])
    header = json.loads(inflated[:size])
    plain, at, files, tensors = size, 24 + stream, {}, {}
    for entry in header["files"]:
        if "length" in entry:
            files[entry["name"]] = merges(content[at : at + entry["length"]])
            assert len(files[entry["name"]]) == entry["size"]
            at += entry["length"]
        else:
            files[entry["name"]] = inflated[plain : plain + entry["size"]]
            plain += entry["size"]
    assert plain == len(inflated)
    columns = [header["tensors"][key] for key in ("names", "shapes", "encodings", "lengths")]
    for name, shape, encoding, count in zip(*columns, strict=True):
        tensors[name] = (shape, DECODERS[encoding](content[at : at + count], shape))
        at += count
    assert at == len(content) - 32
    return header, files, tensors


class Bits:
    """A bit string at the start of some bytes."""

    def __init__(self, content: bytes) -> None:
        self.content, self.at = content, 0

    def bit(self) -> int:
        self.at += 1
        return self.content[(self.at - 1) // 8] >> (self.at - 1) % 8 & 1

    def field(self, width: int) -> int:
        return sum(self.bit() << place for place in range(width))

    def number(self) -> int:
        m = 0
        while not self.bit():
            m += 1
        return (1 << m) + self.field(m) - 1

    def signed(self) -> int:
        return unfold(self.number())

    def list(self, count: int) -> list[int]:
        if count == 0:
            return []
        w, b = self.field(5), self.signed()
        if w == 31:
            return [b] * count
        quotients = []
        for _ in range(count):
            quotients.append(0)
            while not self.bit():
                quotients[-1] += 1
        return [b + unfold((quotient << w) + self.field(w)) for quotient in quotients]

    def rest(self) -> bytes:
        while self.at % 8:
            assert not self.bit()
        return self.content[self.at // 8 :]


def unfold(folded: int) -> int:
    return folded // 2 if folded % 2 == 0 else -(folded + 1) // 2


def fp32(value: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def codebook(bits: Bits) -> list[float]:
    w = 32 if bits.field(1) else 16
    size = bits.number() + 1
    keys = [bits.field(w)]
    for gap in bits.list(size - 1):
        keys.append(keys[-1] + gap + 1)
    top, form = 1 << (w - 1), ("<H", "<e") if w == 16 else ("<I", "<f")
    patterns = [key - top if key >= top else 2 * top - 1 - key for key in keys]
    return [struct.unpack(form[1], struct.pack(form[0], pattern))[0] for pattern in patterns]


def packed(content: bytes, n: int, w: int) -> list[int]:
    assert len(content) == -(-n * w // 8)
    bits = Bits(content)
    numbers = [bits.field(w) for _ in range(n)]
    assert bits.rest() == b""
    return numbers


def stream(
    content: bytes, n: int, scale_bits: int, table: Callable[[int], list[int]], take: Callable[[int, int], None]
) -> int:
    """Calls ``take`` with each symbol's index and itself; returns the number carried."""
    lanes = -(-n // 8192)
    states = list(struct.unpack_from(f"<{lanes}I", content))
    words = iter(struct.unpack(f"<{(len(content) - 4 * lanes) // 2}H", content[4 * lanes :]))
    for i in range(n):
        x, f = states[i % lanes], table(i)
        slot, s, c = x % (1 << scale_bits), 0, 0
        while slot >= c + f[s]:
            c += f[s]
            s += 1
        x = f[s] * (x >> scale_bits) + slot - c
        if x < 1 << 16:
            x = (x << 16) + next(words)
        states[i % lanes] = x
        take(i, s)
    assert next(words, None) is None
    assert states[1:] == [1 << 16] * (lanes - 1)
    assert 0 <= states[0] - (1 << 16) < 1 << 16
    return states[0] - (1 << 16)


def kmeans(content: bytes, shape: list[int]) -> list[float]:
    bits = Bits(content)
    centroids = codebook(bits)
    indices = packed(bits.rest(), math.prod(shape), max(1, (len(centroids) - 1).bit_length()))
    return [centroids[index] for index in indices]


def kmeans_rans(content: bytes, shape: list[int]) -> list[float]:
    bits = Bits(content)
    centroids = codebook(bits)
    scale_bits = 8 + bits.field(3)
    frequencies, last = [], (1 << scale_bits) // len(centroids)
    for difference in bits.list(len(centroids)):
        last += difference
        frequencies.append(last)
    assert sum(frequencies) == 1 << scale_bits
    weights: list[float] = []
    carried = stream(
        bits.rest(), math.prod(shape), scale_bits, lambda _: frequencies, lambda _, s: weights.append(centroids[s])
    )
    assert carried == 0
    return weights


def matrix(shape: list[int]) -> tuple[int, int]:
    return (1, math.prod(shape)) if len(shape) < 2 else (shape[0], math.prod(shape[1:]))


def weight(level: int, step: float, exponent: int) -> float:
    sqrt2 = struct.unpack("<f", bytes.fromhex("F304B53F"))[0]
    scale = fp32((fp32(step * sqrt2) if exponent % 2 else step) * 2.0 ** (exponent // 2))
    return fp32(level * scale)


def grid(content: bytes, shape: list[int]) -> list[float]:
    rows, columns = matrix(shape)
    step = struct.unpack_from("<f", content)[0]
    bits = Bits(content[4:])
    w, least = bits.field(5), bits.signed()
    r, c = bits.list(rows), bits.list(columns)
    levels = [least + above for above in packed(bits.rest(), rows * columns, w)]
    return [weight(level, step, r[i // columns] + c[i % columns]) for i, level in enumerate(levels)]


def grid_rans(content: bytes, shape: list[int]) -> list[float]:
    rows, columns = matrix(shape)
    bits = Bits(content[2:])
    form, center, base = bits.field(3), bits.signed(), bits.field(7)
    row_width, column_width = bits.field(3), bits.field(3)
    tilts = tuple(bits.list(8))
    row_classes = bits.list(rows) if row_width else [0] * rows
    column_classes = bits.list(columns) if column_width else [0] * columns
    r, c = bits.list(rows), bits.list(columns)
    escapes = iter(bits.list(bits.number()))
    levels: list[int] = []

    def klass(i: int) -> int:
        chosen = base + row_width * row_classes[i // columns] + column_width * column_classes[i % columns]
        return min(max(chosen, 0), 72)

    def take(i: int, s: int) -> None:
        reach = len(frequencies(form, klass(i), tilts)) // 2 - 1
        level = (s + 1) // 2 if s % 2 else -(s // 2)
        if s == 2 * reach + 1:
            level = next(escapes)
            assert abs(level) > reach
        levels.append(level + center)

    carried = stream(bits.rest(), rows * columns, 12, lambda i: frequencies(form, klass(i), tilts), take)
    assert next(escapes, None) is None
    step = struct.unpack("<f", struct.pack("<H", carried) + content[:2])[0]
    return [weight(level, step, r[i // columns] + c[i % columns]) for i, level in enumerate(levels)]


@cache
def powers(h: int) -> list[float]:
    root = 0.5
    for _ in range(h):
        root = math.sqrt(root)
    p = [1.0]
    for _ in range((1 << h) - 1):
        p.append(p[-1] * root)
    return p


def table_weight(e: int) -> int:
    return math.floor(powers(8)[e % 256] * 2**30) >> min(e // 256, 31)


@cache
def exponents(form: int, j: int) -> list[int]:
    found = []
    for m in range(256):
        u = max(m - 0.5, 0.0) * (powers(5)[j % 32] * 2.0 ** (-(j // 32)))
        h = math.sqrt(u)
        q = math.sqrt(h)
        g = (h, h * q, u, u * q, u * h, u * u)[form]
        found.append(int(min(math.floor(256 * g), 16384)))
    return found


@cache
def mean(form: int, j: int) -> float:
    weights = [table_weight(e) for e in exponents(form, j)]
    return sum(2 * m * w for m, w in enumerate(weights)) / (2 * sum(weights) - weights[0])


@cache
def scale_of(form: int, klass: int) -> int:
    t = klass - 48
    target = powers(2)[-t % 4] * 2.0 ** -(-t // 4)
    return next(j for j in range(-320, 321) if mean(form, j) >= target)


@cache
def frequencies(form: int, klass: int, tilts: tuple[int, ...]) -> list[int]:
    tilted = [*tilts, *([0] * 248)]
    shape = exponents(form, scale_of(form, klass))
    weights = [table_weight(e + 1024 + 32 * z) for e, z in zip(shape, tilted, strict=True)]
    total = 2 * sum(weights) - weights[0]
    reach = max(m for m in range(256) if 4078 * weights[m] >= total)
    found, c, before = [], 0, 0
    for s in range(2 * reach + 1):
        c += weights[(s + 1) // 2]
        found.append(max(1, 4078 * c // total - before))
        before = 4078 * c // total
    found.append(max(1, 4078 - before))
    found[0] += 4096 - sum(found)
    return found


def alphabet() -> list[str]:
    own = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    return [chr(code) for code in own] + [chr(0x100 + place) for place in range(256 - len(own))]


def merges(content: bytes) -> bytes:
    k, count, size = (
        int.from_bytes(content[0:2], "little"),
        int.from_bytes(content[2:5], "little"),
        int.from_bytes(content[5:7], "little"),
    )
    parts = zlib.decompress(content[7 : 7 + size]).split(b"\0")
    types = alphabet()
    spelled = []
    ids = merge_ids(content[7 + size :], (k + 255 + count).bit_length(), count)
    for left, right in ids:
        pair = (types[left - k], types[right - k])
        spelled.append('\n   [\n    "{}",\n    "{}"\n   ]'.format(*map(escaped, pair)))
        if pair[0] + pair[1] not in types:
            types.append(pair[0] + pair[1])
    entries = "".join(f',\n   "{escaped(text)}": {k + place}' for place, text in enumerate(types))
    return parts[0] + entries.encode() + parts[1] + ",".join(spelled).encode() + parts[2]


def escaped(text: str) -> str:
    return "".join("\\" + character if character in '"\\' else character for character in text)


def merge_ids(content: bytes, width: int, count: int) -> Iterator[tuple[int, int]]:
    counts = [[[1, 1] for _ in range(1 << width)] for _ in range(2)]
    code, span, at = int.from_bytes(content[:4], "big"), 2**32 - 1, 4
    for _ in range(count):
        ids = []
        for tree in counts:
            node = 1
            for _ in range(width):
                zeros, ones = tree[node]
                bound = span // (zeros + ones) * zeros
                bit = int(code >= bound)
                code, span = (code - bound, span - bound) if bit else (code, bound)
                tree[node][bit] += 1
                node = 2 * node + bit
                while span < 1 << 24:
                    span, code, at = span << 8, (code << 8) + content[at], at + 1
            ids.append(node - (1 << width))
        yield ids[0], ids[1]
    assert (code, at) == (0, len(content))


def numbers(form: str) -> Callable[[bytes, list[int]], list[float]]:
    return lambda content, shape: list(struct.unpack(f"<{math.prod(shape)}{form}", content))


def pruned(content: bytes, shape: list[int]) -> list[float]:
    n = math.prod(shape)
    kept = packed(content[: -(-n // 8)], n, 1)
    values = iter(struct.unpack(f"<{sum(kept)}f", content[-(-n // 8) :]))
    return [next(values) if bit else 0.0 for bit in kept]


DECODERS: dict[str, Callable[[bytes, list[int]], list[float]]] = {
    "fp32": numbers("f"),
    "fp16": numbers("e"),
    "int64": numbers("q"),
    "pruned": pruned,
    "kmeans": kmeans,
    "kmeans+rans": kmeans_rans,
    "grid": grid,
    "grid+rans": grid_rans,
}
