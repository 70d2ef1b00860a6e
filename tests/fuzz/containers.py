"""Hostile containers whose checksums are right."""

import struct
import zlib
from random import Random
from typing import Any

from tests.fuzz.mutations import dump_json, edit_json, mutate_bytes, mutate_json_text
from tests.fuzz.sealed import free_stream, seal, split

__all__ = ["mutate_container"]

_ENCODINGS = ("fp32", "fp16", "int64", "pruned", "kmeans", "kmeans+rans")


def mutate_container(rng: Random, content: bytes) -> bytes:
    """A container with something changed in it, mostly with all checksums recomputed."""
    if rng.random() < 0.1:
        return mutate_bytes(rng, content)
    header, body = split(content)
    sections = _cut(header, body)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        _edit(rng, header, sections)
    body = b"".join(sections)
    match rng.randrange(8):
        case 0:
            return seal(dump_json(rng, edit_json(rng, header)), body)
        case 1:
            return seal(mutate_json_text(rng, dump_json(rng, header)), body)
        case 2:
            return seal(dump_json(rng, header), body, header_size=rng.choice((0, 1, 100, 1 << 22, (1 << 32) - 1)))
        case _:
            return seal(header, body)


def _cut(header: dict[str, Any], body: bytes) -> list[bytes]:
    sections, start = [], 0
    for entry in [*header["files"], *header["tensors"]]:
        sections.append(body[start : start + entry["length"]])
        start += entry["length"]
    return sections


def _edit(rng: Random, header: dict[str, Any], sections: list[bytes]) -> None:
    """Change one tensor or file, and keep its entry in step."""
    entries = [*header["files"], *header["tensors"]]
    if not entries:
        return
    index = rng.randrange(len(entries))
    entry, section = entries[index], sections[index]
    section = _edit_file(rng, entry, section) if "size" in entry else _edit_tensor(rng, header, entry, section)
    sections[index] = section
    entry["length"], entry["crc32"] = len(section), zlib.crc32(section)


def _edit_file(rng: Random, entry: dict[str, Any], section: bytes) -> bytes:
    match rng.randrange(6):
        case 0:
            return mutate_bytes(rng, section)
        case 1:
            return section + rng.choice((b"\0", section))
        case 2:
            entry["size"] = max(0, entry["size"] + rng.choice((-1, 1, 1 << 24)))
            return section
        case 3:
            # No header, another window, or a dictionary that the reader has not got.
            compressor = zlib.compressobj(9, zlib.DEFLATED, rng.choice((-15, 9, 15, 31)))
            return compressor.compress(bytes(entry["size"])) + compressor.flush()
        case 4:
            compressor = zlib.compressobj(zdict=b"some words")
            return compressor.compress(bytes(entry["size"])) + compressor.flush()
        case _:
            size = rng.choice((0, 1, 1 << 16, 1 << 24))
            entry["size"] = size + rng.choice((0, 0, 0, 1))
            return zlib.compress(bytes(size), rng.choice((0, 9)))


def _edit_tensor(rng: Random, header: dict[str, Any], entry: dict[str, Any], payload: bytes) -> bytes:
    match rng.randrange(9):
        case 0 | 1:
            return mutate_bytes(rng, payload)
        case 2:
            entry["shape"] = [rng.choice((0, 1, 2, 3, 7, 8, 9, 64, 4096, 1 << 20)) for _ in range(rng.randrange(4))]
        case 3:
            entry["encoding"] = rng.choice(_ENCODINGS)
        case 4:
            entry["name"] = rng.choice((*(other["name"] for other in header["tensors"]), "", "é", "x" * 300))
        case 5:
            lanes = rng.choice((1, 2, 100, 4096, 60_000))
            entry["shape"], entry["encoding"] = [lanes * rng.choice((1, 2, 4096, 4097))], "kmeans+rans"
            return free_stream(rng.randrange(7, 17), lanes, rng.choice((1, 2, 600, 4096)))
        case 6 if len(payload) > 4:
            kind, bits, size = struct.unpack("<BBH", payload[:4])
            fields = [kind, bits, size]
            place = rng.randrange(3)
            fields[place] = max(0, fields[place] + rng.choice((-1, 1, 2, 8))) & 0xFF
            return struct.pack("<BBH", *fields) + payload[4:]
        case 7 if payload:
            # The last bits: padding of indices and bitmaps.
            return payload[:-1] + bytes([payload[-1] ^ 1 << rng.randrange(8)])
        case 8:
            entry["shape"] = [max(0, size + rng.choice((-1, 0, 1))) for size in entry["shape"]]
    return payload
