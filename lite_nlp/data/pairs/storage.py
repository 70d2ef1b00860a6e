"""One split of sentence pairs on disk: an Arrow table that is read through a memory map.

Columns: ``src`` and ``tgt``, lists of int32 token ids without special tokens; ``src_text`` and ``tgt_text``;
``src_length`` and ``tgt_length``, int32, so that the lengths can be read without the tokens.

The directory is also one that ``datasets.load_from_disk`` of Hugging Face reads: the table is one or several files in
Arrow's streaming format, which ``state.json`` lists and ``dataset_info.json`` describes.
"""

import json
import mmap
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lite_nlp.core.errors import DataError
from lite_nlp.core.files import sha256_file
from lite_nlp.core.parsing import parse_json_object, parsing, read_document
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

#: Pairs tokenized and written at a time: what is in memory, and a record batch of the file.
_BATCH_PAIRS: Final = 1_000

_TABLE_FILE: Final = "data-00000-of-00001.arrow"
_STATE_FILE: Final = "state.json"
_FEATURES_FILE: Final = "dataset_info.json"


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
    content = read_document(path / _STATE_FILE, expected="the list of the files of a split", error=DataError)
    state = parse_json_object(content, source=str(path / _STATE_FILE), error=DataError)
    with parsing(str(path), "the Arrow files of a split", DataError):
        table = pa.concat_tables([_map_table(path / file["filename"]) for file in state["_data_files"]])
    if not table.schema.remove_metadata().equals(SCHEMA):
        raise DataError(
            f"{path}: expected the columns {', '.join(SCHEMA.names)}, found {', '.join(table.schema.names)}"
        )
    return Split(name, table)


def _map_table(file: Path) -> pa.Table:
    """The table in ``file``, whose buffers are views of a memory map."""
    # Python's map, not Arrow's: that takes no path with stray bytes, which a letter is in a locale without UTF-8.
    with file.open("rb") as opened:
        mapped = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
    with pa.ipc.open_stream(pa.py_buffer(mapped)) as stream:
        return stream.read_all()


def write_split(path: Path, pairs: Iterable[tuple[str, str]], tokenizer: Tokenizer) -> tuple[int, int, int]:
    """Tokenize ``pairs`` and write them to the new directory ``path``, a batch at a time.

    Returns:
        Pairs, source tokens and target tokens, special tokens not counted.
    """
    path.mkdir()
    features = {field.name: _feature(field.type) for field in SCHEMA}
    schema = SCHEMA.with_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    counts = np.zeros(3, dtype=np.int64)
    table = path / _TABLE_FILE
    with table.open("wb") as file, pa.ipc.new_stream(file, schema) as stream:
        rest = iter(pairs)
        while chunk := list(islice(rest, _BATCH_PAIRS)):
            batch = _encode(chunk, tokenizer, schema)
            stream.write_batch(batch)
            counts += [batch.num_rows, *(len(batch.column(side).values) for side in ("src", "tgt"))]
    described = {"citation": "", "description": "", "features": features, "homepage": "", "license": ""}
    state: dict[str, Any] = {
        "_data_files": [{"filename": table.name}],
        "_fingerprint": sha256_file(table)[:16],
        "_format_columns": None,
        "_format_kwargs": {},
        "_format_type": None,
        "_output_all_columns": False,
        "_split": None,
    }
    for name, content in ((_FEATURES_FILE, described), (_STATE_FILE, state)):
        (path / name).write_text(json.dumps(content, indent=2), encoding="utf-8")
    rows, src_tokens, tgt_tokens = counts.tolist()
    return rows, src_tokens, tgt_tokens


def _feature(column: pa.DataType) -> dict[str, Any]:
    """A column's type in the terms of ``datasets``."""
    if pa.types.is_list(column):
        return {"feature": _feature(column.value_type), "_type": "List"}
    return {"dtype": str(column), "_type": "Value"}


def _encode(pairs: Sequence[tuple[str, str]], tokenizer: Tokenizer, schema: pa.Schema) -> pa.RecordBatch:
    texts = [[pair[side] for pair in pairs] for side in (0, 1)]
    rows = [tokenizer.encode_batch(side) for side in texts]
    lengths = [np.array([len(row) for row in side], dtype=np.int32) for side in rows]
    columns: list[Any] = [pa.array(side, type=pa.list_(pa.int32())) for side in rows]
    columns += [pa.array(side, type=pa.string()) for side in texts]
    columns += [pa.array(side) for side in lengths]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
