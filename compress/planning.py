"""Search for the sparsity and the number of levels that reach a file size at the smallest loss."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from torch import nn

from lite_nlp.compress.ledger import CompressionSubject, Ledger
from lite_nlp.compress.lnlp.container import container_bytes
from lite_nlp.compress.prune.allocation import MAX_SPARSITY, SensitivityCurve, allocate_sparsity
from lite_nlp.compress.prune.magnitude import apply_masks, magnitude_masks, weights_restored
from lite_nlp.compress.quantize.protocol import Quantizer
from lite_nlp.compress.stages import (
    ENTROPY_CODED,
    entropy_coded_model,
    model_tensors,
    quantize_parameters,
    set_weights,
)
from lite_nlp.core.errors import TargetSizeError

__all__ = ["Plan", "plan_for_size"]

#: Sizes are planned this much below the target: fine-tuning moves them a little.
_MARGIN: Final = 0.995
_ROUNDS: Final = 4
#: A file so near the target needs no further search.
_NEAR: Final = 0.97
#: First guess of what the largest sparsity leaves of a file.
_SPARSE_SHARE: Final = 0.2


@dataclass(frozen=True)
class Plan:
    """The strength of a compression.

    Attributes:
        sparsity: Overall fraction of zeros in the matrices, 0 to 0.95.
        num_levels: By matrix, the number of different values that its weights may have.
    """

    sparsity: float
    num_levels: Mapping[str, int]


@dataclass(frozen=True)
class _Trial:
    plan: Plan
    size_bytes: int
    loss: float


def plan_for_size(
    model: nn.Module,
    *,
    subject: CompressionSubject,
    ledger: Ledger,
    quantizer: Quantizer,
    parameters: Mapping[str, nn.Parameter],
    curves: Mapping[str, SensitivityCurve],
    target_bytes: int,
    on_trial: Callable[[int, float], None] = lambda size_bytes, loss: None,
) -> Plan:
    """The plan with the smallest loss among those whose file, actually built, is no larger than a target.

    For each number of levels of the quantizer's ladder, from many to few, the smallest sufficient sparsity is searched;
    once fewer levels give a larger loss the search ends.

    Args:
        model: Its weights are as before afterwards.
        subject: How to evaluate, and what to embed.
        ledger: Source of the metadata.
        quantizer: How matrices are quantized.
        parameters: The matrices.
        curves: From ``scan_sensitivity``.
        target_bytes: Largest size of the file.
        on_trial: Called after each file built, with its size and its loss.

    Raises:
        TargetSizeError: If even the strongest compression is larger; the message tells the smallest size reached.
    """

    def attempt(plan: Plan) -> _Trial:
        trial = _build(
            model, plan, subject=subject, ledger=ledger, quantizer=quantizer, parameters=parameters, curves=curves
        )
        on_trial(trial.size_bytes, trial.loss)
        return trial

    wanted = int(target_bytes * _MARGIN)
    best: _Trial | None = None
    smallest = None
    for size in quantizer.ladder:
        found, least = _smallest_sparsity(attempt, dict.fromkeys(parameters, size), wanted)
        smallest = least if smallest is None else min(smallest, least)
        if found is not None and best is not None and found.loss >= best.loss:
            break
        best = found or best
    if best is None:
        raise TargetSizeError(
            f"{subject.name}: cannot be compressed to {target_bytes:,} bytes; the smallest file reached, with "
            f"a sparsity of {MAX_SPARSITY} and {quantizer.ladder[-1]} values per matrix, has {smallest:,} bytes",
            smallest_bytes=smallest or 0,
        )
    return best.plan


def _smallest_sparsity(
    attempt: Callable[[Plan], _Trial], num_levels: Mapping[str, int], wanted: int
) -> tuple[_Trial | None, int]:
    """The trial with the smallest sparsity found that is small enough, if any, and the smallest size seen."""
    dense = attempt(Plan(0.0, num_levels))
    if dense.size_bytes <= wanted:
        return dense, dense.size_bytes
    low = dense
    high: _Trial | None = None
    for round_number in range(_ROUNDS):
        end, end_size = (
            (high.plan.sparsity, high.size_bytes) if high else (MAX_SPARSITY, int(_SPARSE_SHARE * dense.size_bytes))
        )
        gap = end - low.plan.sparsity
        if gap < 0.01 or end_size >= wanted * _NEAR:
            break
        # Size falls almost evenly with sparsity, so a straight line lands near the target; halving in turn with it
        # bounds the search where it does not.
        share = 0.5 if round_number % 2 else (low.size_bytes - wanted) / (low.size_bytes - end_size)
        trial = attempt(Plan(low.plan.sparsity + gap * min(max(share, 0.05), 0.95), num_levels))
        low, high = (low, trial) if trial.size_bytes <= wanted else (trial, high)
    if high is not None:
        return high, high.size_bytes
    sparse = attempt(Plan(MAX_SPARSITY, num_levels))
    return (sparse if sparse.size_bytes <= wanted else None), sparse.size_bytes


def _build(
    model: nn.Module,
    plan: Plan,
    *,
    subject: CompressionSubject,
    ledger: Ledger,
    quantizer: Quantizer,
    parameters: Mapping[str, nn.Parameter],
    curves: Mapping[str, SensitivityCurve],
) -> _Trial:
    """Prune and quantize as planned, measure file and loss, and put the weights back."""
    with weights_restored(parameters):
        apply_masks(parameters, magnitude_masks(parameters, allocate_sparsity(curves, plan.sparsity)))
        quantized = quantize_parameters(quantizer, parameters, plan.num_levels)
        set_weights(parameters, quantized)
        tensors = model_tensors(model)
        content = container_bytes(
            tensors=entropy_coded_model(tensors.tensors, quantized),
            aliases=tensors.aliases,
            files=subject.files(model),
            metadata=ledger.metadata(ENTROPY_CODED),
        )
        return _Trial(plan, len(content), subject.evaluate(model))
