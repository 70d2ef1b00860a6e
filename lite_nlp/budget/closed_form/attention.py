"""Closed forms of attention, one for each kind. Imports no torch."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from lite_nlp.budget.closed_form.blocks import Rows, linear, linear_macs
from lite_nlp.budget.closed_form.counts import Cost
from lite_nlp.config.kinds import ATTENTION_KINDS, DENSE, AttentionKind, LinearSpec
from lite_nlp.config.layers import LayerSpec
from lite_nlp.core.errors import CountError

__all__ = ["ATTENTION_FORMULAS", "AttentionBlock", "AttentionFormula", "cross_attention_block", "self_attention_block"]


@dataclass(frozen=True, kw_only=True)
class AttentionBlock:
    """Self- or cross-attention with its projections.

    Attributes:
        part: Name of the part.
        width: Channels of input and output.
        num_heads: Heads; they matter to linear attention only.
        linear: Kind of the projections.
        inner_dim: Channels of all heads' queries, keys or values; 0: ``width``.
        kind: Kind of attention.
        feature_size: Features per head, in kinds whose configuration chooses their number; else 0.
        crosses: Whether keys and values come from another sequence than queries.
    """

    part: str
    width: int
    num_heads: int
    linear: LinearSpec = DENSE
    inner_dim: int = 0
    kind: AttentionKind = "softmax"
    feature_size: int = 0
    crosses: bool = False

    @property
    def inner(self) -> int:
        """Channels of all heads' queries, keys or values."""
        return self.inner_dim or self.width

    @property
    def features(self) -> int:
        """Features per head that linear attention sums over."""
        return self.feature_size if ATTENTION_KINDS[self.kind].has_feature_size else self.inner // self.num_heads

    @property
    def pair_macs(self) -> int:
        """Mult-Adds per pair of a query and a key, without the projections."""
        return self._formula.pair_macs(self)

    def state_numbers(self, length: int) -> int:
        """Numbers of the state that decoding keeps for ``length`` keys."""
        return self._formula.state_numbers(self, length)

    def costs(self, *, queries: Rows, keys: Rows, pairs: Rows) -> Iterator[Cost]:
        """Cost of ``queries`` tokens that attend to ``keys`` tokens, in ``pairs`` of one and the other.

        Projections of the same input are one Linear, which for R2D2 also means one set of diffusion matrices.
        """
        formula = self._formula
        of_query, of_memory = formula.query_parts, formula.memory_parts
        if self.crosses:
            yield from self._projection(of_query, queries, mapped=1)
            yield from self._projection(of_memory, keys, mapped=1)
        else:
            yield from self._projection(of_query + of_memory, queries, mapped=2)
        per_pair, per_key, per_query = formula.pair_macs(self), formula.key_macs(self), formula.query_macs(self)
        yield Cost(
            part=self.part,
            operation="attention",
            paper=per_pair * pairs.paper + per_key * keys.paper + per_query * queries.paper,
            executed=per_pair * pairs.executed + per_key * keys.executed + per_query * queries.executed,
        )
        params = formula.map_params(self)
        if params:
            yield Cost(part=self.part, operation="feature_map", params=params, vectors=formula.map_vectors(self))
        yield linear(self.part, self.inner, self.width, queries, kind=self.linear)

    @property
    def _formula(self) -> "AttentionFormula":
        formula = ATTENTION_FORMULAS.get(self.kind)
        if formula is None:
            raise CountError(
                f"{self.part}: expected attention of a kind with a closed form ({', '.join(ATTENTION_FORMULAS)}), "
                f"found {self.kind!r}"
            )
        return formula

    def _projection(self, parts: int, rows: Rows, *, mapped: int) -> Iterator[Cost]:
        """A fused projection to ``parts`` times the inner width, and the feature maps of its first ``mapped`` parts.

        A learned map is merged into the projection where that takes fewer Mult-Adds (T2R, section 2.2, equation 8).
        """
        if not parts:
            return
        outputs = parts * self.inner
        projection = linear(self.part, self.width, outputs, rows, kind=self.linear)
        per_part = self._formula.map_macs(self)
        if self._formula.merges_map:
            merged = self.width * ((parts - mapped) * self.inner + mapped * self.num_heads * self.features)
            if merged < linear_macs(self.width, outputs, self.linear) + mapped * per_part:
                yield replace(projection, paper=merged * rows.paper, executed=merged * rows.executed)
                return
        yield projection
        if per_part:
            macs = mapped * per_part
            yield Cost(part=self.part, operation="feature_map", paper=macs * rows.paper, executed=macs * rows.executed)


