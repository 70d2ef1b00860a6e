"""How each stage of compression stores a model: from an ``nn.Module`` to encoded tensors."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor, nn

from lite_nlp.compress.lnlp.encodings import (
    EncodedTensor,
    GridTensor,
    encode_fp16,
    encode_fp32,
    encode_grid,
    encode_grid_rans,
    encode_int64,
    encode_pruned,
    quantize_vector,
)
from lite_nlp.compress.lnlp.tensors import MAX_VECTOR_VALUE
from lite_nlp.compress.quantize.protocol import QuantizedWeights
from lite_nlp.core.errors import ModelError

__all__ = [
    "ENTROPY_CODED",
    "FINAL_FILE",
    "FINETUNED",
    "FIXED_STAGES",
    "ORIGINAL",
    "PRUNED",
    "STRUCTURED",
    "VECTOR_BITS",
    "ModelTensors",
    "dense_model",
    "entropy_coded_model",
    "model_tensors",
    "pruned_model",
    "quantized_model",
    "quantized_vectors",
    "set_weights",
    "stage_file",
]

ORIGINAL: Final = "original"
STRUCTURED: Final = "structured"
PRUNED: Final = "pruned"
FINETUNED: Final = "finetuned"
ENTROPY_CODED: Final = "entropy-coded"
#: The stages that are there whichever quantizer is chosen; the one between the last two bears its name.
FIXED_STAGES: Final = (ORIGINAL, STRUCTURED, PRUNED, FINETUNED, ENTROPY_CODED)
#: The file of the last stage, the one to keep.
FINAL_FILE: Final = "model.lnlp"
#: Bits of biases and norms on grids, fewest first.
VECTOR_BITS: Final = (5, 6, 8)


def stage_file(stage: str) -> str:
    """The name of the file that a stage writes."""
    return FINAL_FILE if stage == ENTROPY_CODED else f"{stage}.lnlp"


@dataclass(frozen=True)
class ModelTensors:
    """The state dict of a model with tied tensors stored once.

    Attributes:
        tensors: By the first name that the state dict has for each.
        aliases: The further names.
    """

    tensors: dict[str, Tensor]
    aliases: dict[str, str]

    @property
    def num_weights(self) -> int:
        """Elements of all tensors."""
        return sum(tensor.numel() for tensor in self.tensors.values())


def model_tensors(model: nn.Module) -> ModelTensors:
    """The tensors that a file of this model must hold; those that share their memory are one.

    Raises:
        ModelError: If the state dict holds something else than tensors of real numbers.
    """
    tensors: dict[str, Tensor] = {}
    aliases: dict[str, str] = {}
    first_names: dict[tuple[object, ...], str] = {}
    for name, tensor in model.state_dict().items():
        if not isinstance(tensor, Tensor) or tensor.is_complex():
            found = tensor.dtype if isinstance(tensor, Tensor) else type(tensor).__name__
            raise ModelError(f"{type(model).__name__}: {name}: expected a tensor of real numbers, found {found}")
        place = (tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype)
        if tensor.numel() and place in first_names:
            aliases[name] = first_names[place]
        else:
            first_names[place] = name
            tensors[name] = tensor.detach().cpu()
    return ModelTensors(tensors, aliases)


def dense_model(tensors: Mapping[str, Tensor]) -> dict[str, EncodedTensor]:
    """Every weight as a 32-bit float: the size that ratios are measured against."""
    return {name: _encode_unquantized(tensor, exact=True) for name, tensor in tensors.items()}


def pruned_model(tensors: Mapping[str, Tensor]) -> dict[str, EncodedTensor]:
    """Bitmap and 32-bit floats where that is smaller than the floats alone."""
    dense = dense_model(tensors)
    for name, tensor in tensors.items():
        if tensor.is_floating_point():
            pruned = encode_pruned(tensor.float().numpy())
            if len(pruned.payload) < len(dense[name].payload):
                dense[name] = pruned
    return dense


def quantized_model(
    tensors: Mapping[str, Tensor], quantized: QuantizedWeights, *, vectors: Mapping[str, GridTensor] | None = None
) -> dict[str, EncodedTensor]:
    """Quantized weights with a fixed number of bits each.

    Args:
        tensors: Those of the model.
        quantized: Its matrices.
        vectors: Biases and norms on grids; those that are missing are kept as 16-bit floats.
    """
    encoded = {**quantized.encode(), **{name: encode_grid(vector) for name, vector in (vectors or {}).items()}}
    return {
        name: encoded[name] if name in encoded else _encode_unquantized(tensor, exact=False)
        for name, tensor in tensors.items()
    }


def entropy_coded_model(
    tensors: Mapping[str, Tensor], quantized: QuantizedWeights, *, vectors: Mapping[str, GridTensor] | None = None
) -> dict[str, EncodedTensor]:
    """``quantized_model``, of the same arguments, with entropy-coded weights wherever that is smaller."""
    encoded = quantized_model(tensors, quantized, vectors=vectors)
    coded = {**quantized.encode_entropy(), **encode_grid_rans(vectors or {})}
    for name, tensor in coded.items():
        if len(tensor.payload) < len(encoded[name].payload):
            encoded[name] = tensor
    return encoded


def quantized_vectors(model: nn.Module, bits: int) -> dict[str, GridTensor]:
    """The trained vectors of a model (biases, norms), each on a grid of so many bits.

    Those with numbers that are not finite, or next to the ends of float32, are left out.
    """
    return {
        name: quantize_vector(parameter.detach().float().cpu().numpy(), bits)
        for name, parameter in model.named_parameters()
        if parameter.ndim == 1
        and parameter.numel() > 1
        and parameter.is_floating_point()
        and bool((parameter.abs() <= MAX_VECTOR_VALUE).all())
    }


@torch.no_grad()
def set_weights(parameters: Mapping[str, Tensor], quantized: QuantizedWeights) -> None:
    """Set every quantized parameter, in place, to what its stored weights stand for."""
    for name, values in quantized.values().items():
        parameters[name].copy_(torch.from_numpy(values))


def _encode_unquantized(tensor: Tensor, *, exact: bool) -> EncodedTensor:
    if not tensor.is_floating_point():
        return encode_int64(tensor.numpy())
    return encode_fp32(tensor.float().numpy()) if exact else encode_fp16(tensor.float().numpy())
