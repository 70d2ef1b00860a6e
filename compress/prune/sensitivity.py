"""Sensitivity scan: quality against sparsity, one matrix at a time (Han et al. 2015, section 3.1)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lite_nlp.compress.prune.allocation import GRID, MAX_SPARSITY, SensitivityCurve
from lite_nlp.compress.prune.magnitude import apply_masks, magnitude_mask, weights_restored

__all__ = ["DEFAULT_SPARSITIES", "scan_sensitivity"]

DEFAULT_SPARSITIES: Final = (0.5, 0.8)


def scan_sensitivity(
    model: nn.Module,
    evaluate: Callable[[nn.Module], float],
    *,
    parameters: Mapping[str, nn.Parameter],
    sparsities: Sequence[float] = DEFAULT_SPARSITIES,
    on_evaluation: Callable[[], None] = lambda: None,
) -> dict[str, SensitivityCurve]:
    """Prune each matrix alone to each sparsity, measure the loss, and put the weights back.

    Args:
        model: Evaluated; its weights are as before afterwards.
        evaluate: The loss of the model, lower is better; called once, then once for each matrix and sparsity.
        parameters: The matrices to scan, by name.
        sparsities: Ascending, each above 0 and at most 0.95.
        on_evaluation: Called after each evaluation of a pruned model.

    Raises:
        ValueError: If ``sparsities`` is empty, not ascending or out of range.
    """
    levels = tuple(sparsities)
    if not levels or list(levels) != sorted(set(levels)) or levels[0] <= 0 or levels[-1] > MAX_SPARSITY:
        raise ValueError(f"sparsities: expected ascending ones, above 0 and at most {MAX_SPARSITY}, found {levels}")
    base = evaluate(model)
    curves = {}
    for name, parameter in parameters.items():
        increases = []
        for level in levels:
            with weights_restored({name: parameter}):
                apply_masks({name: parameter}, {name: magnitude_mask(parameter, level)})
                increases.append(evaluate(model) - base)
            on_evaluation()
        curves[name] = SensitivityCurve(
            num_weights=parameter.numel(),
            sparsities=levels,
            loss_increases=tuple(increases),
            energies=_removed_energy(parameter),
        )
    return curves


def _removed_energy(parameter: Tensor) -> NDArray[np.float64]:
    """The fraction of the sum of squares in the smallest weights, at each sparsity of ``GRID``."""
    squares = torch.sort(parameter.detach().double().square().reshape(-1)).values.cpu().numpy()
    cumulative = np.concatenate([np.zeros(1), np.cumsum(squares)])
    total = float(cumulative[-1])
    removed: NDArray[np.float64] = cumulative[np.round(GRID * len(squares)).astype(np.int64)]
    return removed / total if total > 0 else np.zeros(len(GRID))
