"""A compact bundle has the members of the plain one, and says what is wrong with it."""

import json
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lite_nlp.artifacts.bundles import decode_container
from lite_nlp.core.errors import BundleError
from lite_nlp.core.files import sha256_bytes
from lite_nlp.export.bundle_writer import describe_files, write_bundle
from lite_nlp.export.packing import pack_members
from lite_nlp.export.runtime.bundle import Bundle, open_bundle
from lite_nlp.export.runtime.manifest import CONFIG_FILE, MANIFEST_FILE, TOKENIZER_FILE
from tests.unit.export.packed_members import (
    BIAS,
    MATRIX,
    PACKED,
    PLAIN,
    TENSORS,
    TOKENIZER,
    make_manifest,
    make_packing,
)


@pytest.fixture
def compact_path(tmp_path: Path) -> Path:
    files, packed = pack_members(PLAIN, PACKED, make_packing())
    manifest = make_manifest(files, packed)
    path = tmp_path / "tiny.zip"
    write_bundle(path, manifest=manifest, files=files)
    return path


def test_a_compact_bundle_has_the_members_of_the_plain_one(compact_path: Path) -> None:
    bundle = open_bundle(compact_path, decode=decode_container)
    assert {name: bundle.read(name) for name in PLAIN} == PLAIN
    assert bundle.tokenizer_json == TOKENIZER
    residuals = {f"{name}.residual" for name in PACKED}
    assert set(bundle.manifest.files) == {CONFIG_FILE, "weights.lnlp", "recipes.zlib", *residuals}
    with pytest.raises(BundleError, match=r"expected a member other, found \['config.toml', 'program', 'program.resid"):
        bundle.read("other")


def test_what_other_runtimes_need_is_not_made(compact_path: Path) -> None:
    def describe(manifest: dict[str, Any], members: dict[str, bytes]) -> None:
        manifest["executorch"] = {"program": "program"}

    _rewrite(compact_path, describe)
    others = [name for name in PLAIN if name != "program"]
    for runtime in ("onnx", "none of these"):
        bundle = open_bundle(compact_path, decode=decode_container, runtime=runtime)
        assert {name: bundle.read(name) for name in others} == {name: PLAIN[name] for name in others}
        with pytest.raises(BundleError, match="expected program to be made, found a bundle opened without it"):
            bundle.read("program")
    bundle = open_bundle(compact_path, decode=decode_container, runtime="executorch")
    assert {name: bundle.read(name) for name in PLAIN} == PLAIN


def test_parts_in_the_recipes_are_those_of_the_format(compact_path: Path) -> None:
    with zipfile.ZipFile(compact_path) as archive:
        packed = json.loads(archive.read(MANIFEST_FILE))["packed"]
        content = zlib.decompress(archive.read("recipes.zlib"))
    assert packed["container"] == "weights.lnlp"
    assert packed["recipes"] == {"file": "recipes.zlib", "size_bytes": len(content)}
    assert packed["members"]["weights.bin"] == {
        "size_bytes": 4 + 384 + 160 + 3200,
        "sha256": sha256_bytes(PLAIN["weights.bin"]),
        "residual": "weights.bin.residual",
    }
    assert json.loads(content)["parts"]["weights.bin"] == [
        {"offset": 4, "tensor": "layer.weight"},
        {"offset": 388, "tensor": "layer.bias"},
        {"offset": 548, "sinusoid": {"rows": 20, "columns": 40}},
    ]


def test_a_plain_bundle_says_nothing_of_packing(tmp_path: Path) -> None:
    manifest = make_manifest(PLAIN)
    write_bundle(tmp_path / "tiny.zip", manifest=manifest, files=PLAIN)
    assert {"packed", "scores"}.isdisjoint(json.loads(manifest.to_json()))
    bundle = open_bundle(tmp_path / "tiny.zip", decode=decode_container)
    assert isinstance(bundle, Bundle)
    assert bundle.manifest.packed is None


