import json
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lite_nlp.artifacts.bundles import decode_container
from lite_nlp.compress.lnlp.container import container_bytes
from lite_nlp.compress.lnlp.encodings import encode_fp32
from lite_nlp.core.errors import BundleError
from lite_nlp.core.files import sha256_bytes
from lite_nlp.export.bundle_writer import describe_files, write_bundle
from lite_nlp.export.matrices import Form, Rounding, array_digest
from lite_nlp.export.packing import Packing, find_parts, pack_members, round_tensors
from lite_nlp.export.runtime.bundle import Bundle, open_bundle
from lite_nlp.export.runtime.layout import Bounds
from lite_nlp.export.runtime.manifest import CONFIG_FILE, MANIFEST_FILE, TOKENIZER_FILE, Manifest, Vocabulary
from lite_nlp.export.runtime.member_maker import Contents, make_member, predict, sinusoid_table
from lite_nlp.export.runtime.recipes import (
    FilePart,
    IntegersPart,
    Packed,
    Part,
    ScalesPart,
    SinusoidPart,
    SinusoidTable,
    TensorPart,
    read_recipes,
)
from lite_nlp.export.runtime.rounded import pack_levels, to_bf16
from lite_nlp.export.runtime.scaled import Scaling, powers

Tensors = Mapping[str, NDArray[Any]]

RANDOM = np.random.default_rng(11)
MATRIX = RANDOM.normal(size=(12, 8)).astype(np.float32)
BIAS = RANDOM.normal(size=40).astype(np.float32)
TENSORS: dict[str, NDArray[Any]] = {"layer.weight": MATRIX, "layer.bias": BIAS}
TOKENIZER = json.dumps({"model": {"vocab": {"<pad>": 0, "<s>": 1, "</s>": 2, "a": 3}}}).encode()
PLAIN = {
    TOKENIZER_FILE: TOKENIZER,
    CONFIG_FILE: b"name = 'tiny'\n",
    "weights.bin": b"head" + MATRIX.tobytes() + BIAS.tobytes() + sinusoid_table(rows=20, columns=40).tobytes(),
    "program": MATRIX.T.tobytes() + b"the program itself" + BIAS.tobytes(),
}
PACKED = [TOKENIZER_FILE, "weights.bin", "program"]


def _packing(tensors: Tensors = TENSORS, **files: bytes) -> Packing:
    encoded = {name: encode_fp32(tensor) for name, tensor in tensors.items()}
    return Packing(container_bytes(tensors=encoded, files=files, metadata={}), decode_container)


def _manifest(files: dict[str, bytes], packed: Packed | None = None) -> Manifest:
    return Manifest(
        name="tiny",
        versions={},
        precision="fp32",
        vocabulary=Vocabulary(src_size=4, tgt_size=4),
        bounds=Bounds(source=8, capacity=8, executorch_batch=2),
        state=(),
        files=describe_files(files),
        packed=packed,
    )


@pytest.fixture
def compact_path(tmp_path: Path) -> Path:
    files, packed = pack_members(PLAIN, PACKED, _packing())
    manifest = _manifest(files, packed)
    path = tmp_path / "tiny.zip"
    write_bundle(path, manifest=manifest, files=files)
    return path


def test_tensors_are_found_wherever_they_lie() -> None:
    content = b"abc" + MATRIX.tobytes() + MATRIX.tobytes() + bytes(9) + MATRIX.T.tobytes() + BIAS.tobytes() + b"end"
    assert find_parts(content, Contents(TENSORS)) == [
        TensorPart(offset=3, tensor="layer.weight"),
        TensorPart(offset=387, tensor="layer.weight"),
        TensorPart(offset=780, tensor="layer.weight", transposed=True),
        TensorPart(offset=1164, tensor="layer.bias"),
    ]


def _random_rounding() -> tuple[Tensors, Rounding]:
    """Two matrices, one for 8 bits and one for 4, with rows that are on a grid and a row of zeros."""
    tensors = {name: RANDOM.normal(size=(96, 64)).astype(np.float32) for name in ("eight", "four", "fp32")}
    for name in ("eight", "four"):
        tensors[name][3] = np.float32(0.013) * RANDOM.integers(-7, 8, 64)
        tensors[name][5] = 0
    forms: dict[bytes, Form] = {array_digest(tensors["eight"]): "int8", array_digest(tensors["four"]): "int4"}
    return tensors, Rounding(precision="mixed", forms=forms)


