"""Hostile containers whose checksum is right."""

import zlib
from random import Random
from typing import Any

from tests.fuzz.mutations import dump_json, edit_json, mutate_bytes, mutate_json_text
from tests.fuzz.sealed import free_stream, header_of, seal, seal_stored, split

__all__ = ["mutate_container"]

_ENCODINGS = ("fp32", "fp16", "int64", "pruned", "kmeans", "kmeans+rans", "grid", "grid+rans")


def mutate_container(rng: Random, content: bytes) -> bytes:
    """A container with something changed in it, mostly with its checksum recomputed."""
    if rng.random() < 0.1:
        return mutate_bytes(rng, content)
    header, plain, body = split(content)
    entries, sections = _cut(header, plain, body)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        _edit(rng, entries, sections)
    stored = [place for place, entry in enumerate(entries) if "encoding" in entry or "length" in entry]
    body = b"".join(sections[place] for place in stored)
    plain = b"".join(section for place, section in enumerate(sections) if place not in stored)
    files = [entry for entry in entries if "encoding" not in entry]
    header = header_of(
        [entry for entry in entries if "encoding" in entry], **{**_without_tensors(header), "files": files}
    )
    match rng.randrange(8):
        case 0:
            return seal(dump_json(rng, edit_json(rng, header)), body, plain=plain)
        case 1:
            return seal(mutate_json_text(rng, dump_json(rng, header)), body, plain=plain)
        case 2:
            size = rng.choice((0, 1, 100, 1 << 22, (1 << 32) - 1))
            return seal(dump_json(rng, header), body, plain=plain, header_size=size)
        case 3:
            return seal_stored(_odd_stream(rng, dump_json(rng, header) + plain), body, rng.choice((0, 1, 100)))
        case _:
            return seal(header, body, plain=plain)


def _without_tensors(header: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in header.items() if key != "tensors"}


def _odd_stream(rng: Random, content: bytes) -> bytes:
    """No header, another window, or a dictionary that the reader has not got."""
    compressor = (
        zlib.compressobj(zdict=b"some words")
        if rng.random() < 0.3
        else zlib.compressobj(9, zlib.DEFLATED, rng.choice((-15, 9, 15, 31)))
    )
    return compressor.compress(content) + compressor.flush() + rng.choice((b"", b"", b"\0"))


def _cut(header: dict[str, Any], plain: bytes, body: bytes) -> tuple[list[dict[str, Any]], list[bytes]]:
    """The entries of all files and tensors, and what is stored of each."""
    columns = [header["tensors"][key] for key in ("names", "shapes", "encodings", "lengths")]
    tensors = [
        dict(zip(("name", "shape", "encoding", "length"), entry, strict=True)) for entry in zip(*columns, strict=True)
    ]
    entries, sections = [*header["files"], *tensors], []
    for entry in entries:
        if "length" in entry:
            sections.append(body[: entry["length"]])
            body = body[entry["length"] :]
        else:
            sections.append(plain[: entry["size"]])
            plain = plain[entry["size"] :]
    return entries, sections


def _edit(rng: Random, entries: list[dict[str, Any]], sections: list[bytes]) -> None:
    """Change one tensor or file, and keep its entry in step."""
    if not entries:
        return
    index = rng.randrange(len(entries))
    entry = entries[index]
    if "encoding" in entry:
        sections[index] = _edit_tensor(rng, [other["name"] for other in entries], entry, sections[index])
    else:
        sections[index] = _edit_file(rng, entry, sections[index])
    if "length" in entry:
        entry["length"] = len(sections[index])


def _edit_file(rng: Random, entry: dict[str, Any], section: bytes) -> bytes:
    match rng.randrange(4):
        case 0:
            return mutate_bytes(rng, section)
        case 1:
            return section + rng.choice((b"\0", section))
        case 2:
            entry["size"] = max(0, entry["size"] + rng.choice((-1, 1, 1 << 24)))
            return section
        case _:
            size = rng.choice((0, 1, 1 << 16, 1 << 24))
            entry["size"] = size + rng.choice((0, 0, 0, 1))
            return section if "length" in entry else bytes(size)


def _edit_tensor(rng: Random, names: list[str], entry: dict[str, Any], payload: bytes) -> bytes:
    match rng.randrange(9):
        case 0 | 1 | 2:
            return mutate_bytes(rng, payload)
        case 3:
            entry["shape"] = [rng.choice((0, 1, 2, 3, 7, 8, 9, 64, 4096, 1 << 20)) for _ in range(rng.randrange(4))]
        case 4:
            entry["encoding"] = rng.choice(_ENCODINGS)
        case 5:
            entry["name"] = rng.choice((*names, "", "é", "x" * 300))
        case 6:
            weights = rng.choice((1, 2, 100, 8192, 8193, 60_000))
            entry["shape"], entry["encoding"] = [weights], "kmeans+rans"
            return free_stream(rng.randrange(7, 17), weights, lanes=rng.choice((None, None, 1, 2)))
        case 7 if payload:
            # The first bits, which say how the rest is read, or the last ones: padding of indices and bitmaps.
            place = rng.choice((0, 0, 1, 2, 3, -1))
            place = max(-len(payload), min(place, len(payload) - 1))
            changed = bytearray(payload)
            changed[place] ^= 1 << rng.randrange(8)
            return bytes(changed)
        case 8:
            entry["shape"] = [max(0, size + rng.choice((-1, 0, 1))) for size in entry["shape"]]
    return payload