def self_attention_block(part: str, spec: LayerSpec) -> AttentionBlock:
    """The self-attention of a layer that has one."""
    return AttentionBlock(
        part=part,
        width=spec.attention_dim,
        num_heads=spec.num_heads,
        linear=spec.attention_linear,
        inner_dim=spec.inner_dim,
        kind=spec.self_attention,
        feature_size=spec.self_feature_size,
    )


def cross_attention_block(part: str, spec: LayerSpec) -> AttentionBlock:
    """The cross-attention of a layer that has one."""
    return AttentionBlock(
        part=part,
        width=spec.memory_dim,
        num_heads=spec.cross_num_heads,
        linear=spec.attention_linear,
        inner_dim=spec.cross_inner_dim,
        kind=spec.cross_attention,
        feature_size=spec.cross_feature_size,
        crosses=True,
    )


def _none(block: AttentionBlock) -> int:
    return 0


@dataclass(frozen=True, kw_only=True)
class AttentionFormula:
    """Closed form of one kind of attention, beside the output projection that all kinds have.

    Attributes:
        state_numbers: Numbers of the state that decoding keeps for a number of keys.
        pair_macs: Mult-Adds per pair of a query and a key.
        key_macs: Mult-Adds per key.
        query_macs: Mult-Adds per query.
        map_macs: Mult-Adds of the feature map per query or key.
        map_params: Parameters of the feature map.
        map_vectors: Those of its parameters that are biases or scales.
        merges_map: Whether the map can be merged into the projection before it.
        query_parts: Projections of the inner width that a token is given as a query.
        memory_parts: Projections of the inner width that a token is given as a key: key and value.
    """

    state_numbers: Callable[[AttentionBlock, int], int]
    pair_macs: Callable[[AttentionBlock], int] = _none
    key_macs: Callable[[AttentionBlock], int] = _none
    query_macs: Callable[[AttentionBlock], int] = _none
    map_macs: Callable[[AttentionBlock], int] = _none
    map_params: Callable[[AttentionBlock], int] = _none
    map_vectors: Callable[[AttentionBlock], int] = _none
    merges_map: bool = False
    query_parts: int = 1
    memory_parts: int = 2


def _update_macs(block: AttentionBlock) -> int:
    """A key's features times its value, added to the state; also a learned map's products, k d per head."""
    return block.features * block.inner


def _normalizer_numbers(block: AttentionBlock) -> int:
    return block.num_heads * block.features


def _state_numbers(block: AttentionBlock) -> int:
    """State and normalizer, and the Mult-Adds with which a query reads both."""
    return _update_macs(block) + _normalizer_numbers(block)


#: Linear attention without a map, as the recurrence that decoding computes (T2R, section 2.2, equations 5 to 7):
#: O(h k) per token for any length. Training computes the same in chunks, which takes more.
_RECURRENCE: Final = AttentionFormula(
    state_numbers=lambda block, _: _state_numbers(block), key_macs=_update_macs, query_macs=_state_numbers
)

#: Closed forms with the keys of ``lite_nlp.config.kinds.ATTENTION_KINDS``.
ATTENTION_FORMULAS: Final[dict[str, AttentionFormula]] = {
    # Scores and weighted sums take ``inner`` Mult-Adds per pair each, for any number of heads.
    "softmax": AttentionFormula(
        state_numbers=lambda block, length: 2 * block.inner * length, pair_macs=lambda block: 2 * block.inner
    ),
    "elu": _RECURRENCE,
    # One matrix and one bias per head.
    "t2r": replace(
        _RECURRENCE,
        map_macs=_update_macs,
        map_params=_state_numbers,
        map_vectors=_normalizer_numbers,
        merges_map=True,
    ),
    # Half as many projections as features, whose sines and cosines these are. A temperature per channel is learned; the
    # projections are not.
    "random-features": replace(
        _RECURRENCE,
        map_macs=lambda block: block.features // 2 * block.inner,
        map_params=lambda block: block.inner,
        map_vectors=lambda block: block.inner,
    ),
}
