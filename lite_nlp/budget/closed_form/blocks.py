"""Closed forms of single blocks: Linear, convolution, feed-forward, LayerNorm. Imports no torch."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from lite_nlp.budget.closed_form.counts import Cost, Operation
from lite_nlp.config.kinds import DENSE, LinearSpec

__all__ = [
    "LINEAR_FORMULAS",
    "LinearFormula",
    "Rows",
    "applied_again",
    "convolution",
    "feed_forward",
    "layer_norm",
    "linear",
    "linear_macs",
]


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Number of computations in each convention: tokens that pass a block, or query-key pairs.

    Attributes:
        paper: Times in a teacher-forced forward.
        executed: Times on a device that decodes with caches.
    """

    paper: int
    executed: int


def applied_again(cost: Cost) -> Cost:
    """The same work with parameters that another layer owns."""
    return replace(cost, params=0, vectors=0, repeated=cost.executed)


def _dense(inputs: int, outputs: int, kind: LinearSpec) -> int:
    return inputs * outputs


def _two_products(inputs: int, outputs: int, kind: LinearSpec) -> int:
    return kind.rank * (inputs + outputs)


@dataclass(frozen=True, kw_only=True)
class LinearFormula:
    """Closed form of one kind of Linear layer, each of inputs, outputs and the kind's size.

    Attributes:
        weights: Parameters but the bias.
        macs: Mult-Adds per token in inference.
    """

    weights: Callable[[int, int, LinearSpec], int]
    macs: Callable[[int, int, LinearSpec], int] = _dense


#: Closed forms with the keys of ``lite_nlp.config.kinds.LINEAR_KINDS``. R2D2 and quaternion layers save parameters
#: only: for inference their weight is built once and kept, and applied like a dense one.
LINEAR_FORMULAS: Final[dict[str, LinearFormula]] = {
    "dense": LinearFormula(weights=_dense),
    # d k / n + n^3 (R2D2, section 2.2.1, remark 2.2).
    "r2d2": LinearFormula(weights=lambda inputs, outputs, kind: inputs * outputs // kind.n + kind.n**3),
    "quaternion": LinearFormula(weights=lambda inputs, outputs, _: inputs * outputs // 4),
    "low-rank": LinearFormula(weights=_two_products, macs=_two_products),
}


def linear_macs(inputs: int, outputs: int, kind: LinearSpec = DENSE) -> int:
    """Mult-Adds per token of a Linear layer of any kind."""
    return LINEAR_FORMULAS[kind.kind].macs(inputs, outputs, kind)


def linear(
    part: str,
    inputs: int,
    outputs: int,
    rows: Rows,
    *,
    kind: LinearSpec = DENSE,
    bias: bool = True,
    operation: Operation = "linear",
) -> Cost:
    """A Linear layer of any kind from ``inputs`` to ``outputs`` channels, applied to ``rows`` tokens."""
    weights = LINEAR_FORMULAS[kind.kind].weights(inputs, outputs, kind)
    biases = outputs if bias else 0
    macs = linear_macs(inputs, outputs, kind)
    return Cost(
        part=part,
        operation=operation,
        params=weights + biases,
        vectors=biases,
        paper=macs * rows.paper,
        executed=macs * rows.executed,
    )


def convolution(
    stack: str,
    width: int,
    rows: Rows,
    *,
    inner: int,
    kernel_size: int,
    num_heads: int,
    dynamic: bool,
    glu: bool,
    kind: LinearSpec = DENSE,
) -> Iterator[Cost]:
    """Lightweight or dynamic convolution (Wu et al. 2019): in-Linear, kernels, taps, out-Linear.

    From ``width`` channels to the ``inner`` ones of all heads and back. The in-Linear is doubled for the GLU; kernels
    are learned, or generated per token by a dense Linear without bias. Every tap is multiplied, also those that fall on
    zeros beyond the edges.
    """
    kernel_weights = num_heads * kernel_size
    yield linear(f"{stack}.conv_in", width, 2 * inner if glu else inner, rows, kind=kind)
    if dynamic:
        yield linear(f"{stack}.conv_kernel", inner, kernel_weights, rows, bias=False, operation="kernel_generator")
    yield Cost(
        part=f"{stack}.conv_kernel",
        operation="conv_taps",
        params=0 if dynamic else kernel_weights,
        executed=inner * kernel_size * rows.executed,
    )
    yield linear(f"{stack}.conv_out", inner, width, rows, kind=kind)


def feed_forward(part: str, width: int, inner: int, rows: Rows, *, kind: LinearSpec = DENSE) -> Iterator[Cost]:
    """Linear to ``inner`` channels, ReLU, Linear back."""
    yield linear(part, width, inner, rows, kind=kind)
    yield linear(part, inner, width, rows, kind=kind)


def layer_norm(part: str, width: int, rows: Rows) -> Cost:
    """One LayerNorm: a gain and a bias per channel, one Mult-Add per element."""
    return Cost(
        part=part,
        operation="layer_norm",
        params=2 * width,
        vectors=2 * width,
        paper=width * rows.paper,
        executed=width * rows.executed,
    )
