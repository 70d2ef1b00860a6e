"""What the bytes of a container are spent on, by kind, read from the file itself. NumPy is not needed.

``PARTS`` is the table: a new encoding states there how its payload divides into kinds.
"""

from collections.abc import Callable, Mapping
from typing import Final

from lite_nlp.compress.lnlp.container import Container
from lite_nlp.compress.lnlp.encodings import EncodedTensor

__all__ = ["KINDS", "PARTS", "bytes_by_kind", "tensor_parts"]

#: Plain weights of matrices; codebooks and scales; indices, entropy-coded symbols and bitmaps; frequency tables; states
#: of lanes; all of the tensors of at most one dimension and of whole numbers (biases, norms, buffers); the vocabulary;
#: other embedded files; preamble, header and checksums.
KINDS: Final = ("weights", "codebooks", "symbols", "tables", "states", "biases", "vocabulary", "files", "header")

#: Embedded files that hold the vocabulary; see ``FORMAT.md``.
_VOCABULARY: Final = ("tokenizer.json",)

#: Kind, bits and size of a codebook, before its values; and the number of lanes.
_CODEBOOK_HEADER: Final = 4
_LANES: Final = 4


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
    for name, count in container.stored_bytes.items():
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


def _plain(tensor: EncodedTensor) -> dict[str, int]:
    return {"weights": len(tensor.payload)}


def _pruned(tensor: EncodedTensor) -> dict[str, int]:
    bitmap = -(-tensor.num_elements // 8)
    return {"symbols": bitmap, "weights": len(tensor.payload) - bitmap}


def _kmeans(tensor: EncodedTensor) -> dict[str, int]:
    codebook = _codebook_bytes(tensor.payload)
    return {"codebooks": codebook, "symbols": len(tensor.payload) - codebook}


def _kmeans_rans(tensor: EncodedTensor) -> dict[str, int]:
    payload = tensor.payload
    codebook = place = _codebook_bytes(payload)
    for _ in range(_centroids(payload)):
        # A frequency ends with the byte whose top bit is clear.
        while payload[place] & 0x80:
            place += 1
        place += 1
    states = _LANES + 4 * int.from_bytes(payload[place : place + _LANES], "little")
    return {
        "codebooks": codebook,
        "symbols": len(payload) - place - states,
        "tables": place - codebook,
        "states": states,
    }


def _centroids(payload: bytes) -> int:
    return int.from_bytes(payload[2:4], "little") + 1


def _codebook_bytes(payload: bytes) -> int:
    return _CODEBOOK_HEADER + payload[0] * _centroids(payload)


#: For every encoding of ``ENCODINGS``, the bytes of a tensor by kind; a reader has checked its payload before.
PARTS: Final[Mapping[str, Callable[[EncodedTensor], dict[str, int]]]] = {
    "fp32": _plain,
    "fp16": _plain,
    "int64": _plain,
    "pruned": _pruned,
    "kmeans": _kmeans,
    "kmeans+rans": _kmeans_rans,
}
