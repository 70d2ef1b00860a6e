"""Structured pruning of channels between the Linears of any module: fewer Mult-Adds, not only fewer bytes.

torch-pruning's dependency graph (Fang et al. 2023, arXiv 2301.12900) finds the layers whose shapes depend on a
channel, so nothing here knows the model.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch
import torch_pruning as tp
from torch import Tensor, nn

from lite_nlp.core.errors import ModelError

__all__ = ["prune_channels"]

#: Widths stay multiples of this, which vector units and quantized kernels like.
_ROUND_TO: Final = 8


def prune_channels(
    model: nn.Module,
    example_inputs: tuple[Tensor, ...],
    *,
    layers: Sequence[str],
    fraction: float,
    round_to: int = _ROUND_TO,
) -> int:
    """Remove the least important output channels of some Linear layers, and whatever depends on them, in place.

    Importance of a channel is the L2 norm of all weights that are removed with it: its row in the layer and its column
    in every layer that takes it in. Every layer keeps the same number, so that one number describes the smaller model.

    Args:
        model: Changed in place; its mode is left as it is.
        example_inputs: Arguments of one forward call, to trace which layer feeds which.
        layers: Names of Linear layers of one and the same width whose outputs may go (the first of each
            feed-forward pair).
        fraction: Fraction of the channels to remove, above 0 and below 1.
        round_to: The width left is rounded up to a multiple of this.

    Returns:
        The width that every layer has now.

    Raises:
        ModelError: If a name is no Linear layer, the widths differ, or other layers than Linear ones depend on the
            channels; the model is then as it was.
        ValueError: If ``fraction`` or ``round_to`` is out of range.
    """
    if not 0.0 < fraction < 1.0:
        raise ValueError(f"fraction: expected above 0 and below 1, found {fraction}")
    if round_to < 1:
        raise ValueError(f"round_to: expected at least 1, found {round_to}")
    modules = dict(model.named_modules())
    linears = {name: _linear(modules, name) for name in layers}
    widths = {linear.out_features for linear in linears.values()}
    if len(widths) != 1:
        raise ModelError(f"structured pruning: expected layers of one width, found {sorted(widths) or 'no layers'}")
    width = widths.pop()
    kept = min(width, -(-max(1, round(width * (1.0 - fraction))) // round_to) * round_to)
    # Quiet: parameters outside Linear layers, such as convolution kernels, do not depend on these channels.
    graph = tp.DependencyGraph().build_dependency(model, example_inputs=example_inputs, verbose=False)
    doomed = {}
    # All of them before the first is pruned: the module is as it was where one is refused.
    for name, linear in linears.items():
        whole = graph.get_pruning_group(linear, tp.prune_linear_out_channels, idxs=list(range(width)))
        order = torch.argsort(_importance(name, whole, width), stable=True)
        doomed[name] = sorted(order[: width - kept].tolist())
    for name, linear in linears.items():
        if doomed[name]:
            graph.get_pruning_group(linear, tp.prune_linear_out_channels, idxs=doomed[name]).prune()
    return kept


def _linear(modules: Mapping[str, nn.Module], name: str) -> nn.Linear:
    module = modules.get(name)
    if not isinstance(module, nn.Linear):
        found = "nothing" if module is None else type(module).__name__
        raise ModelError(f"structured pruning: {name}: expected a Linear layer, found {found}")
    return module


def _importance(name: str, group: Any, width: int) -> Tensor:
    """L2 norm, per channel, of the weights in a dependency group.

    Raises:
        ModelError: If the channels reach beyond Linear layers (into a residual sum, say) and so cannot go alone.
    """
    squares = torch.zeros(width)
    for dependency, indices in group:
        module = dependency.target.module
        if isinstance(module, nn.Linear) and dependency.handler == tp.prune_linear_out_channels:
            squares += module.weight.detach()[indices].square().sum(dim=1).cpu()
        elif isinstance(module, nn.Linear) and dependency.handler == tp.prune_linear_in_channels:
            squares += module.weight.detach()[:, indices].square().sum(dim=0).cpu()
        elif isinstance(module, nn.Parameter) or any(True for _ in module.parameters()):
            raise ModelError(
                f"structured pruning: {name}: expected channels that only Linear layers take in, found that "
                f"{dependency.target.name} depends on them too"
            )
    return squares.sqrt()
