"""Targets out of reach: by how much they are missed, and what takes the bytes."""

from collections.abc import Mapping
from typing import Final

from torch import nn

from lite_nlp.budget.reporting.compression import KIND_NAMES
from lite_nlp.compress.ledger import CompressionSubject, Ledger
from lite_nlp.compress.lnlp.composition import MATRIX_KINDS, bytes_by_kind
from lite_nlp.compress.lnlp.container import container_bytes, parse_container
from lite_nlp.compress.prune.magnitude import prunable_parameters
from lite_nlp.compress.quantize.trained_grid import GridWeights
from lite_nlp.compress.stages import ENTROPY_CODED, VECTOR_BITS, entropy_coded_model, model_tensors, quantized_vectors
from lite_nlp.core.errors import TargetSizeError

__all__ = ["check_overhead", "out_of_reach"]

_BITS_PER_BYTE: Final = 8


def check_overhead(model: nn.Module, *, subject: CompressionSubject, ledger: Ledger, target_bytes: int) -> None:
    """Refuse a target that leaves no room for any matrix, before anything is measured for it.

    Args:
        model: The model to be compressed.
        subject: What to embed.
        ledger: Source of the metadata.
        target_bytes: Largest size of the final file.

    Raises:
        TargetSizeError: If header, vocabulary, other files and the vectors in the fewest bits are larger.
    """
    matrices = prunable_parameters(model)
    whole = model_tensors(model)
    tensors = {name: tensor for name, tensor in whole.tensors.items() if name not in matrices}
    vectors = {name: vector for name, vector in quantized_vectors(model, VECTOR_BITS[0]).items() if name in tensors}
    content = container_bytes(
        tensors=entropy_coded_model(tensors, GridWeights({}), vectors=vectors),
        aliases={alias: name for alias, name in whole.aliases.items() if name in tensors},
        files=subject.files(model),
        metadata=ledger.metadata(ENTROPY_CODED),
    )
    if len(content) < target_bytes:
        return
    by_kind = bytes_by_kind(parse_container(content), size_bytes=len(content))
    raise TargetSizeError(
        f"{subject.name}: cannot be compressed to {target_bytes:,} bytes: without any of its matrices the file has "
        f"{_excess(len(content), target_bytes)}: {_list_kinds(by_kind)}",
        smallest_bytes=len(content),
        target_bytes=target_bytes,
        bytes_by_kind=by_kind,
    )


def out_of_reach(
    name: str, *, target_bytes: int, by_kind: Mapping[str, int], num_weights: int, smallest: str
) -> TargetSizeError:
    """The error that a file is too large, with what takes its bytes.

    Args:
        name: The model.
        target_bytes: Largest size of the file.
        by_kind: Bytes of the smallest file.
        num_weights: Weights of the matrices in it.
        smallest: What that file is.
    """
    size_bytes = sum(by_kind.values())
    matrices = sum(by_kind[kind] for kind in MATRIX_KINDS)
    rest = {kind: count for kind, count in by_kind.items() if kind not in MATRIX_KINDS}
    return TargetSizeError(
        f"{name}: cannot be compressed to {target_bytes:,} bytes; {smallest} has {_excess(size_bytes, target_bytes)}: "
        f"matrices {matrices:,} ({_BITS_PER_BYTE * matrices / num_weights:.2f} bits for each of {num_weights:,} "
        f"weights), {_list_kinds(rest)}",
        smallest_bytes=size_bytes,
        target_bytes=target_bytes,
        bytes_by_kind=by_kind,
        num_weights=num_weights,
    )


def _excess(size_bytes: int, target_bytes: int) -> str:
    more = size_bytes - target_bytes
    return f"{size_bytes:,} bytes, {more:,} too many, {size_bytes / target_bytes:.2f} times the target"


def _list_kinds(by_kind: Mapping[str, int]) -> str:
    """Bytes by kind, the largest first."""
    found = sorted(((count, kind) for kind, count in by_kind.items() if count), reverse=True)
    return ", ".join(f"{KIND_NAMES[kind][0].partition(',')[0]} {count:,}" for count, kind in found)