def _rewrite(path: Path, change: Callable[[dict[str, Any], dict[str, bytes]], None]) -> None:
    """Write the bundle again with another manifest or other members, whose sizes and hashes are right."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(members.pop(MANIFEST_FILE))
    change(manifest, members)
    manifest["files"] = {name: entry.model_dump() for name, entry in describe_files(members).items()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in {MANIFEST_FILE: json.dumps(manifest).encode(), **members}.items():
            archive.writestr(name, content)


def _cook(manifest: dict[str, Any], members: dict[str, bytes], change: Callable[[list[Any]], object]) -> None:
    """Change the parts of ``weights.bin``."""
    recipes = json.loads(zlib.decompress(members["recipes.zlib"]))
    change(recipes["parts"]["weights.bin"])
    content = json.dumps(recipes).encode()
    members["recipes.zlib"] = zlib.compress(content)
    manifest["packed"]["recipes"]["size_bytes"] = len(content)


def _weights(manifest: dict[str, Any]) -> dict[str, Any]:
    member: dict[str, Any] = manifest["packed"]["members"]["weights.bin"]
    return member


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda manifest, members: members.update({"weights.lnlp": members["weights.lnlp"][:-1]}),
            "tiny.zip: weights.lnlp: truncated: expected",
        ),
        (
            lambda manifest, members: members.update({"weights.lnlp": b"no container"}),
            "tiny.zip: weights.lnlp: not a container",
        ),
        (
            lambda manifest, members: members.update(
                {"weights.lnlp": make_packing({**TENSORS, "layer.weight": MATRIX + 1}).container}
            ),
            r"tiny.zip: weights.bin: expected to make a member with SHA-256 \w+, found",
        ),
        (
            lambda manifest, members: members.update({"weights.lnlp": make_packing({"other": BIAS}).container}),
            "tiny.zip: weights.bin: part 0: expected a tensor of the container, found 'layer.weight'",
        ),
        (
            lambda manifest, members: members.update({"weights.bin.residual": members["program.residual"]}),
            "tiny.zip: weights.bin: weights.bin.residual: expected a zlib stream of exactly 3748 bytes, found 562",
        ),
        (
            lambda manifest, members: _cook(manifest, members, lambda parts: parts.pop()),
            "tiny.zip: weights.bin: expected to make a member with SHA-256",
        ),
        (
            lambda manifest, members: _cook(manifest, members, lambda parts: parts.reverse()),
            "tiny.zip: weights.bin: part 1: expected an offset of at least 3748, behind the last part, found 388",
        ),
        (
            lambda manifest, members: _cook(manifest, members, lambda parts: parts[0].pop("tensor")),
            "recipes.zlib: expected recipes of members, found an error",
        ),
        (
            lambda manifest, members: manifest["packed"]["recipes"].update(size_bytes=9),
            "recipes.zlib: expected a zlib stream of exactly 9 bytes, found more",
        ),
        (
            lambda manifest, members: manifest["packed"]["recipes"].update(size_bytes=4_000_001),
            "packed.recipes.size_bytes: Input should be less than or equal to 4000000",
        ),
        (
            lambda manifest, members: members.pop("recipes.zlib"),
            "manifest.json: .* files: expected an entry for recipes.zlib, found none",
        ),
        (
            lambda manifest, members: _weights(manifest).update(size_bytes=1 << 40),
            "manifest.json: expected a bundle's manifest, found: packed.members.weights.bin.size_bytes",
        ),
        (
            lambda manifest, members: _weights(manifest).update(size_bytes=1 << 30),
            "manifest.json: .* packed: Value error, members: expected at most 1073741824 bytes in all, found 1073742",
        ),
        (
            lambda manifest, members: members.pop("weights.lnlp"),
            "manifest.json: .* files: expected an entry for weights.lnlp, found none",
        ),
        (
            lambda manifest, members: members.pop("weights.bin.residual"),
            "manifest.json: .* files: expected an entry for weights.bin.residual, found none",
        ),
        (
            lambda manifest, members: manifest["packed"]["members"].pop(TOKENIZER_FILE),
            "manifest.json: .* files: expected an entry for tokenizer.json, found none",
        ),
        (
            lambda manifest, members: members.update({"weights.bin": b"stored as well"}),
            "manifest.json: .* packed: expected members that are not stored, found weights.bin in both",
        ),
        (
            lambda manifest, members: manifest["packed"]["members"].update({MANIFEST_FILE: _weights(manifest)}),
            "manifest.json: .* packed: expected members that are not stored, found manifest.json in both",
        ),
        (
            lambda manifest, members: manifest["packed"]["members"].update({"../evil": _weights(manifest)}),
            "manifest.json: .* members: expected plain file names, found '../evil'",
        ),
        (
            lambda manifest, members: manifest["vocabulary"].update(src_size=9, tgt_size=9),
            "tokenizer.json: does not fit the model: expected 9 source and 9 target types, found 4",
        ),
    ],
)
def test_a_compact_bundle_that_is_wrong(
    compact_path: Path, change: Callable[[dict[str, Any], dict[str, bytes]], None], message: str
) -> None:
    _rewrite(compact_path, change)
    with pytest.raises(BundleError, match=message):
        open_bundle(compact_path, decode=decode_container)


def test_every_truncation_and_every_altered_byte_is_refused(compact_path: Path) -> None:
    content = compact_path.read_bytes()
    for length in range(0, len(content), 211):
        compact_path.write_bytes(content[:length])
        with pytest.raises(BundleError):
            open_bundle(compact_path, decode=decode_container)
    compact_path.write_bytes(content)
    with zipfile.ZipFile(compact_path) as archive:
        stored = [archive.read(name) for name in archive.namelist()]
    for member in stored[1:]:
        start = content.index(member)
        for place in range(start, start + len(member), 37):
            altered = bytearray(content)
            altered[place] ^= 4
            compact_path.write_bytes(altered)
            with pytest.raises(BundleError, match="expected an intact member, found it altered"):
                open_bundle(compact_path, decode=decode_container)


def test_a_compact_bundle_without_a_decoder(compact_path: Path) -> None:
    with pytest.raises(BundleError, match=r"or a decoder for weights\.lnlp, found a compact bundle without one"):
        open_bundle(compact_path)
