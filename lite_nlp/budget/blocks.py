"""Closed forms of single blocks: Linear, attention, convolution, feed-forward, LayerNorm. Imports no torch."""

from collections.abc import Iterator
from dataclasses import dataclass

from lite_nlp.budget.counts import Cost, Operation

__all__ = ["Rows", "attention", "convolution", "feed_forward", "layer_norm", "linear"]


@dataclass(frozen=True, kw_only=True)
class Rows:
    """How often something is computed, in each convention: tokens that pass a block, or query-key pairs.

    Attributes:
        paper: Times in a teacher-forced forward.
        executed: Times on a device that decodes with caches.
    """

    paper: int
    executed: int


def linear(
    part: str, inputs: int, outputs: int, rows: Rows, *, bias: bool = True, operation: Operation = "linear"
) -> Cost:
    """A dense layer from ``inputs`` to ``outputs`` channels, applied to ``rows`` tokens."""
    weights, biases = inputs * outputs, outputs if bias else 0
    return Cost(
        part=part,
        operation=operation,
        params=weights + biases,
        vectors=biases,
        paper=weights * rows.paper,
        executed=weights * rows.executed,
    )


def attention(part: str, width: int, *, queries: Rows, keys: Rows, pairs: Rows) -> Iterator[Cost]:
    """Softmax attention (Vaswani et al. 2017, section 3.2); the number of heads changes nothing.

    Four square projections, of which two see the query's tokens (query, output) and two the attended ones (key,
    value); scores and weighted sums take ``width`` Mult-Adds per pair each.
    """
    for tokens in (queries, keys, keys, queries):
        yield linear(part, width, width, tokens)
    yield Cost(part=part, operation="attention", paper=2 * width * pairs.paper, executed=2 * width * pairs.executed)


def convolution(
    stack: str, width: int, rows: Rows, *, kernel_size: int, num_heads: int, dynamic: bool, glu: bool
) -> Iterator[Cost]:
    """Lightweight or dynamic convolution (Wu et al. 2019): in-Linear, kernels, taps, out-Linear.

    The in-Linear is doubled for the GLU; kernels are learned, or generated per token by a Linear without bias. Every
    tap is multiplied, also those that fall on zeros beyond the edges.
    """
    kernel_weights = num_heads * kernel_size
    yield linear(f"{stack}.conv_in", width, 2 * width if glu else width, rows)
    if dynamic:
        yield linear(f"{stack}.conv_kernel", width, kernel_weights, rows, bias=False, operation="kernel_generator")
    yield Cost(
        part=f"{stack}.conv_kernel",
        operation="conv_taps",
        params=0 if dynamic else kernel_weights,
        executed=width * kernel_size * rows.executed,
    )
    yield linear(f"{stack}.conv_out", width, width, rows)


def feed_forward(part: str, width: int, inner: int, rows: Rows) -> Iterator[Cost]:
    """Linear to ``inner`` channels, ReLU, Linear back."""
    yield linear(part, width, inner, rows)
    yield linear(part, inner, width, rows)


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
