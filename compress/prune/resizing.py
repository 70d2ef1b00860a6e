"""Modules with fewer channels than they were built with: the layers take the shapes of smaller tensors."""

import json
from collections.abc import Iterable, Mapping
from typing import Final

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd

from lite_nlp.core.errors import ContainerError
from lite_nlp.core.parsing import parse_json_object

__all__ = ["SHAPES_FILE", "fit_shapes", "former_shapes", "is_depthwise", "read_former_shapes"]

#: The file in a container that says which shapes its smaller tensors had.
SHAPES_FILE: Final = "shapes.json"


def is_depthwise(layer: _ConvNd) -> bool:
    """Whether each channel is convolved alone, so that it comes in and goes out at once."""
    return 1 < layer.groups == layer.in_channels == layer.out_channels


def fit_shapes(module: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Replace parameters and buffers by copies of ``tensors`` whose shape is another, in place.

    Args:
        module: On any device, which the copies come to; its parameters stay frozen if they are.
        tensors: By name, of layers that ``channel_groups`` finds channels of.
    """
    changed: dict[int, nn.Module] = {}
    for name, tensor in tensors.items():
        owner_name, _, attribute = name.rpartition(".")
        owner = module.get_submodule(owner_name)
        found = getattr(owner, attribute)
        if found.shape == tensor.shape:
            continue
        resized = tensor.detach().to(device=found.device, dtype=found.dtype, copy=True)
        if isinstance(found, nn.Parameter):
            resized = nn.Parameter(resized, requires_grad=found.requires_grad)
        setattr(owner, attribute, resized)
        changed[id(owner)] = owner
    _state_sizes(changed.values())


def former_shapes(before: nn.Module, after: nn.Module) -> bytes | None:
    """The content of ``SHAPES_FILE``: the shapes of the tensors of ``before`` that are others in ``after``, as JSON.

    None where there are none.
    """
    now = {name: tensor.shape for name, tensor in after.state_dict().items()}
    shapes = {name: list(tensor.shape) for name, tensor in before.state_dict().items() if now[name] != tensor.shape}
    return json.dumps(shapes, separators=(",", ":")).encode() if shapes else None


def read_former_shapes(content: bytes, *, source: str) -> dict[str, tuple[int, ...]]:
    """The inverse.

    Raises:
        ContainerError: If it says anything else than shapes.
    """
    shapes = parse_json_object(content, source=f"{source}: {SHAPES_FILE}", error=ContainerError)
    for name, shape in shapes.items():
        if not isinstance(shape, list) or not all(type(size) is int for size in shape):
            raise ContainerError(f"{source}: {SHAPES_FILE}: expected the shape of {name}, found {shape!r}")
    return {name: tuple(shape) for name, shape in shapes.items()}


def _state_sizes(layers: Iterable[nn.Module]) -> None:
    """Let layers say the sizes that their tensors have."""
    for layer in layers:
        match layer:
            case nn.Linear():
                layer.out_features, layer.in_features = layer.weight.shape
            case _ConvNd() if is_depthwise(layer):
                layer.in_channels = layer.out_channels = layer.groups = len(layer.weight)
            case _ConvNd():
                first, second = layer.weight.shape[:2]
                layer.out_channels, layer.in_channels = (second, first) if layer.transposed else (first, second)
            case _BatchNorm():
                layer.num_features = max(tensor.numel() for tensor in (*layer.parameters(), *layer.buffers()))
            case nn.PReLU():
                layer.num_parameters = len(layer.weight)
            case nn.Embedding():
                layer.embedding_dim = layer.weight.shape[1]
            case nn.LSTM():
                layer.input_size = layer.get_parameter("weight_ih_l0").shape[1]
                layer.hidden_size = layer.get_parameter("weight_hh_l0").shape[1]
