"""Members are made by their recipes byte for byte, and recipes that do not fit are refused."""

import math
import struct
import tracemalloc
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import ValidationError

from lite_nlp.core.errors import BundleError
from lite_nlp.core.files import sha256_bytes
from lite_nlp.export.runtime.limits import MAX_MADE_BYTES
from lite_nlp.export.runtime.member_maker import Contents, make_member, sinusoid_table, tensor_bytes
from lite_nlp.export.runtime.recipes import (
    FilePart,
    IntegersPart,
    Packed,
    PackedMember,
    Part,
    Recipes,
    RecipesFile,
    ScalesPart,
    SinusoidPart,
    TensorPart,
    read_recipes,
)
from lite_nlp.export.runtime.rounded import STEP, RoundedWeights
from lite_nlp.models.embeddings import Positions
from tests.unit.export.recipe_tensors import MATRIX, ROWS, TENSORS, rounded_tensors


class Described(NamedTuple):
    """A member and the parts of its prediction."""

    member: PackedMember
    parts: Sequence[Part]


def _parts(*parts: Any) -> tuple[Part, ...]:
    return Recipes.model_validate({"parts": {"m": list(parts)}}).parts["m"]


def _member(made: bytes, *parts: dict[str, Any], **changes: Any) -> Described:
    values = {"size_bytes": len(made), "sha256": sha256_bytes(made), "residual": "r", **changes}
    return Described(PackedMember.model_validate(values), _parts(*parts))


def _packed(**members: Described) -> Packed:
    recipes = RecipesFile(file="recipes", size_bytes=0)
    return Packed(container="c", recipes=recipes, members={name: each.member for name, each in members.items()})


#: The rows in 8 bits are 127ths of the largest, 4 and 64, or its 16th, 4.
ROUNDED = {
    "eight": RoundedWeights(ROWS, 8, np.array([127, 16], np.uint8)),
    # The scale of the last block is a 7.25th, in bf16.
    "four": RoundedWeights(ROWS, 4, np.array([[STEP + 7, STEP + 7], [0, 1]], np.uint8)),
}


def _make(described: Described, residual: bytes, tensors: dict[str, NDArray[Any]], *, source: str) -> bytes:
    # In pieces of a size that divides nothing.
    blocks = (residual[start : start + 7] for start in range(0, len(residual), 7))
    return b"".join(map(bytes, make_member(*described, blocks, Contents(tensors, rounded=ROUNDED), source=source)))


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(left ^ right for left, right in zip(one, other, strict=True))


def test_a_member_is_its_prediction_xor_the_residual() -> None:
    made = bytes(range(60))
    # By hand: four bytes of nothing, the matrix, the vector, the matrix' columns one after the other but for the end.
    prediction = bytes(4) + struct.pack("<6f", 1, 2, 3, 4, 5, 6) + struct.pack("<2f", 7, 8) + bytes(24)
    member = _member(made, {"offset": 4, "tensor": "matrix"}, {"offset": 28, "tensor": "vector"})
    assert _make(member, zlib.compress(_xor(made, prediction)), TENSORS, source="x") == made
    prediction = bytes(30) + struct.pack("<6f", 1, 4, 2, 5, 3, 6) + bytes(6)
    member = _member(made, {"offset": 30, "tensor": "kernel", "transposed": True})
    assert _make(member, zlib.compress(_xor(made, prediction)), TENSORS, source="x") == made


def test_a_file_of_the_container_is_a_part() -> None:
    made = b"head" + b"text" * 3 + b"end"
    member = _member(made, {"offset": 4, "file": "words"})
    residual = zlib.compress(b"head" + bytes(12) + b"end")
    contents = Contents({}, {"words": b"text" * 3})
    assert b"".join(map(bytes, make_member(*member, [residual], contents, source="x"))) == made


def _row(columns: int, **values: int) -> bytes:
    """A row of int8 zeros, and other values by their places."""
    row = [0] * columns
    for place, value in values.items():
        row[int(place[1:])] = value
    return struct.pack(f"<{columns}b", *row)


