"""A language model whose attention is in the runtimes' own operators, which write a cache where it is.

Shape letters as in ``lite_nlp.models.attention.heads``.
"""

import copy
from itertools import chain

from torch import Tensor, nn

from lite_nlp.export.contrib import attend_in_slots, takes_slots
from lite_nlp.models.attention.softmax import SelfAttention
from lite_nlp.models.language_model import LanguageModel

__all__ = ["fuse_attention"]


def fuse_attention(model: LanguageModel) -> LanguageModel:
    """A model with the weights of another that computes what it does, with the same state.

    Traced, and within :func:`~lite_nlp.export.contrib.caches_in_place`, the softmax attention of the next tokens is one
    operator. Everything else is the model's own.

    Args:
        model: In evaluation mode; not changed.
    """
    # The same tensors: a table that one graph has as output too is found by them in the others.
    shared = {id(tensor): tensor for tensor in chain(model.parameters(), model.buffers())}
    fused = copy.deepcopy(model, shared)
    for parent in list(fused.modules()):
        for name, block in list(parent.named_children()):
            if isinstance(block, SelfAttention):
                setattr(parent, name, _FusedSelfAttention(block))
    return fused


class _FusedSelfAttention(nn.Module):
    """Causal self-attention of the next tokens."""

    def __init__(self, block: SelfAttention) -> None:
        super().__init__()
        self.block = block

    def init_state(self, like: Tensor, capacity: int) -> dict[str, Tensor]:
        """The block's own."""
        return self.block.init_state(like, capacity)

    def step(self, x: Tensor, state: dict[str, Tensor], position: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Tokens ``x`` (B, T, D), the first at ``position`` (B,); returns the output (B, T, D) and the new caches."""
        block = self.block
        if not takes_slots(block.head_dim):
            return block.step(x, state, position)
        projected = block.in_proj(x)
        out, keys, values = attend_in_slots(projected, state["self_key"], state["self_value"], position)
        return block.out_proj(out), {"self_key": keys, "self_value": values}
