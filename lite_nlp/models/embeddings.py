"""Token embeddings and sinusoidal positions."""

import math

import torch
from torch import Tensor, nn

from lite_nlp.errors import DataError

__all__ = ["Positions", "token_embedding"]


def token_embedding(vocab_size: int, embed_dim: int) -> nn.Embedding:
    """An embedding table drawn from N(0, 1 / embed_dim), so that it also serves as an output projection."""
    table = nn.Embedding(vocab_size, embed_dim)
    nn.init.normal_(table.weight, std=embed_dim**-0.5)
    return table


class Positions(nn.Module):
    """Sinusoidal positions (Vaswani et al. 2017, section 3.5), sines in the first half of the channels.

    Args:
        max_positions: Rows of the table.
        embed_dim: Channels D.
    """

    table: Tensor

    def __init__(self, *, max_positions: int, embed_dim: int) -> None:
        super().__init__()
        half = embed_dim // 2
        rates = torch.exp(torch.arange(half) * (-math.log(10_000.0) / max(half - 1, 1)))
        angles = torch.arange(max_positions)[:, None] * rates[None, :]
        table = torch.zeros(max_positions, embed_dim)
        table[:, :half], table[:, half : 2 * half] = angles.sin(), angles.cos()
        self.register_buffer("table", table, persistent=False)

    def first(self, length: int) -> Tensor:
        """Rows (T, D) of the first ``length`` positions.

        Raises:
            DataError: If the table is shorter than that.
        """
        if length > self.table.shape[0]:
            raise DataError(
                f"sequence of {length} tokens: expected at most model.max_positions = {self.table.shape[0]} tokens"
            )
        return self.table[:length]

    def at(self, position: Tensor) -> Tensor:
        """Rows (B, D) at ``position`` (B,)."""
        return self.table[position]