def test_integers_and_their_scales_are_parts() -> None:
    first, second = _row(64, _0=127, _1=-1, _2=2), _row(64, _32=16, _33=-2)
    turned = bytes(first[row] if first is which else second[row] for row in range(64) for which in (first, second))
    scales = struct.pack("<2f", 4, 4)
    made = first + second + turned + scales + second + scales[:4]
    parts: list[dict[str, Any]] = [
        {"offset": 0, "integers": "eight", "rows": [0, 2]},
        {"offset": 128, "integers": "eight", "rows": [0, 2], "transposed": True},
        {"offset": 256, "scales": "eight", "rows": [0, 2]},
        {"offset": 264, "integers": "eight", "rows": [1, 2]},
        {"offset": 328, "scales": "eight", "rows": [1, 2]},
    ]
    assert _make(_member(made, *parts), zlib.compress(bytes(len(made))), TENSORS, source="x") == made


def test_integers_of_four_bits_lie_two_in_a_byte() -> None:
    # Levels of the first row are 7 of 508 / 7, -4 / 72.6 and 9.9 / 72.6; of the second 7, -1 and 0 of 64 / 7.25.
    first = bytes([8 * 16 + 15, 8 * 16 + 8]) + bytes([0x88]) * 30
    second = bytes([0x88] * 16 + [7 * 16 + 15, 0x88]) + bytes([0x88]) * 14
    (step,) = struct.unpack("<I", struct.pack("<f", np.float32(508) / np.float32(7)))
    # 8.8275862 is 0x410D3DCB: the nearest of bf16 is 0x410D.
    scales = struct.pack("<4I", step, step, 0x3F800000, 0x410D0000)
    rounded_step = (step + 0x7FFF + (step >> 16 & 1)) >> 16
    halves = struct.pack("<4H", rounded_step, rounded_step, 0x3F80, 0x410D)
    made = first + second + scales + halves
    parts: list[dict[str, Any]] = [
        {"offset": 0, "integers": "four", "rows": [0, 2]},
        {"offset": 64, "scales": "four", "rows": [0, 2]},
        {"offset": 80, "scales": "four", "rows": [0, 2], "bf16": True},
    ]
    assert _make(_member(made, *parts), zlib.compress(bytes(len(made))), TENSORS, source="x") == made


def test_a_member_without_parts_is_its_residual() -> None:
    assert _make(_member(b"as it is"), zlib.compress(b"as it is"), {}, source="x") == b"as it is"
    assert _make(_member(b""), zlib.compress(b""), {}, source="x") == b""


def test_an_integer_or_a_vector_has_no_such_form() -> None:
    assert tensor_bytes(TENSORS["counter"], transposed=False) is None
    assert tensor_bytes(TENSORS["vector"], transposed=True) is None
    assert tensor_bytes(np.zeros((2, 3, 2), np.float32), transposed=True) is None
    # What lies otherwise in memory has the same values.
    assert tensor_bytes(MATRIX.T, transposed=False) == tensor_bytes(MATRIX, transposed=True)


def _fl32(value: float) -> float:
    (rounded,) = struct.unpack("<f", struct.pack("<f", value))
    assert isinstance(rounded, float)
    return rounded


@pytest.mark.parametrize(("rows", "columns"), [(300, 32), (3, 7), (5, 2), (4, 3)])
def test_a_table_of_positions_value_by_value(rows: int, columns: int) -> None:
    """Against the formula of docs/export.md in plain Python; a product of two floats is exact in double precision."""
    half = columns // 2
    scale = _fl32(-9.210340371976184 / max(half - 1, 1))
    table = sinusoid_table(rows=rows, columns=columns)
    assert table.dtype == np.float32
    assert table.shape == (rows, columns)
    for row in range(rows):
        expected = [0.0] * columns
        for i in range(half):
            angle = _fl32(row * _fl32(math.exp(_fl32(i * scale))))
            expected[i], expected[half + i] = _fl32(math.sin(angle)), _fl32(math.cos(angle))
        assert table[row].tolist() == expected
    np.testing.assert_array_equal(sinusoid_table(rows=rows - 2, columns=columns, first_row=2), table[2:])


