"""Blocks of the Subformer (anonymous ICLR 2021 submission): SAFE embeddings and the sandwich's projections.

Where paper and released code differ, the parameters printed in the paper decide, and they follow the code.
"""

from typing import ClassVar, Final

import torch.nn.functional as F
from torch import Tensor, nn

from lite_nlp.config.layers import derived_heads
from lite_nlp.models.attention.registry import AttentionSpec
from lite_nlp.models.attention.softmax import SelfAttention
from lite_nlp.models.dropout import apply_dropout
from lite_nlp.models.linear import dense_linear
from lite_nlp.models.roles import Role

__all__ = ["PROJECTION_DROPOUT", "SafeInput", "WidthProjection"]

#: Drop rate of the projections into and out of the sandwich while training; a constant in the released code.
PROJECTION_DROPOUT: Final = 0.05


class WidthProjection(nn.Module):
    """Projection from one width to another at the sandwich's edges and around its cross-attention (section 3.4).

    Linear, dropout and LayerNorm; the paper names only the Linear, the released code has all three.

    Args:
        input_dim: Channels of the input.
        embed_dim: Channels of the output.
        dropout: Drop rate between Linear and LayerNorm while training.
    """

    def __init__(self, *, input_dim: int, embed_dim: int, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.proj = dense_linear(input_dim, embed_dim, role=Role.WIDTH_PROJECTION)
        self.norm = nn.LayerNorm(embed_dim)

    def forward(self, x: Tensor) -> Tensor:
        """Project ``x`` (B, T, D) token by token."""
        normed: Tensor = self.norm(apply_dropout(self.proj(x), self.dropout, self.training))
        return normed


class SafeInput(nn.Module):
    """Self-attentive factorized embeddings (section 3.2): a post-norm Transformer layer from the tables' width up.

    Self-attention works at the tables' width, on embeddings with their positions; the feed-forward block projects to
    the model's width. A residual connection goes around the feed-forward block only where both widths are equal; there,
    dropout is applied to what is added, as in every block. Without it nothing else carries the tokens, and
    ``drops_output`` chooses.

    Args:
        table_dim: Channels E of the embeddings.
        embed_dim: Channels D of the output.
        dropout: Drop rate of the embeddings and of what is added to a residual connection while training.
        attention_dropout: Drop rate of the attention weights while training.
        ffn_dropout: Drop rate after the ReLU while training.
        drops_output: Whether dropout is applied to the feed-forward block's output also where no residual connection
            goes around it (released code).
    """

    #: Whether ``forward`` needs a mask.
    needs_mask: ClassVar[bool] = True

    def __init__(
        self,
        *,
        table_dim: int,
        embed_dim: int,
        dropout: float,
        attention_dropout: float,
        ffn_dropout: float,
        drops_output: bool = False,
    ) -> None:
        super().__init__()
        self.dropout = dropout
        self.ffn_dropout = ffn_dropout
        self.has_residual = table_dim == embed_dim
        self.output_dropout = dropout if self.has_residual or drops_output else 0.0
        self.attention = SelfAttention(
            AttentionSpec(embed_dim=table_dim, num_heads=derived_heads(table_dim), dropout=attention_dropout)
        )
        self.attention_norm = nn.LayerNorm(table_dim)
        self.up_proj = dense_linear(table_dim, table_dim, role=Role.FFN_UP)
        self.down_proj = dense_linear(table_dim, embed_dim, role=Role.FFN_DOWN)
        self.ffn_norm = nn.LayerNorm(embed_dim)

    def forward(self, embedded: Tensor, positions: Tensor, mask: Tensor) -> Tensor:
        """Turn embeddings (B, T, E) and ``positions`` (T, E) into the first layer's input (B, T, D).

        Args:
            embedded: Scaled rows of the table.
            positions: Added to them.
            mask: Broadcastable to (B, 1, T, T); causal in a decoder.
        """
        x = self._drop(embedded + positions)
        return self._feed(x, self.attention(x, mask))

    def _drop(self, x: Tensor) -> Tensor:
        return apply_dropout(x, self.dropout, self.training)

    def _feed(self, x: Tensor, attended: Tensor) -> Tensor:
        """The blocks after the attention, the same for all tokens at once and for one."""
        x = self.attention_norm(x + self._drop(attended))
        hidden = apply_dropout(F.relu(self.up_proj(x)), self.ffn_dropout, self.training)
        projected = apply_dropout(self.down_proj(hidden), self.output_dropout, self.training)
        normed: Tensor = self.ffn_norm(x + projected if self.has_residual else projected)
        return normed

    def init_state(self, like: Tensor, capacity: int) -> dict[str, Tensor]:
        """Empty caches of the attention for ``capacity`` tokens, with the batch, type and device of ``like``."""
        return self.attention.init_state(like, capacity)

    def step(
        self, embedded: Tensor, positions: Tensor, state: dict[str, Tensor], position: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Tokens ``embedded`` (B, T, E), the first at ``position`` (B,); returns (B, T, D) and the new caches."""
        x = self._drop(embedded + positions)
        attended, changed = self.attention.step(x, state, position)
        return self._feed(x, attended), changed
