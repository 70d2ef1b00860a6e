"""Weights from elsewhere: those of a trained model, and pretrained embeddings, which training leaves unchanged."""

from collections.abc import Mapping

import torch
from torch import nn

from lite_nlp.core.errors import ModelError

__all__ = ["fix_embeddings", "load_first_types"]


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


def load_first_types(model: nn.Module, state: Mapping[str, torch.Tensor]) -> None:
    """Load the weights of the same model, of which ``model`` has the first types, or all of them.

    Tables and output layers have a row for each type, in the types' order, and so have the bands of adaptive ones: the
    first rows of each are those of the first types.

    Args:
        model: Has V types.
        state: State dict of a model with V or more, which differs in nothing else.

    Raises:
        ModelError: If it differs in more.
    """
    own = model.state_dict()
    rows = {
        name: tensor[: len(own[name])] if name in own and tensor.ndim and own[name].ndim else tensor
        for name, tensor in state.items()
    }
    try:
        model.load_state_dict(rows)
    except RuntimeError as error:
        raise ModelError(
            f"initial weights: expected those of the same model with as many or more types, found others: {error}"
        ) from error