@pytest.mark.parametrize(("rows", "columns"), [(512, 64), (300, 33), (4, 2)])
def test_it_is_the_table_of_the_models(rows: int, columns: int) -> None:
    table = Positions(max_positions=rows, embed_dim=columns).table.numpy()
    np.testing.assert_array_equal(sinusoid_table(rows=rows, columns=columns), table)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (({"offset": 0, "tensor": "other"},), "m: part 0: expected a tensor of the container, found 'other'"),
        (({"offset": 0, "file": "matrix"},), "m: part 0: expected a file of the container, found 'matrix'"),
        (({"offset": 40, "tensor": "matrix"},), "m: part 0: expected an end within 60 bytes, found 64"),
        (({"offset": 10**18, "tensor": "matrix"},), "part 0: expected an end within 60 bytes"),
        (
            ({"offset": 0, "tensor": "matrix"}, {"offset": 23, "tensor": "vector"}),
            "part 1: expected an offset of at least 24, behind the last part, found 23",
        ),
        (
            ({"offset": 30, "tensor": "vector"}, {"offset": 0, "tensor": "vector"}),
            "part 1: expected an offset of at least 38, behind the last part, found 0",
        ),
        (({"offset": 0, "tensor": "counter"},), r"counter: expected an fp32 tensor, found int64 of shape \(2,\)"),
        (
            ({"offset": 0, "tensor": "vector", "transposed": True},),
            r"vector: expected an fp32 matrix, found float32 of shape \(2,\)",
        ),
        (({"offset": 0, "integers": "matrix", "rows": [0, 1]},), "expected a matrix with integers, found 'matrix'"),
        (({"offset": 0, "scales": "eight", "rows": [1, 3]},), "eight: expected rows up to 2, found 1 to 3"),
        (({"offset": 0, "scales": "eight", "rows": [1, 0]},), "eight: expected rows up to 2, found 1 to 0"),
        (({"offset": 0, "scales": "eight", "rows": [1, 1]},), "eight: expected at least a 16th of 2 rows, found 0"),
        (({"offset": 0, "integers": "eight", "rows": [0, 1]},), "expected an end within 60 bytes, found 64"),
        (
            ({"offset": 0, "integers": "four", "rows": [0, 1], "transposed": True},),
            "four: expected integers of 8 bits to transpose, found some of 4",
        ),
        # Refused by its size, before terabytes are computed.
        (({"offset": 0, "sinusoid": {"rows": 10**6, "columns": 60_000}},), "expected an end within 60 bytes"),
        ((), "m: expected to make a member with SHA-256 0{64}, found [0-9a-f]{64}"),
    ],
)
def test_parts_that_do_not_fit(parts: tuple[dict[str, Any], ...], message: str) -> None:
    member = _member(bytes(60), *parts, sha256="0" * 64)
    with pytest.raises(BundleError, match=message):
        _make(member, zlib.compress(bytes(60)), TENSORS, source="m")


@pytest.mark.parametrize(
    ("residual", "found"),
    [
        (zlib.compress(bytes(59)), "exactly 60 bytes, found 59"),
        (zlib.compress(bytes(61)), "exactly 60 bytes, found more"),
        (zlib.compress(bytes(60)) + b"x", "exactly 60 bytes, found more"),
        (zlib.compress(bytes(60))[:-1], "exactly 60 bytes, found 60 without an end"),
        (b"", "exactly 60 bytes, found 0"),
        (b"no stream", "r: expected a zlib stream, found another"),
        (zlib.compress(bytes(60))[:-1] + b"\x02", "r: expected a zlib stream, found another"),
    ],
)
def test_a_residual_of_another_length(residual: bytes, found: str) -> None:
    with pytest.raises(BundleError, match=found):
        _make(_member(bytes(60)), residual, {}, source="m")


def test_a_residual_is_not_inflated_beyond_the_members_size() -> None:
    bomb = zlib.compress(bytes(1 << 26))
    tracemalloc.start()
    try:
        with pytest.raises(BundleError, match="exactly 60 bytes, found more"):
            _make(_member(bytes(60)), bomb, {}, source="m")
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({"offset": 3, "tensor": "t"}, TensorPart(offset=3, tensor="t", transposed=False)),
        (
            {"offset": 0, "sinusoid": {"rows": 2, "columns": 4}, "colour": "blue"},
            SinusoidPart.model_validate({"offset": 0, "sinusoid": {"rows": 2, "columns": 4}}),
        ),
        ({"offset": 3, "file": "f"}, FilePart(offset=3, file="f")),
        ({"offset": 0, "integers": "m", "rows": [1, 2]}, IntegersPart(offset=0, integers="m", rows=(1, 2))),
        (
            {"offset": 0, "scales": "m", "rows": [0, 2], "bf16": True},
            ScalesPart(offset=0, scales="m", rows=(0, 2), bf16=True),
        ),
    ],
)
def test_a_part_as_json_has_it(part: dict[str, Any], expected: object) -> None:
    assert _parts(part) == (expected,)


