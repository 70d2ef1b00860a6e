"""Tensors, tables and files are found in the members of a bundle, which are made of them again."""

import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lite_nlp.artifacts.bundles import decode_container
from lite_nlp.compress.lnlp.container import container_bytes
from lite_nlp.compress.lnlp.encodings import encode_fp32
from lite_nlp.core.errors import BundleError
from lite_nlp.export.bundle_writer import write_bundle
from lite_nlp.export.matrices import Form, Rounding, array_digest
from lite_nlp.export.packing import find_parts, pack_members, round_tensors
from lite_nlp.export.runtime.bundle import open_bundle
from lite_nlp.export.runtime.member_maker import Contents, make_member, predict, sinusoid_table
from lite_nlp.export.runtime.recipes import (
    FilePart,
    IntegersPart,
    Part,
    ScalesPart,
    SinusoidPart,
    SinusoidTable,
    TensorPart,
    read_recipes,
)
from lite_nlp.export.runtime.rounded import pack_levels, to_bf16
from lite_nlp.export.runtime.scaled import Scaling, powers
from tests.unit.export.packed_members import (
    BIAS,
    MATRIX,
    PACKED,
    PLAIN,
    RANDOM,
    TENSORS,
    Tensors,
    make_manifest,
    make_packing,
)


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
    files, packed = pack_members(plain, PACKED, make_packing(tensors), rounding)
    assert packed.codes is not None
    recipes = read_recipes(packed, files[packed.recipes.file], source="recipes")
    assert [(entry.tensor, entry.bits) for entry in recipes.rounded] == [("eight", 8), ("four", 4)]
    path = tmp_path / "tiny.zip"
    write_bundle(path, manifest=make_manifest(files, packed), files=files)
    bundle = open_bundle(path, decode=decode_container)
    assert {name: bundle.read(name) for name in plain} == plain
    damaged = {**files, packed.codes: files[packed.codes][:-1]}
    write_bundle(path, manifest=make_manifest(damaged, packed), files=damaged, force=True)
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
    packing = replace(make_packing(tensors), scalings=scalings)
    files, packed = pack_members(plain, PACKED, packing, rounding)
    assert packed.exponents is not None
    assert len(zlib.decompress(files[packed.exponents])) == 3 * 64
    recipes = read_recipes(packed, files[packed.recipes.file], source="recipes")
    assert len(recipes.parts["weights.bin"]) == 3
    path = tmp_path / "tiny.zip"
    write_bundle(path, manifest=make_manifest(files, packed), files=files)
    bundle = open_bundle(path, decode=decode_container)
    assert {name: bundle.read(name) for name in plain} == plain
    # A further name of a tensor would be a further copy.
    twins = Contents({"grid": MATRIX, "twin": MATRIX}, aliases={"twin"})
    assert list(twins.own_tensors) == ["grid"]
    assert decode_container(
        container_bytes(tensors={"a": encode_fp32(MATRIX)}, files={}, metadata={}, aliases={"b": "a"})
    ).aliases == {"b"}
    damaged = {**files, packed.exponents: zlib.compress(bytes(191))}
    write_bundle(path, manifest=make_manifest(damaged, packed), files=damaged, force=True)
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
    files, packed = pack_members({"a": content}, ["a"], make_packing(notes=NOTES))
    member, recipes = packed.members["a"], read_recipes(packed, files[packed.recipes.file], source="a")
    contents = decode_container(files[packed.container])
    blocks = make_member(member, recipes.parts["a"], [files[member.residual]], contents, source="a")
    assert b"".join(map(bytes, blocks)) == content
