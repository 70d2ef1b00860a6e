"""Pretrained embeddings, which training leaves unchanged."""

import torch
from torch import nn

from lite_nlp.core.errors import ModelError

__all__ = ["fix_embeddings"]


def fix_embeddings(embedding: nn.Embedding, vectors: torch.Tensor) -> None:
    """Load ``vectors`` (V, D) into the table and exclude it from training.

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
