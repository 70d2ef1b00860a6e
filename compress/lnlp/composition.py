"""What the bytes of a container are spent on, by kind, read from the file itself. NumPy only.

``PARTS`` is the table: a new encoding states there how its payload divides into kinds.
"""

import zlib
from collections.abc import Callable, Mapping
from typing import Final

from lite_nlp.compress.lnlp.bits import BitReader
from lite_nlp.compress.lnlp.codebooks import SCALE_FIELD_BITS
from lite_nlp.compress.lnlp.container import Container
from lite_nlp.compress.lnlp.decoders import read_codebook
from lite_nlp.compress.lnlp.encodings import EncodedTensor
from lite_nlp.compress.lnlp.grid_payload import parse_grid_rans
from lite_nlp.compress.lnlp.limits import MAX_SCALE_BITS
from lite_nlp.compress.lnlp.rans import num_lanes

__all__ = ["KINDS", "MATRIX_KINDS", "PARTS", "bytes_by_kind", "tensor_parts"]

#: Plain weights of matrices; codebooks and scales; indices, entropy-coded symbols and bitmaps; frequency tables; states
#: of lanes; all of the tensors of at most one dimension and of whole numbers (biases, norms, buffers); the vocabulary;
#: other embedded files; preamble, header and checksums.
KINDS: Final = ("weights", "codebooks", "symbols", "tables", "states", "biases", "vocabulary", "files", "header")

#: The kinds that quantized matrices consist of.
MATRIX_KINDS: Final = ("codebooks", "symbols", "tables", "states")

#: Embedded files that hold the vocabulary; see ``FORMAT.md``.
_VOCABULARY: Final = ("tokenizer.json",)


def bytes_by_kind(container: Container, *, size_bytes: int) -> dict[str, int]:
    """The bytes of a file by kind; their sum is its size.

    Args:
        container: What was read from the file, checked.
        size_bytes: Size of the file.
    """
    found = dict.fromkeys(KINDS, 0)
    for tensor in container.tensors.values():
        for kind, count in tensor_parts(tensor).items():
            found[kind] += count
    for name, count in _file_bytes(container).items():
        found["vocabulary" if name in _VOCABULARY else "files"] += count
    # Everything that is no section.
    found["header"] = size_bytes - sum(found.values())
    return found


def tensor_parts(tensor: EncodedTensor) -> dict[str, int]:
    """The bytes of a tensor by kind; the kinds that it has, in the order of ``KINDS``."""
    if len(tensor.shape) < 2 or tensor.encoding == "int64":
        return {"biases": len(tensor.payload)}
    parts = PARTS[tensor.encoding](tensor)
    return {kind: parts[kind] for kind in KINDS if parts.get(kind)}


def _file_bytes(container: Container) -> dict[str, int]:
    """Bytes of each embedded file: of its section or, in the stream that the header shares with small files, its own.

    Its own are what it adds to the files before it when they are deflated without the header.
    """
    found = dict(container.stored_bytes)
    joined, before = b"", 0
    for name, content in container.files.items():
        if name not in found:
            joined += content
            after = len(zlib.compress(joined, 9))
            found[name], before = after - before, after
    return found


def _plain(tensor: EncodedTensor) -> dict[str, int]:
    return {"weights": len(tensor.payload)}


def _pruned(tensor: EncodedTensor) -> dict[str, int]:
    bitmap = -(-tensor.num_elements // 8)
    return {"symbols": bitmap, "weights": len(tensor.payload) - bitmap}


def _kmeans(tensor: EncodedTensor) -> dict[str, int]:
    reader = BitReader(tensor.payload, "codebook")
    read_codebook(reader)
    codebook = -(-reader.bits_read // 8)
    return {"codebooks": codebook, "symbols": len(tensor.payload) - codebook}


def _kmeans_rans(tensor: EncodedTensor) -> dict[str, int]:
    reader = BitReader(tensor.payload, "codebook")
    centroids = len(read_codebook(reader))
    # Codebook and frequencies share a byte, which counts as the codebook's.
    codebook = -(-reader.bits_read // 8)
    reader.field(SCALE_FIELD_BITS)
    reader.numbers(centroids, -1 << MAX_SCALE_BITS, 1 << MAX_SCALE_BITS)
    side = reader.finish()
    states = 4 * num_lanes(tensor.num_elements)
    return {
        "codebooks": codebook,
        "symbols": len(tensor.payload) - side - states,
        "tables": side - codebook,
        "states": states,
    }


def _grid(tensor: EncodedTensor) -> dict[str, int]:
    # After a step of 4 bytes come the bits: the width of a level in 5 of them, then what ends before the levels.
    width = BitReader(memoryview(tensor.payload)[4:], "grid").field(5)
    symbols = -(-tensor.num_elements * width // 8)
    return {"codebooks": len(tensor.payload) - symbols, "symbols": symbols}


def _grid_rans(tensor: EncodedTensor) -> dict[str, int]:
    return dict(parse_grid_rans(tensor.payload, tensor.shape)[1].parts)


#: For every encoding of ``ENCODINGS``, the bytes of a tensor by kind; a reader has checked its payload before.
PARTS: Final[Mapping[str, Callable[[EncodedTensor], dict[str, int]]]] = {
    "fp32": _plain,
    "fp16": _plain,
    "int64": _plain,
    "pruned": _pruned,
    "kmeans": _kmeans,
    "kmeans+rans": _kmeans_rans,
    "grid": _grid,
    "grid+rans": _grid_rans,
}
