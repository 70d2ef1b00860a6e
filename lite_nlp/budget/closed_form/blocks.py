"""Closed forms of single blocks: Linear, attention, convolution, feed-forward, LayerNorm. Imports no torch."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from lite_nlp.budget.closed_form.counts import Cost, Operation
from lite_nlp.config.kinds import DENSE, AttentionKind, LinearSpec

__all__ = [
    "AttentionBlock",
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
    return replace(cost, params=0, vectors=0)


def linear_macs(inputs: int, outputs: int, kind: LinearSpec = DENSE) -> int:
    """Mult-Adds per token of a member of the linear family.

    R2D2 and quaternion layers save parameters only: for inference their weight is built once and kept, and applied
    like a dense one.
    """
    return kind.rank * (inputs + outputs) if kind.kind == "low-rank" else inputs * outputs


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
    """A member of the linear family from ``inputs`` to ``outputs`` channels, applied to ``rows`` tokens.

    Weights: dense d k; R2D2 d k / n + n^3 (R2D2, section 2.2.1, remark 2.2); quaternion d k / 4; low rank r (d + k).
    """
    weights = {
        "dense": inputs * outputs,
        "r2d2": inputs * outputs // kind.n + kind.n**3,
        "quaternion": inputs * outputs // 4,
        "low-rank": kind.rank * (inputs + outputs),
    }[kind.kind]
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


@dataclass(frozen=True, kw_only=True)
class AttentionBlock:
    """Self- or cross-attention with its projections.

    Attributes:
        part: Name of the part.
        width: Channels of input and output.
        num_heads: Heads; they matter to linear attention only.
        linear: Kind of the projections.
        expansion: Inner width, as a multiple of ``width``.
        kind: Softmax or the feature map of linear attention.
        feature_size: Features per head of a learned or random map.
        crosses: Whether keys and values come from another sequence than queries.
    """

    part: str
    width: int
    num_heads: int
    linear: LinearSpec
    expansion: int = 1
    kind: AttentionKind = "softmax"
    feature_size: int = 0
    crosses: bool = False

    def costs(self, *, queries: Rows, keys: Rows, pairs: Rows) -> Iterator[Cost]:
        """Cost of ``queries`` tokens that attend to ``keys`` tokens, in ``pairs`` of one and the other.

        Projections of the same input are one Linear, which for R2D2 also means one set of diffusion matrices.
        """
        inner = self.inner
        if self.crosses:
            yield from self._projection(inner, queries, mapped=1)
            yield from self._projection(2 * inner, keys, mapped=1)
        else:
            yield from self._projection(3 * inner, queries, mapped=2)
        if self.kind == "softmax":
            # Scores and weighted sums take ``inner`` Mult-Adds per pair each, however many heads there are.
            yield Cost(
                part=self.part,
                operation="attention",
                paper=2 * inner * pairs.paper,
                executed=2 * inner * pairs.executed,
            )
        else:
            yield from self._recurrence(queries, keys)
        yield linear(self.part, inner, self.width, queries, kind=self.linear)

    @property
    def inner(self) -> int:
        """Channels of all heads' queries, keys or values."""
        return self.expansion * self.width

    @property
    def features(self) -> int:
        """Features per head that linear attention sums over."""
        return self.inner // self.num_heads if self.kind == "elu" else self.feature_size

    def _projection(self, outputs: int, rows: Rows, *, mapped: int) -> Iterator[Cost]:
        """A fused projection and the feature maps of its first ``mapped`` parts.

        A learned map is merged into the projection where that takes fewer Mult-Adds (T2R, section 2.2, equation 8).
        """
        projection = linear(self.part, self.width, outputs, rows, kind=self.linear)
        # A random map has half as many projections as features, whose sines and cosines these are.
        per_part = {"t2r": self.features, "random-features": self.features // 2}.get(self.kind, 0) * self.inner
        if self.kind == "t2r":
            plain = outputs - mapped * self.inner
            merged = self.width * (plain + mapped * self.num_heads * self.features)
            if merged < linear_macs(self.width, outputs, self.linear) + mapped * per_part:
                yield replace(projection, paper=merged * rows.paper, executed=merged * rows.executed)
                return
        yield projection
        if per_part:
            macs = mapped * per_part
            yield Cost(part=self.part, operation="feature_map", paper=macs * rows.paper, executed=macs * rows.executed)

    def _recurrence(self, queries: Rows, keys: Rows) -> Iterator[Cost]:
        """Linear attention as the recurrence that decoding computes (T2R, section 2.2, equations 5 to 7).

        A key's features times its value are added to the state, a query's features read the state and the normalizer:
        O(h k) per token, whatever came before. Training computes the same in chunks, which takes more.
        """
        update = self.features * self.inner
        read = update + self.num_heads * self.features
        yield Cost(
            part=self.part,
            operation="attention",
            paper=update * keys.paper + read * queries.paper,
            executed=update * keys.executed + read * queries.executed,
        )
        if self.kind == "t2r":
            biases = self.num_heads * self.features
            yield Cost(part=self.part, operation="feature_map", params=update + biases, vectors=biases)
        elif self.kind == "random-features":
            # A temperature per channel is learned; the projections are not.
            yield Cost(part=self.part, operation="feature_map", params=self.inner, vectors=self.inner)


def convolution(
    stack: str,
    width: int,
    rows: Rows,
    *,
    kernel_size: int,
    num_heads: int,
    dynamic: bool,
    glu: bool,
    kind: LinearSpec = DENSE,
) -> Iterator[Cost]:
    """Lightweight or dynamic convolution (Wu et al. 2019): in-Linear, kernels, taps, out-Linear.

    The in-Linear is doubled for the GLU; kernels are learned, or generated per token by a dense Linear without bias.
    Every tap is multiplied, also those that fall on zeros beyond the edges.
    """
    kernel_weights = num_heads * kernel_size
    yield linear(f"{stack}.conv_in", width, 2 * width if glu else width, rows, kind=kind)
    if dynamic:
        yield linear(f"{stack}.conv_kernel", width, kernel_weights, rows, bias=False, operation="kernel_generator")
    yield Cost(
        part=f"{stack}.conv_kernel",
        operation="conv_taps",
        params=0 if dynamic else kernel_weights,
        executed=width * kernel_size * rows.executed,
    )
    yield linear(f"{stack}.conv_out", width, width, rows, kind=kind)


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