@pytest.mark.parametrize(
    "part",
    [
        {},
        {"offset": 0},
        {"offset": -1, "tensor": "t"},
        {"offset": 0.5, "tensor": "t"},
        {"offset": 0, "tensor": 1},
        {"offset": 0, "tensor": "t", "transposed": "no"},
        {"offset": 0, "sinusoid": {"rows": 0, "columns": 4}},
        {"offset": 0, "sinusoid": {"rows": 1, "columns": 1}},
        {"offset": 0, "cosinusoid": {"rows": 1, "columns": 4}},
        # Two readers might take it for one or the other.
        {"offset": 0, "tensor": "t", "sinusoid": {"rows": 1, "columns": 4}},
        {"offset": 0, "tensor": "t", "file": "f"},
        {"offset": 0, "file": "f", "sinusoid": {"rows": 1, "columns": 4}},
        {"offset": 0, "file": 1},
        {"offset": 0, "integers": "m"},
        {"offset": 0, "integers": "m", "rows": [1]},
        {"offset": 0, "integers": "m", "rows": [0, -1]},
        {"offset": 0, "scales": "m", "rows": [0, 1, 2]},
        {"offset": 0, "scales": "m", "integers": "m", "rows": [0, 1]},
        {"offset": 0, "file": "f", "transposed": True, "tensor": "t"},
        None,
    ],
)
def test_what_is_no_part(part: Any) -> None:
    with pytest.raises(ValidationError):
        _parts(part)


@pytest.mark.parametrize("name", ["", ".", "..", ".hidden", "a/b", "a\\b", "c:b", "a\x00", "a" * 129, "ä", "a\n"])
def test_a_made_member_has_a_plain_name(name: str) -> None:
    with pytest.raises(ValidationError, match="expected plain file names"):
        _packed(**{name: _member(b"")})


def test_more_bytes_than_a_reader_makes() -> None:
    with pytest.raises(ValidationError, match="less than or equal to 1073741824"):
        _member(b"", size_bytes=MAX_MADE_BYTES + 1)
    half = _member(b"", size_bytes=MAX_MADE_BYTES // 2)
    assert len(_packed(a=half, b=half).members) == 2
    with pytest.raises(ValidationError, match="at most 1073741824 bytes in all, found 1073741825"):
        _packed(a=half, b=half, c=_member(b"x"))


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (b'{"parts": {"a": []}}', "r: expected recipes for a, b, found some for a"),
        (b'{"parts": {"a": [], "b": [], "c": []}}', "r: expected recipes for a, b, found some for a, b, c"),
        (b'{"parts": {"a": [{}], "b": []}}', "r: expected recipes of members, found an error"),
        (b'{"parts": {"a": [], "b": []}', "r: expected JSON"),
        (b'{"parts": {"a": [], "a": [], "b": []}}', "r: expected JSON"),
    ],
)
def test_recipes_that_are_none(document: bytes, message: str) -> None:
    packed = _packed(a=_member(b""), b=_member(b""))
    packed = packed.model_copy(update={"recipes": RecipesFile(file="r", size_bytes=len(document))})
    with pytest.raises(BundleError, match=message):
        read_recipes(packed, zlib.compress(document), source="r")
    with pytest.raises(BundleError, match=f"expected a zlib stream of exactly {len(document)} bytes"):
        read_recipes(packed, zlib.compress(document + b" "), source="r")


def test_recipes_are_read_as_they_are_written() -> None:
    parts = {"a": _parts({"offset": 1, "tensor": "t", "transposed": True}), "b": ()}
    recipes = Recipes(rounded=rounded_tensors(m=8), parts=parts)
    stream, size_bytes = recipes.to_stream()
    packed = _packed(a=_member(b""), b=_member(b""))
    packed = packed.model_copy(update={"recipes": RecipesFile(file="r", size_bytes=size_bytes)})
    assert read_recipes(packed, stream, source="r") == recipes
