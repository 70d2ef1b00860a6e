"""The tensors of a quantized model's own file, which serve as long as the model is what it was."""

from collections.abc import Mapping

import numpy as np
from torch import nn

from lite_nlp.compress.lnlp.container import quantized_matrices
from lite_nlp.compress.lnlp.encodings import EncodedTensor, decode_tensors
from lite_nlp.compress.prune.magnitude import prunable_parameters
from lite_nlp.compress.stages import model_tensors

__all__ = ["holds_model"]


def holds_model(encoded: Mapping[str, EncodedTensor], model: nn.Module) -> bool:
    """Whether these are the tensors of a model as it is now, to the bit, with all quantized that compression would.

    Args:
        encoded: Tensors as a file has them.
        model: The model, which may have been trained or pruned since it was read from that file.
    """
    tensors = model_tensors(model).tensors
    if set(encoded) != set(tensors) or not set(prunable_parameters(model)) <= quantized_matrices(encoded):
        return False
    decoded = decode_tensors(encoded)
    return all(np.array_equal(decoded[name], tensor.numpy()) for name, tensor in tensors.items())
