"""How far to compress: the sparsity and the number of centroids that bring a file to a size at the smallest loss."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from torch import nn

from lite_nlp.compress.ledger import Ledger, Task
from lite_nlp.compress.lnlp.container import container_bytes
from lite_nlp.compress.prune.allocation import MAX_SPARSITY, SensitivityCurve, allocate_sparsity
from lite_nlp.compress.prune.magnitude import apply_masks, magnitude_masks, weights_restored
from lite_nlp.compress.stages import cluster_parameters, entropy_coded_model, model_tensors, set_clusters
from lite_nlp.core.errors import ModelError

__all__ = ["CENTROID_LADDER", "Plan", "plan_for_size"]

#: Numbers of centroids tried when a size must be met.
CENTROID_LADDER: Final = (256, 64, 16, 8)
#: Sizes are planned this much below the target: fine-tuning moves them a little.
_MARGIN: Final = 0.995
_ROUNDS: Final = 4
#: A file so near the target needs no further search.
_NEAR: Final = 0.97
#: First guess of what the largest sparsity leaves of a file.
_SPARSE_SHARE: Final = 0.2


@dataclass(frozen=True)
class Plan:
    """How far to compress.

    Attributes:
        sparsity: Overall fraction of zeros in the matrices, 0 to 0.95.
        num_centroids: Size of each codebook.
    """

    sparsity: float
    num_centroids: int


@dataclass(frozen=True)
class _Trial:
    plan: Plan
    size_bytes: int
    loss: float


def plan_for_size(
    model: nn.Module,
    *,
    task: Task,
    ledger: Ledger,
    parameters: Mapping[str, nn.Parameter],
    curves: Mapping[str, SensitivityCurve],
    target_bytes: int,
    on_trial: Callable[[], None] = lambda: None,
) -> Plan:
    """The plan with the smallest loss among those whose file, really built, is no larger than a target.

    For each number of centroids, from many to few, the smallest sufficient sparsity is searched; once fewer centroids
    give a larger loss the search ends.

    Args:
        model: Its weights are as before afterwards.
        task: How to evaluate, and what to embed.
        ledger: What the metadata will say.
        parameters: The matrices.
        curves: From ``scan_sensitivity``.
        target_bytes: Largest size of the file.
        on_trial: Called after each file built.

    Raises:
        ModelError: If even the strongest compression is larger; the message tells the smallest size reached.
    """

    def attempt(plan: Plan) -> _Trial:
        trial = _build(model, plan, task=task, ledger=ledger, parameters=parameters, curves=curves)
        on_trial()
        return trial

    wanted = int(target_bytes * _MARGIN)
    best: _Trial | None = None
    smallest = None
    for num_centroids in CENTROID_LADDER:
        found, least = _smallest_sparsity(attempt, num_centroids, wanted)
        smallest = least if smallest is None else min(smallest, least)
        if found is not None and best is not None and found.loss >= best.loss:
            break
        best = found or best
    if best is None:
        raise ModelError(
            f"{task.name}: cannot be compressed to {target_bytes:,} bytes; the smallest file reached, with a sparsity "
            f"of {MAX_SPARSITY} and {CENTROID_LADDER[-1]} centroids, has {smallest:,} bytes"
        )
    return best.plan


def _smallest_sparsity(attempt: Callable[[Plan], _Trial], num_centroids: int, wanted: int) -> tuple[_Trial | None, int]:
    """The trial with the smallest sparsity found that is small enough, if any, and the smallest size seen."""
    dense = attempt(Plan(0.0, num_centroids))
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
        trial = attempt(Plan(low.plan.sparsity + gap * min(max(share, 0.05), 0.95), num_centroids))
        low, high = (low, trial) if trial.size_bytes <= wanted else (trial, high)
    if high is not None:
        return high, high.size_bytes
    sparse = attempt(Plan(MAX_SPARSITY, num_centroids))
    return (sparse if sparse.size_bytes <= wanted else None), sparse.size_bytes


def _build(
    model: nn.Module,
    plan: Plan,
    *,
    task: Task,
    ledger: Ledger,
    parameters: Mapping[str, nn.Parameter],
    curves: Mapping[str, SensitivityCurve],
) -> _Trial:
    """Prune and quantize as planned, measure file and loss, and put the weights back."""
    with weights_restored(parameters):
        apply_masks(parameters, magnitude_masks(parameters, allocate_sparsity(curves, plan.sparsity)))
        clusters = cluster_parameters(parameters, plan.num_centroids)
        set_clusters(parameters, clusters)
        tensors = model_tensors(model)
        content = container_bytes(
            tensors=entropy_coded_model(tensors.tensors, clusters),
            aliases=tensors.aliases,
            files=task.files(model),
            metadata=ledger.metadata("entropy-coded"),
        )
        return _Trial(plan, len(content), task.evaluate(model))
