"""One split of a data directory: an Arrow table on disk that is read through a memory map.

Columns: ``src`` and ``tgt``, lists of int32 token ids without special tokens; ``src_text`` and ``tgt_text``;
``src_length`` and ``tgt_length``, int32, so that the lengths can be read without the tokens.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Final

import datasets
import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped]

from lite_nlp.core.errors import DataError
from lite_nlp.data.tokenizer import Tokenizer

__all__ = ["Split", "load_split", "write_split"]

Int32Array = npt.NDArray[np.int32]

SCHEMA: Final = pa.schema(
    [
        ("src", pa.list_(pa.int32())),
        ("tgt", pa.list_(pa.int32())),
        ("src_text", pa.string()),
        ("tgt_text", pa.string()),
        ("src_length", pa.int32()),
        ("tgt_length", pa.int32()),
    ]
)

#: Pairs tokenized and written at a time: what is in memory.
_CHUNK_PAIRS: Final = 5_000


class Split:
    """Sentence pairs by row number; only the rows asked for are read from disk."""

    def __init__(self, name: str, table: pa.Table) -> None:
        self.name = name
        self._table = table
        self._chunks: list[pa.RecordBatch] = table.to_batches()
        #: Number of the first row of each chunk, and the number of rows at the end.
        self._starts = np.cumsum([0, *(chunk.num_rows for chunk in self._chunks)])
        self._views: dict[tuple[int, str], tuple[npt.NDArray[np.int32], Int32Array]] = {}

    def __len__(self) -> int:
        return int(self._starts[-1])

    @cached_property
    def src_lengths(self) -> Int32Array:
        """(rows,) tokens per source row, without special tokens."""
        return self._column("src_length")

    @cached_property
    def tgt_lengths(self) -> Int32Array:
        """(rows,) tokens per target row, without special tokens."""
        return self._column("tgt_length")

    def tokens(self, indices: Sequence[int] | npt.NDArray[np.integer]) -> tuple[list[Int32Array], list[Int32Array]]:
        """Source and target ids of the rows ``indices``, in that order, as read-only views of the file.

        Raises:
            DataError: If a row number is outside the split.
        """
        places = self._places(indices)
        return [self._row("src", *place) for place in places], [self._row("tgt", *place) for place in places]

    def texts(self, indices: Sequence[int] | npt.NDArray[np.integer] | None = None) -> tuple[list[str], list[str]]:
        """Source and target text of the rows ``indices``, in that order; of all rows if None.

        Raises:
            DataError: If a row number is outside the split.
        """
        if indices is None:
            return self._table.column("src_text").to_pylist(), self._table.column("tgt_text").to_pylist()
        places = self._places(indices)
        src, tgt = SCHEMA.get_field_index("src_text"), SCHEMA.get_field_index("tgt_text")
        return (
            [self._chunks[chunk].column(src)[row].as_py() for chunk, row in places],
            [self._chunks[chunk].column(tgt)[row].as_py() for chunk, row in places],
        )

    def _column(self, name: str) -> Int32Array:
        values: Int32Array = self._table.column(name).to_numpy()
        return values

    def _places(self, indices: Sequence[int] | npt.NDArray[np.integer]) -> list[tuple[int, int]]:
        """Chunk and row within it of each row number."""
        rows = np.asarray(indices, dtype=np.int64)
        if rows.size and not 0 <= int(rows.min()) <= int(rows.max()) < len(self):
            raise DataError(
                f"{self.name}: expected row numbers 0 to {len(self) - 1}, found {rows.min()} to {rows.max()}"
            )
        chunks = np.searchsorted(self._starts, rows, side="right") - 1
        return list(zip(chunks.tolist(), (rows - self._starts[chunks]).tolist(), strict=True))

    def _row(self, column: str, chunk: int, row: int) -> Int32Array:
        # Arrow's own gather copies whole chunks of lists together first; two views of its buffers do without.
        if (chunk, column) not in self._views:
            array = self._chunks[chunk].column(SCHEMA.get_field_index(column))
            self._views[chunk, column] = (array.offsets.to_numpy(), array.values.to_numpy())
        offsets, values = self._views[chunk, column]
        return values[offsets[row] : offsets[row + 1]]


def load_split(path: Path, name: str) -> Split:
    """Open the split in the directory ``path``.

    Raises:
        DataError: If it is missing, damaged, or has other columns.
    """
    try:
        dataset = datasets.load_from_disk(str(path), keep_in_memory=False)
        table = dataset.data.table
    except (OSError, ValueError, KeyError, TypeError, AttributeError, pa.ArrowException) as error:
        raise DataError(f"{path}: expected the Arrow files of a split, found damaged ones: {error}") from error
    if not table.schema.remove_metadata().equals(SCHEMA):
        raise DataError(
            f"{path}: expected the columns {', '.join(SCHEMA.names)}, found {', '.join(table.schema.names)}"
        )
    return Split(name, table)


def write_split(path: Path, pairs: Iterable[tuple[str, str]], tokenizer: Tokenizer) -> tuple[int, int, int]:
    """Tokenize ``pairs`` and write them to the new directory ``path``, a chunk at a time.

    Returns:
        Pairs, source tokens and target tokens, special tokens not counted.
    """
    # Not inside the directory: a data set refuses to be saved where it is read from.
    scratch = path.with_name(f"{path.name}.stream.arrow")
    counts = np.zeros(3, dtype=np.int64)
    with scratch.open("wb") as file, pa.ipc.new_stream(file, SCHEMA) as stream:
        rest = iter(pairs)
        while chunk := list(islice(rest, _CHUNK_PAIRS)):
            batch = _encode(chunk, tokenizer)
            stream.write_batch(batch)
            counts += [batch.num_rows, *(len(batch.column(side).values) for side in ("src", "tgt"))]
    with _no_progress_bars():
        datasets.Dataset.from_file(str(scratch)).save_to_disk(str(path))
    scratch.unlink()
    rows, src_tokens, tgt_tokens = counts.tolist()
    return rows, src_tokens, tgt_tokens


def _encode(pairs: Sequence[tuple[str, str]], tokenizer: Tokenizer) -> pa.RecordBatch:
    texts = [[pair[side] for pair in pairs] for side in (0, 1)]
    rows = [tokenizer.encode_batch(side) for side in texts]
    lengths = [np.array([len(row) for row in side], dtype=np.int32) for side in rows]
    columns: list[Any] = [pa.array(side, type=pa.list_(pa.int32())) for side in rows]
    columns += [pa.array(side, type=pa.string()) for side in texts]
    columns += [pa.array(side) for side in lengths]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


@contextmanager
def _no_progress_bars() -> Iterator[None]:
    """Keep ``datasets`` from drawing its own bars between ours."""
    if datasets.are_progress_bars_disabled():
        yield
        return
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        datasets.enable_progress_bars()
