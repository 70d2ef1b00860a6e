"""Payloads of tensors on a uniform grid with levels coded by rANS.

``FORMAT.md``, sections "Grid" and "Tables", specifies the bytes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lite_nlp.compress.lnlp.bits import BitReader, BitWriter, list_bits
from lite_nlp.compress.lnlp.grid_fit import MAX_CLASS_OFFSET, GridFit, fit_grid
from lite_nlp.compress.lnlp.grid_fixed import check_size, checked_matrix, checked_scales, read_list
from lite_nlp.compress.lnlp.grid_tables import (
    ESCAPE,
    GRID_SCALE_BITS,
    NUM_CLASSES,
    NUM_SHAPES,
    NUM_TILTS,
    TILT_MAX,
    TILT_MIN,
    GridTables,
    build_tables,
)
from lite_nlp.compress.lnlp.limits import MAX_LISTED, max_grid_tables
from lite_nlp.compress.lnlp.rans import RansStream, RansSymbols, encode_streams, num_lanes
from lite_nlp.compress.lnlp.rans_decoder import DecodedStream, SymbolTables
from lite_nlp.compress.lnlp.streams import parse_stream
from lite_nlp.compress.lnlp.tensors import (
    MAX_EXPONENT,
    MAX_LEVEL,
    EncodedTensor,
    GridTensor,
    outer_sums,
)
from lite_nlp.core.errors import ContainerError

__all__ = ["ParsedGrid", "encode_grid_rans", "grid_bits", "parse_grid_rans"]

#: Levels that an estimate looks at, for each tensor.
_SAMPLE: Final = 1 << 15
#: Width of the fields of the side information.
_SHAPE_BITS: Final = 3
_CLASS_BITS: Final = 7
_WIDTH_BITS: Final = 3
#: The greatest magnitude that a table holds.
_MAX_HELD: Final = 255

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float32]


@dataclass(frozen=True)
class _Classes:
    """Which table each level of a matrix has.

    Attributes:
        rows: (rows,) class of each row, the matrix's own among it.
        columns: (columns,) what each column adds.
        present: (T,) ascending classes that occur.
    """

    rows: NDArray[np.signedinteger[Any]]
    columns: NDArray[np.signedinteger[Any]]
    present: IntArray

    @classmethod
    def of(
        cls,
        base: int,
        widths: tuple[int, int],
        sides: Sequence[NDArray[np.signedinteger[Any]]],
        shape: tuple[int, int],
    ) -> "_Classes":
        """From the classes of rows and of columns; a single one is that of all."""
        # One number for all of them takes no memory, however many they are.
        rows, columns = (side[:1] if side.strides == (0,) else side for side in sides)
        rows = base + widths[0] * rows.astype(np.int16)
        columns = widths[1] * columns.astype(np.int16)
        sums = _distinct(np.clip(_distinct(rows)[:, None] + _distinct(columns), 0, NUM_CLASSES - 1))
        return cls(np.broadcast_to(rows, (shape[0],)), np.broadcast_to(columns, (shape[1],)), sums.astype(np.int64))

    def choose(self, start: int, count: int) -> NDArray[np.uint8]:
        """Places among ``present`` of the classes of ``count`` levels, in row-major order from ``start`` on."""
        return self._places(outer_sums(self.rows, self.columns, start, count))

    def choose_at(self, places: NDArray[np.intp]) -> NDArray[np.uint8]:
        """The same of the levels at some places in row-major order."""
        width = len(self.columns)
        return self._places(self.rows[places // width] + self.columns[places % width])

    def _places(self, sums: NDArray[np.signedinteger[Any]]) -> NDArray[np.uint8]:
        places = np.zeros(NUM_CLASSES, dtype=np.uint8)
        places[self.present] = np.arange(len(self.present))
        return np.asarray(places[np.clip(sums, 0, NUM_CLASSES - 1)])


def _distinct(values: NDArray[Any]) -> NDArray[Any]:
    """Ascending. Without counts ``np.unique`` imports ``numpy.ma``, 10 ms of an opening."""
    return np.unique(values, return_counts=True)[0]


@dataclass(frozen=True)
class ParsedGrid:
    """A payload but for its stream.

    Attributes:
        tables: For the decoder of its stream, whose values are levels from the center on.
        step_top: Upper half of the step's 32 bits; the stream carries the lower.
        center: Added to every level.
        escapes: The levels that no table held, without the center, in order.
        classes: Which table each level has.
        reach: (T,) greatest magnitude that each table holds.
        row_exponents: (rows,)
        column_exponents: (columns,)
        parts: Bytes of the payload by kind (``composition.KINDS``).
    """

    tables: SymbolTables
    step_top: int
    center: int
    escapes: IntArray
    classes: _Classes
    reach: IntArray
    row_exponents: NDArray[np.signedinteger[Any]]
    column_exponents: NDArray[np.signedinteger[Any]]
    parts: Mapping[str, int]

    def weights(self, decoded: DecodedStream) -> FloatArray:
        """The weights of the tensor, in row-major order, from its stream."""
        step = np.array([self.step_top << 16 | decoded.carried], dtype=np.uint32).view(np.float32)[0]
        scales = checked_scales(step, self.row_exponents, self.column_exponents)
        values = scales.weights(decoded.values, center=self.center)
        escaped = np.flatnonzero(decoded.values == ESCAPE)
        if len(escaped) != len(self.escapes):
            raise ContainerError(f"escapes: expected {len(escaped)}, found {len(self.escapes)}")
        if len(escaped):
            if np.any(np.abs(self.escapes) <= self.reach[self.classes.choose_at(escaped)]):
                raise ContainerError("escapes: expected levels that their tables do not hold, found others")
            values[escaped] = scales.weights_at((self.escapes + self.center).astype(np.int32), escaped)
        return values


def encode_grid_rans(tensors: Mapping[str, GridTensor]) -> dict[str, EncodedTensor]:
    """Several tensors at once: step, exponents and what chooses the tables, then the levels coded by rANS.

    Raises:
        ValueError: If a tensor has no level, or more than 2 ** 20 that are hundreds of steps from the others.
    """
    plans = [_plan(tensor) for tensor in tensors.values()]
    streams = encode_streams([symbols for _, symbols in plans])
    return {
        name: EncodedTensor(tensor.levels.shape, "grid+rans", side + stream.to_bytes())
        for (name, tensor), (side, _), stream in zip(tensors.items(), plans, streams, strict=True)
    }


def grid_bits(tensors: Mapping[str, GridTensor]) -> dict[str, float]:
    """About how many bits ``encode_grid_rans`` will spend on each tensor, within a percent, in a fraction of its time.

    Raises:
        ValueError: If a tensor has no level.
    """
    estimates = {}
    for name, tensor in tensors.items():
        check_size(tensor)
        exponents = sum(
            _exponent_bits(side.astype(np.int8).tobytes()) for side in (tensor.row_exponents, tensor.column_exponents)
        )
        fit = fit_grid(tensor.matrix, sample=_SAMPLE)
        estimates[name] = fit.bits + exponents + 24 * num_lanes(tensor.levels.size)
    return estimates


@lru_cache(maxsize=1024)
def _exponent_bits(exponents: bytes) -> int:
    """Of a list of exponents, which stay as they are while the levels of a tensor are trained."""
    return list_bits(np.frombuffer(exponents, dtype=np.int8).astype(np.int64))


def parse_grid_rans(payload: bytes, shape: tuple[int, ...]) -> tuple[RansStream, ParsedGrid]:
    """The stream of an entropy-coded tensor, and what else its payload holds."""
    rows, columns = checked_matrix(shape)
    if len(payload) < 2:
        raise ContainerError(f"expected 2 bytes of step, found {len(payload)}")
    reader = BitReader(memoryview(payload)[2:], "grid")
    form, center, base = reader.field(_SHAPE_BITS), reader.signed(), reader.field(_CLASS_BITS)
    widths = reader.field(_WIDTH_BITS), reader.field(_WIDTH_BITS)
    if form >= NUM_SHAPES or base >= NUM_CLASSES or abs(center) > MAX_LEVEL - _MAX_HELD:
        raise ContainerError(f"tables: expected a shape, a class and a center, found {form}, {base} and {center}")
    tilts = reader.numbers(NUM_TILTS, TILT_MIN, TILT_MAX)
    sides = [
        read_list(reader, count, MAX_CLASS_OFFSET) if width else np.zeros(1, dtype=np.int8)
        for count, width in ((rows, widths[0]), (columns, widths[1]))
    ]
    choosing = reader.bits_read
    exponents = read_list(reader, rows, MAX_EXPONENT), read_list(reader, columns, MAX_EXPONENT)
    scaling = reader.bits_read
    num_escapes = reader.number()
    if num_escapes > min(rows * columns, MAX_LISTED):
        raise ContainerError(f"escapes: expected at most {min(rows * columns, MAX_LISTED)}, found {num_escapes}")
    escapes = reader.numbers(num_escapes, -MAX_LEVEL - center, MAX_LEVEL - center)
    classes = _Classes.of(base, widths, sides, (rows, columns))
    if len(classes.present) > max_grid_tables(rows * columns):
        raise ContainerError(
            f"tables: expected at most {max_grid_tables(rows * columns)} for {rows * columns} weights, "
            f"found {len(classes.present)}"
        )
    tables = build_tables(form, tilts, classes.present)
    spread = SymbolTables(
        scale_bits=GRID_SCALE_BITS,
        frequencies=tables.frequencies.reshape(-1),
        values=_symbol_levels(tables).reshape(-1),
        choose=classes.choose if len(classes.present) > 1 else None,
    )
    side = 2 + reader.finish()
    stream = parse_stream(memoryview(payload)[side:], rows * columns)
    # Bits of several kinds share bytes, which count as those of the kind that begins in them.
    table_bytes, scale_bytes = -(-choosing // 8), -(-scaling // 8) - -(-choosing // 8)
    states = 4 * len(stream.states)
    parts = {
        "codebooks": 2 + scale_bytes,
        "symbols": len(payload) - 2 - scale_bytes - table_bytes - states,
        "tables": table_bytes,
        "states": states,
    }
    top = int.from_bytes(payload[:2], "little")
    return stream, ParsedGrid(spread, top, center, escapes, classes, tables.reach, *exponents, parts)


def _plan(tensor: GridTensor) -> tuple[bytes, RansSymbols]:
    """The bytes in front of a tensor's stream, and the symbols of its stream."""
    check_size(tensor)
    fit = fit_grid(tensor.matrix)
    classes = _Classes.of(fit.base, fit.widths, (fit.row_classes, fit.column_classes), tensor.matrix.shape)
    tables = build_tables(fit.shape, fit.tilts, classes.present)
    chosen = classes.choose(0, tensor.levels.size).astype(np.int64)
    levels = tensor.levels.reshape(-1) - np.int32(fit.center)
    magnitudes = np.abs(levels)
    escaped = magnitudes > tables.reach[chosen]
    if np.count_nonzero(escaped) > MAX_LISTED:
        raise ValueError(
            f"levels: expected at most {MAX_LISTED} far from the others, found {np.count_nonzero(escaped)}"
        )
    places = np.where(escaped, 2 * tables.reach[chosen] + 1, 2 * magnitudes - (levels > 0))
    places += chosen * tables.frequencies.shape[1]
    step = int(np.array([tensor.step], dtype=np.float32).view(np.uint32)[0])
    side = (step >> 16).to_bytes(2, "little") + _side(tensor, fit, levels[escaped])
    symbols = RansSymbols(
        places=places, frequencies=tables.frequencies.reshape(-1), scale_bits=GRID_SCALE_BITS, carried=step & 0xFFFF
    )
    return side, symbols


def _side(tensor: GridTensor, fit: GridFit, escapes: NDArray[np.int32]) -> bytes:
    writer = BitWriter()
    writer.field(fit.shape, _SHAPE_BITS)
    writer.signed(fit.center)
    writer.field(fit.base, _CLASS_BITS)
    for width in fit.widths:
        writer.field(width, _WIDTH_BITS)
    writer.numbers(fit.tilts)
    for classes, width in zip((fit.row_classes, fit.column_classes), fit.widths, strict=True):
        if width:
            writer.numbers(classes)
    writer.numbers(tensor.row_exponents)
    writer.numbers(tensor.column_exponents)
    writer.number(len(escapes))
    writer.numbers(escapes)
    return writer.to_bytes()


def _symbol_levels(tables: GridTables) -> NDArray[np.int16]:
    """What each symbol of each table stands for, in the order of its frequencies."""
    positions = np.arange(tables.frequencies.shape[1])
    levels = np.where(positions % 2, positions // 2 + 1, -(positions // 2))
    return np.where(positions == 2 * tables.reach[:, None] + 1, ESCAPE, levels).astype(np.int16)
