"""Names in the state that decoding carries from step to step: dotted, each block's after a prefix of its own."""

from typing import Final

from torch import Tensor

__all__ = ["INPUT_PREFIX", "layer_prefix", "part_of"]

#: Of what comes before the first layer.
INPUT_PREFIX: Final = "input."


def layer_prefix(position: int) -> str:
    """The prefix of the layer at ``position``, also where layers share parameters: they see different inputs."""
    return f"layers.{position}."


def part_of(state: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose names start with ``prefix``, by the rest of the name."""
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
