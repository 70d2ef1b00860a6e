"""Registry of attention kinds: which modules implement the kind that a configuration names.

Shape letters as in ``heads``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from torch import Tensor, nn

from lite_nlp.config.kinds import DENSE, LinearSpec
from lite_nlp.core.errors import ModelError
from lite_nlp.core.suggestions import expected_one_of
from lite_nlp.models.linear import build_fused_linear, build_linear
from lite_nlp.models.roles import Role

__all__ = [
    "ATTENTION_MODULES",
    "AttentionModules",
    "AttentionSpec",
    "CrossAttentionModule",
    "SelfAttentionModule",
    "attention_modules",
    "register_attention",
]


@dataclass(frozen=True, kw_only=True)
class AttentionSpec:
    """Sizes and options of one attention module, and the projections that all kinds have in common.

    Attributes:
        embed_dim: Channels D of input and output.
        num_heads: Heads H, a divisor of the inner width H d.
        dropout: Drop rate of the attention weights while training, in kinds that compute weights.
        feature_size: Features per head, in kinds whose configuration chooses their number; else 0.
        linear: Kind of the projections.
        inner_channels: Channels of all heads, H d; 0: D.
        is_linear: Whether it is linear attention, whose projections have roles of their own.
    """

    embed_dim: int
    num_heads: int
    dropout: float = 0.0
    feature_size: int = 0
    linear: LinearSpec = DENSE
    inner_channels: int = 0
    is_linear: bool = False

    @property
    def inner_dim(self) -> int:
        """Channels of all heads, H d."""
        return self.inner_channels or self.embed_dim

    @property
    def head_dim(self) -> int:
        """Channels d of a head."""
        return self.inner_dim // self.num_heads

    def fused_projection(self, parts: int) -> nn.Module:
        """A Linear from D channels to ``parts`` times H d, such as query, key and value side by side."""
        return build_fused_linear(self.embed_dim, self.inner_dim, parts, self.linear, role=self._input_role)

    def query_projection(self) -> nn.Module:
        """A Linear from D channels to the queries' H d alone."""
        return build_linear(self.embed_dim, self.inner_dim, self.linear, role=self._input_role)

    def output_projection(self) -> nn.Module:
        """A Linear from H d channels back to D."""
        role = Role.LINEAR_ATTENTION_OUTPUT if self.is_linear else Role.ATTENTION_OUTPUT
        return build_linear(self.inner_dim, self.embed_dim, self.linear, role=role)

    @property
    def _input_role(self) -> Role:
        return Role.LINEAR_QUERY_KEY_VALUE if self.is_linear else Role.QUERY_KEY_VALUE


class SelfAttentionModule(Protocol):
    """Causal or bidirectional attention within one sequence."""

    def __call__(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Attend within ``x`` (B, T, D) under ``mask`` (broadcastable to (B, 1, T, T)); returns (B, T, D).

        Linear attention is causal without a mask.
        """
        ...

    def init_state(self, like: Tensor, capacity: int) -> dict[str, Tensor]:
        """Named tensors, batch first, before the first of ``capacity`` tokens, for the batch of ``like`` (B, ...)."""
        ...

    def step(self, x: Tensor, state: dict[str, Tensor], position: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Tokens ``x`` (B, T, D), the first at ``position`` (B,); returns the output (B, T, D) and the new state."""
        ...


class CrossAttentionModule(Protocol):
    """Attention from a target to an encoded source."""

    def project_memory(self, memory: Tensor, src_mask: Tensor) -> dict[str, Tensor]:
        """Named tensors, batch first, that represent the encoded source ``memory`` (B, S, D) at every step."""
        ...

    def __call__(self, x: Tensor, state: dict[str, Tensor], src_mask: Tensor) -> Tensor:
        """Attend from ``x`` (B, T, D) to the result of ``project_memory``; returns (B, T, D)."""
        ...


@dataclass(frozen=True, kw_only=True)
class AttentionModules:
    """Constructors of the two modules of one kind.

    Attributes:
        self_attention: Builds self-attention.
        cross_attention: Builds cross-attention.
    """

    self_attention: Callable[[AttentionSpec], SelfAttentionModule]
    cross_attention: Callable[[AttentionSpec], CrossAttentionModule]


#: Implementations by kind; filled by ``register_attention``.
ATTENTION_MODULES: Final[dict[str, AttentionModules]] = {}


def register_attention(kind: str, modules: AttentionModules) -> None:
    """Make ``modules`` the implementation of ``kind``, a key of ``lite_nlp.config.kinds.ATTENTION_KINDS``.

    Raises:
        ModelError: If the kind has an implementation already.
    """
    if kind in ATTENTION_MODULES:
        raise ModelError(
            f"attention kind {kind!r}: expected a kind that is not registered, found {ATTENTION_MODULES[kind]}"
        )
    ATTENTION_MODULES[kind] = modules


def attention_modules(kind: str) -> AttentionModules:
    """The implementation of ``kind``.

    Raises:
        ModelError: If there is none.
    """
    if kind not in ATTENTION_MODULES:
        raise ModelError(f"attention kind: {expected_one_of(sorted(ATTENTION_MODULES), kind)}")
    return ATTENTION_MODULES[kind]