def test_integers_and_scales_are_found_whole_turned_and_cut() -> None:
    tensors, rounding = _random_rounding()
    rounded = round_tensors(tensors, rounding)
    assert {name: weights.bits for name, weights in rounded.items()} == {"eight": 8, "four": 4}
    eight, four = rounded["eight"], rounded["four"]
    levels, halves = pack_levels(four.integers()), (to_bf16(four.scales).view(np.uint32) >> 16).astype("<u2")
    contents = Contents(tensors, rounded=rounded)
    whole = [eight.integers().T, eight.scales, levels, four.scales, halves]
    found = find_parts(content := b"".join(each.tobytes() for each in whole), contents)
    assert found == [
        IntegersPart(offset=0, integers="eight", rows=(0, 96), transposed=True),
        ScalesPart(offset=6144, scales="eight", rows=(0, 96)),
        IntegersPart(offset=6528, integers="four", rows=(0, 96)),
        ScalesPart(offset=9600, scales="four", rows=(0, 96)),
        ScalesPart(offset=10368, scales="four", rows=(0, 96), bf16=True),
    ]
    assert _predicted(found, content, contents) == content
    cut = [eight.integers()[48:], levels[32:64], eight.integers()[:48], eight.scales[48:], levels[64:], halves[:48]]
    found = find_parts(content := b"".join(each.tobytes() for each in cut), contents)
    assert found == [
        IntegersPart(offset=0, integers="eight", rows=(48, 96)),
        IntegersPart(offset=3072, integers="four", rows=(32, 64)),
        IntegersPart(offset=4096, integers="eight", rows=(0, 48)),
        ScalesPart(offset=7168, scales="eight", rows=(48, 96)),
        IntegersPart(offset=7360, integers="four", rows=(64, 96)),
        ScalesPart(offset=8384, scales="four", rows=(0, 48), bf16=True),
    ]
    assert _predicted(found, content, contents) == content


def _predicted(parts: list[Part], content: bytes, contents: Contents) -> bytes:
    blocks = predict(parts, len(content), contents, source="x")
    return b"".join(bytes(length) if block is None else block.tobytes() for length, block in blocks)


def test_a_bundle_of_integers_has_each_weight_once(tmp_path: Path) -> None:
    tensors, rounding = _random_rounding()
    rounded = round_tensors(tensors, rounding)
    content = b"".join(each.integers().T.tobytes() + each.scales.tobytes() for each in rounded.values())
    plain = {**PLAIN, "weights.bin": content, "program": tensors["fp32"].tobytes() + content[::-1][:40]}
    files, packed = pack_members(plain, PACKED, _packing(tensors), rounding)
    assert packed.codes is not None
    recipes = read_recipes(packed, files[packed.recipes.file], source="recipes")
    assert [(entry.tensor, entry.bits) for entry in recipes.rounded] == [("eight", 8), ("four", 4)]
    path = tmp_path / "tiny.zip"
    write_bundle(path, manifest=_manifest(files, packed), files=files)
    bundle = open_bundle(path, decode=decode_container)
    assert {name: bundle.read(name) for name in plain} == plain
    damaged = {**files, packed.codes: files[packed.codes][:-1]}
    write_bundle(path, manifest=_manifest(damaged, packed), files=damaged, force=True)
    with pytest.raises(BundleError, match=r"tiny\.zip: weights\.codes: expected a zlib stream of exactly 288 bytes"):
        open_bundle(path, decode=decode_container)


def test_a_bundle_of_scaled_tensors_has_each_weight_once(tmp_path: Path) -> None:
    exponents = RANDOM.integers(-5, 6, (3, 64)).astype(np.int8)
    levels = RANDOM.integers(-9, 10, (64, 64)).astype(np.float32)
    tensors = {"grid": levels * np.float32(0.01) * powers(exponents[0]), "bias": RANDOM.normal(size=64).astype("f4")}
    scalings = {"bias": Scaling(rows=exponents[1]), "grid": Scaling(rows=exponents[2], columns=-exponents[0])}
    scaled = {name: scaling.apply(tensors[name]) for name, scaling in scalings.items()}
    np.testing.assert_allclose(scaled["grid"], levels * 0.01 * 2 ** (exponents[2][:, None] / 2), rtol=1e-6)
    rounding = Rounding(precision="int8")
    rounded = round_tensors(scaled, rounding)["grid"]
    np.testing.assert_allclose(rounded.restored(), scaled["grid"], rtol=1e-6)
    content = rounded.integers().T.tobytes() + rounded.scales.tobytes() + scaled["bias"].tobytes()
    plain = {**PLAIN, "weights.bin": content, "program": scaled["bias"].tobytes()}
    packing = replace(_packing(tensors), scalings=scalings)
    files, packed = pack_members(plain, PACKED, packing, rounding)
    assert packed.exponents is not None
    assert len(zlib.decompress(files[packed.exponents])) == 3 * 64
    recipes = read_recipes(packed, files[packed.recipes.file], source="recipes")
    assert len(recipes.parts["weights.bin"]) == 3
    path = tmp_path / "tiny.zip"
    write_bundle(path, manifest=_manifest(files, packed), files=files)
    bundle = open_bundle(path, decode=decode_container)
    assert {name: bundle.read(name) for name in plain} == plain
    # A further name of a tensor would be a further copy.
    twins = Contents({"grid": MATRIX, "twin": MATRIX}, aliases={"twin"})
    assert list(twins.own_tensors) == ["grid"]
    assert decode_container(
        container_bytes(tensors={"a": encode_fp32(MATRIX)}, files={}, metadata={}, aliases={"b": "a"})
    ).aliases == {"b"}
    damaged = {**files, packed.exponents: zlib.compress(bytes(191))}
    write_bundle(path, manifest=_manifest(damaged, packed), files=damaged, force=True)
    with pytest.raises(
        BundleError, match=r"tiny\.zip: weights\.exponents: expected a zlib stream of exactly 192 bytes"
    ):
        open_bundle(path, decode=decode_container)


