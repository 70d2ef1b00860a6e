"""Embeddings that begin, and stay, as vectors that something else has learned."""

import torch
from torch import nn

from lite_nlp.core.errors import ModelError

__all__ = ["fix_embeddings"]


def fix_embeddings(embedding: nn.Embedding, vectors: torch.Tensor) -> None:
    """Make ``vectors`` (V, D) the table, which training then leaves as it is.

    Raises:
        ModelError: If the table has another shape.
    """
    if vectors.shape != embedding.weight.shape:
        raise ModelError(
            f"pretrained vectors: expected shape {tuple(embedding.weight.shape)}, found {tuple(vectors.shape)}"
        )
    with torch.no_grad():
        embedding.weight.copy_(vectors)
    embedding.weight.requires_grad_(False)
