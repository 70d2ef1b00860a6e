"""Hostile bundles whose hashes and checksums are right."""

import hashlib
import io
import json
import struct
import zipfile
import zlib
from random import Random
from typing import Any

from tests.fuzz.containers import mutate_container
from tests.fuzz.documents import mutate_json, mutate_tokenizer
from tests.fuzz.mutations import dump_json, edit_json, mutate_bytes, mutate_json_text

__all__ = ["mutate_bundle", "zip_members"]

MANIFEST = "manifest.json"


def zip_members(members: list[tuple[str, bytes]]) -> bytes:
    """The members as the writer of bundles stores them; equal names are written twice."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members:
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.external_attr, info.create_system = 0o100644 << 16, 3
            archive.NameToInfo.pop(name, None)
            archive.writestr(info, content)
    return target.getvalue()


def mutate_bundle(rng: Random, content: bytes) -> bytes:
    """A bundle with something changed in it, mostly with all hashes recomputed."""
    if rng.random() < 0.1:
        return mutate_bytes(rng, content)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(members.pop(MANIFEST))
    for name in rng.sample(list(members), rng.choice((0, 1, 1, 2))):
        _edit_member(rng, members, name)
    if "packed" in manifest and rng.random() < 0.5:
        _edit_packed(rng, manifest["packed"], members)
    if rng.random() < 0.9:
        _describe(manifest, members)
    raw = _dump_manifest(rng, manifest)
    entries = [(MANIFEST, raw), *members.items()]
    if rng.random() < 0.15:
        rng.shuffle(entries)
    if rng.random() < 0.1:
        entries.append(rng.choice(entries) if rng.random() < 0.5 else (rng.choice(("x", "../x", "a/b", "/x")), b"x"))
    archive_bytes = zip_members(entries)
    return _edit_directory(rng, archive_bytes) if rng.random() < 0.25 else archive_bytes


def _edit_member(rng: Random, members: dict[str, bytes], name: str) -> None:
    content = members[name]
    if rng.random() < 0.1:
        members[rng.choice(("x.bin", "COM1", ".x", "ä", "x" * 200, name.upper()))] = members.pop(name)
    elif name.endswith(".lnlp"):
        members[name] = mutate_container(rng, content)
    elif name == "tokenizer.json":
        members[name] = mutate_tokenizer(rng, content)
    elif name.endswith((".residual", ".zlib", ".codes", ".exponents")):
        members[name] = _edit_residual(rng, content)
    elif name.endswith(".json"):
        members[name] = mutate_json(rng, content)
    else:
        members[name] = mutate_bytes(rng, content)


def _edit_residual(rng: Random, content: bytes) -> bytes:
    match rng.randrange(5):
        case 0:
            return mutate_bytes(rng, content)
        case 1:
            return content + rng.choice((b"\0", content))
        case 2:
            return zlib.compress(zlib.decompress(content) + rng.choice((b"\0", bytes(1 << 22))), 9)
        case 3:
            return zlib.compress(zlib.decompress(content)[:-1])
        case _:
            return zlib.compress(mutate_bytes(rng, zlib.decompress(content)))


def _describe(manifest: dict[str, Any], members: dict[str, bytes]) -> None:
    manifest["files"] = {
        name: {"sha256": hashlib.sha256(content).hexdigest(), "size_bytes": len(content)}
        for name, content in members.items()
    }


def _edit_packed(rng: Random, packed: dict[str, Any], members: dict[str, bytes]) -> None:
    """Change what a described member, or the parts of one, say."""
    name = packed["recipes"]["file"]
    if rng.random() < 0.3 or name not in members:
        member = rng.choice(list(packed["members"].values()))
        member["size_bytes"] = max(0, member["size_bytes"] + rng.choice((-1, 1, 4, 1 << 30, 1 << 40)))
        return
    try:
        recipes = json.loads(zlib.decompress(members[name]))
    except (zlib.error, ValueError):
        return
    _edit_recipes(rng, recipes)
    content = dump_json(rng, edit_json(rng, recipes)) if rng.random() < 0.2 else json.dumps(recipes).encode()
    members[name] = zlib.compress(content)
    packed["recipes"]["size_bytes"] = len(content) + (rng.random() < 0.05)


def _edit_recipes(rng: Random, recipes: dict[str, Any]) -> None:
    listed = rng.choice(list(recipes["parts"].values()))
    part = rng.choice(listed or [{"offset": 0, "tensor": "weight"}])
    match rng.randrange(9):
        case 0:
            part["offset"] = max(0, part["offset"] + rng.choice((-4, -1, 1, 4, 1 << 30, 1 << 62)))
        case 1 if "tensor" in part:
            part["tensor"] = rng.choice(("none", "", *(other["tensor"] for other in listed if "tensor" in other)))
        case 2 if "tensor" in part:
            part["transposed"] = not part.get("transposed", False)
        case 3:
            part.pop("tensor", None)
            part["sinusoid"] = {
                "rows": rng.choice((0, 1, 3, 1 << 24)),
                "columns": rng.choice((0, 1, 5, 1 << 16, 1 << 31)),
            }
        case 4:
            listed[:] = listed * rng.choice((0, 2, 2000))
        case 5 if "rows" in part:
            part["rows"][rng.randrange(2)] = rng.choice((0, 1, 63, 65, 1 << 40))
        case 6 if "integers" in part:
            part["transposed"] = not part.get("transposed", False)
        case 7 if recipes.get("rounded"):
            entry = rng.choice(recipes["rounded"])
            entry[rng.choice(("tensor", "bits"))] = rng.choice((4, 8, 16, "weight", "eight"))
        case 8 if recipes.get("scaled"):
            entry = rng.choice(recipes["scaled"])
            entry[rng.choice(("tensor", "rows", "columns"))] = rng.choice((True, False, 1, "weight", "unused"))


def _dump_manifest(rng: Random, manifest: dict[str, Any]) -> bytes:
    chance = rng.random()
    if chance < 0.5:
        return json.dumps(manifest, indent=1).encode()
    if chance < 0.9:
        return dump_json(rng, edit_json(rng, manifest))
    return mutate_json_text(rng, json.dumps(manifest).encode())


def _edit_directory(rng: Random, content: bytes) -> bytes:
    """Change a field of a member's header, of its entry in the directory, or of the end."""
    signature = rng.choice((b"PK\3\4", b"PK\1\2", b"PK\5\6"))
    places = [place for place in range(len(content) - 22) if content.startswith(signature, place)]
    places += [len(content) - 22] if signature == b"PK\5\6" else []
    if not places:
        return content
    place = rng.choice(places) + 4 + 2 * rng.randrange(9 if signature == b"PK\5\6" else 20)
    value = rng.choice((0, 1, 8, 0xFFFF, rng.randrange(1 << 16)))
    edited = content[:place] + struct.pack("<H", value) + content[place + 2 :]
    return edited + rng.choice((b"", b"", b"\0", b"PK\5\6" + bytes(18)))