def test_a_tensor_within_a_larger_one_is_part_of_that() -> None:
    tensors = {"half": MATRIX[:6], "whole": MATRIX, "again": MATRIX.copy()}
    content = MATRIX.tobytes() + MATRIX[:6].tobytes()
    assert find_parts(content, Contents(tensors)) == [
        TensorPart(offset=0, tensor="whole"),
        TensorPart(offset=384, tensor="half"),
    ]


def test_what_is_no_part() -> None:
    tensors = {
        "zeros": np.zeros(64, np.float32),
        "short": np.ones(31, np.float32),
        "integers": np.arange(64),
        "absent": np.full(64, 3.0, np.float32),
    }
    content = b"".join(tensor.tobytes() for name, tensor in tensors.items() if name != "absent")
    assert find_parts(content, Contents(tensors)) == []


def test_a_long_run_of_one_value_is_taken_once() -> None:
    ones = np.ones(64, np.float32)
    found = find_parts(
        np.ones(1_000_000, np.float32).tobytes(), Contents({"one": ones, "other": ones, "less": ones[:48]})
    )
    assert [part.offset for part in found] == list(range(0, 4_000_000, 256))


def test_a_table_of_positions_is_found_with_its_rows() -> None:
    table = sinusoid_table(rows=1200, columns=40)
    # The last bit of a value is another, as in a table made in single precision.
    table[7, 3] = np.nextafter(table[7, 3], np.float32(2), dtype=np.float32)
    content = b"abcd" + table.tobytes() + bytes(40)
    # Not each width is that of a table that begins there: 32 are as many as a tensor's as well.
    tensors = {"weight": np.full((40, 32), 5.0, np.float32)}
    assert find_parts(content, Contents(tensors)) == [
        SinusoidPart(offset=4, sinusoid=SinusoidTable(rows=1200, columns=40)),
    ]
    table[700, 0] += 0.5
    [found] = find_parts(table.tobytes(), Contents(tensors))
    assert found == SinusoidPart(offset=0, sinusoid=SinusoidTable(rows=700, columns=40))


def test_a_table_ends_where_bytes_are_no_numbers() -> None:
    # A signalling NaN, an infinity, and a subnormal number.
    for value in (b"\x01\x00\x80\x7f", b"\x00\x00\x80\xff", b"\x01\x00\x00\x80"):
        content = sinusoid_table(rows=5, columns=40).tobytes() + 40 * value
        assert find_parts(content, Contents({"weight": np.full((40, 2), 5.0, np.float32)})) == [
            SinusoidPart(offset=0, sinusoid=SinusoidTable(rows=5, columns=40))
        ]


def test_a_table_ends_where_a_tensor_begins() -> None:
    content = sinusoid_table(rows=9, columns=40).tobytes()
    tensors = {"rows": sinusoid_table(rows=4, columns=40, first_row=5)}
    assert find_parts(content, Contents(tensors)) == [
        SinusoidPart(offset=0, sinusoid=SinusoidTable(rows=5, columns=40)),
        TensorPart(offset=800, tensor="rows"),
    ]


def test_a_file_is_found_wherever_it_lies() -> None:
    text = b"some text that is long enough to be worth a part, " * 4
    content = text + MATRIX.tobytes() + text + text[:-1]
    assert find_parts(content, Contents(TENSORS, {"words": text})) == [
        FilePart(offset=0, file="words"),
        TensorPart(offset=len(text), tensor="layer.weight"),
        FilePart(offset=len(text) + MATRIX.nbytes, file="words"),
    ]


#: A file of the container.
NOTES = bytes(range(200)) * 3

_PIECES = st.sampled_from(
    [
        NOTES,
        MATRIX.tobytes(),
        MATRIX.T.tobytes(),
        MATRIX.tobytes()[:-1],
        BIAS.tobytes(),
        sinusoid_table(rows=3, columns=40).tobytes(),
        bytes(64),
        b"x",
    ]
)


@given(st.lists(_PIECES | st.binary(max_size=40), max_size=8))
def test_whatever_the_member_it_is_made_again(pieces: list[bytes]) -> None:
    content = b"".join(pieces)
    files, packed = pack_members({"a": content}, ["a"], _packing(notes=NOTES))
    member, recipes = packed.members["a"], read_recipes(packed, files[packed.recipes.file], source="a")
    contents = decode_container(files[packed.container])
    blocks = make_member(member, recipes.parts["a"], [files[member.residual]], contents, source="a")
    assert b"".join(map(bytes, blocks)) == content


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
    manifest = _manifest(PLAIN)
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
                {"weights.lnlp": _packing({**TENSORS, "layer.weight": MATRIX + 1}).container}
            ),
            r"tiny.zip: weights.bin: expected to make a member with SHA-256 \w+, found",
        ),
        (
            lambda manifest, members: members.update({"weights.lnlp": _packing({"other": BIAS}).container}),
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
