"""How each stage of compression stores a model: from an ``nn.Module`` to encoded tensors."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lite_nlp.compress.lnlp.encodings import (
    ClusteredTensor,
    EncodedTensor,
    GridTensor,
    encode_fp16,
    encode_fp32,
    encode_grid,
    encode_grid_rans,
    encode_int64,
    encode_kmeans,
    encode_kmeans_rans,
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
#: So many different numbers of a mask or a table of kinds are listed, and its elements stored as places in the list.
_FEW_NUMBERS: Final = 256
#: A float32, which numbers in a list are, holds every integer up to this.
_MAX_EXACT: Final = 1 << 24


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
        ModelError: If the state dict holds something else than plain tensors of real numbers that a float32 holds.
    """
    tensors: dict[str, Tensor] = {}
    aliases: dict[str, str] = {}
    first_names: dict[tuple[object, ...], str] = {}
    for name, tensor in model.state_dict().items():
        if not isinstance(tensor, Tensor) or tensor.is_complex():
            found = tensor.dtype if isinstance(tensor, Tensor) else type(tensor).__name__
            raise ModelError(f"{type(model).__name__}: {name}: expected a tensor of real numbers, found {found}")
        if kind := _unlike_plain(tensor):
            raise ModelError(f"{type(model).__name__}: {name}: expected a plain tensor, found one that is {kind}")
        if tensor.dtype == torch.float64 and bool((tensor.float().isinf() & tensor.isfinite()).any()):
            raise ModelError(f"{type(model).__name__}: {name}: expected numbers within float32, found larger ones")
        place = (tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype)
        if tensor.numel() and place in first_names:
            aliases[name] = first_names[place]
        else:
            first_names[place] = name
            tensors[name] = tensor.detach().cpu()
    return ModelTensors(tensors, aliases)


def _unlike_plain(tensor: Tensor) -> str:
    """What a tensor is that cannot be written to a file, or set to what a file has; empty for one that can."""
    if tensor.is_meta:
        return "on no device"
    if tensor.is_quantized:
        return "quantized"
    if tensor.layout != torch.strided:
        return str(tensor.layout)
    expanded = any(size > 1 and not stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return "expanded: its elements share memory" if expanded else ""


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
    """A tensor as 16-bit floats, or what takes fewer bytes; whole numbers, and all if ``exact``, stay as they are."""
    if not tensor.is_floating_point():
        return _of_few_numbers(tensor.numpy(), encode_int64(tensor.numpy()))
    values = tensor.float().numpy()
    if exact:
        return encode_fp32(values)
    with np.errstate(over="ignore"):
        rounded = values.astype(np.float16).astype(np.float32)
    whole = np.array_equal(values, np.rint(values)) and not np.array_equal(values, rounded)
    return _of_few_numbers(values, encode_fp32(values) if whole else encode_fp16(values))


def _of_few_numbers(values: NDArray[Any], encoded: EncodedTensor) -> EncodedTensor:
    """A tensor's places in the list of its numbers, such as the zeros and ones of a mask, if that takes fewer bytes."""
    if not values.size or not values.ndim:
        return encoded
    numbers, places = np.unique(values, return_inverse=True)
    if len(numbers) > _FEW_NUMBERS or np.isnan(numbers[-1]):
        return encoded
    if numbers.dtype.kind in "iu" and max(-int(numbers[0]), int(numbers[-1])) > _MAX_EXACT:
        return encoded
    clustered = ClusteredTensor(numbers.astype(np.float32), places.reshape(values.shape).astype(np.uint16))
    coded = encode_kmeans_rans({"": clustered})[""]
    return min(encoded, encode_kmeans(clustered), coded, key=lambda tensor: len(tensor.payload))
