"""Shapes that a model can be reduced to: the config of each, and the tensors that it keeps."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from lite_nlp.compress.prune.units import UnitGroup, rank_units, without_units
from lite_nlp.config.blocks import DecoderConfig, LayeredConfig
from lite_nlp.config.model import LanguageModelConfig, ModelConfig
from lite_nlp.config.preset import parse_model
from lite_nlp.core.errors import ConfigError
from lite_nlp.models.build import Model
from lite_nlp.tasks.shrinking.layers import Stack, applied_blocks, stacks_of, without_layers, without_specs
from lite_nlp.tasks.shrinking.widths import Width, find_widths

__all__ = ["Shape", "Shapes"]


@dataclass(frozen=True)
class Shape:
    """What is left of a model.

    Attributes:
        units: Units left by the key of their width, where some are gone.
        layers: Positions of the layers that are gone, rising, by the key of their number; none where none are gone.
    """

    units: tuple[tuple[str, int], ...] = ()
    layers: tuple[tuple[str, tuple[int, ...]], ...] = ()

    def left(self, width: Width) -> int:
        """Units left of a width."""
        return dict(self.units).get(width.key, width.units)

    def gone(self, stack: Stack) -> tuple[int, ...]:
        """Positions of the layers gone from a stack."""
        return dict(self.layers).get(stack.key, ())

    def with_units(self, width: Width, units: int) -> "Shape":
        """This shape with another number of units."""
        return replace(self, units=tuple(sorted({**dict(self.units), width.key: units}.items())))

    def without_layer(self, stack: Stack, position: int) -> "Shape":
        """This shape without one more layer."""
        gone = tuple(sorted((*self.gone(stack), position)))
        return replace(self, layers=tuple(sorted({**dict(self.layers), stack.key: gone}.items())))


class Shapes:
    """All shapes of one model.

    Args:
        model: The model; it is only read.
    """

    def __init__(self, model: Model) -> None:
        self.config: ModelConfig = model.config
        self.widths: list[Width] = find_widths(model)
        self.stacks: list[Stack] = stacks_of(model.config)
        self._configs: dict[Shape, ModelConfig | None] = {}

    def config_of(self, shape: Shape) -> ModelConfig | None:
        """The config of a shape; None if no config can state it."""
        if shape not in self._configs:
            self._configs[shape] = self._state(shape)
        return self._configs[shape]

    def moves(self, shape: Shape) -> Iterator[Shape]:
        """The shapes that are one step smaller: in one width, or by one layer."""
        for width in self.widths:
            left = shape.left(width)
            below = [choice for choice in width.choices if choice < left]
            if below and self.config_of(after := shape.with_units(width, below[0])) is not None:
                yield after
        for stack in self.stacks:
            for position in range(len(stack.specs)):
                if position in shape.gone(stack):
                    continue
                if self.config_of(after := shape.without_layer(stack, position)) is not None:
                    yield after

    def smallest(self) -> Shape:
        """The shape of which nothing more can go."""
        shape = Shape()
        while (after := next(self.moves(shape), None)) is not None:
            shape = after
        return shape

    def groups_of(self, width: Width, shape: Shape) -> list[UnitGroup]:
        """The units of a width in the layers that are left."""
        gone = [
            f"{stack.prefix}.{spec.position}."
            for stack in self.stacks
            for spec in stack.specs
            if spec.position not in applied_blocks(stack.specs, shape.gone(stack))
        ]
        return [group for group in width.groups if not f"{group.name}.".startswith(tuple(gone))]

    def state_of(
        self, shape: Shape, state: Mapping[str, Tensor], losses: Mapping[str, Sequence[float]]
    ) -> dict[str, Tensor]:
        """The tensors of a shape, of which the units of the least loss are gone.

        Args:
            shape: The shape.
            state: The model's tensors.
            losses: Expected loss of each unit, by the name of its group.
        """
        smaller = dict(state)
        for width in self.widths:
            gone = width.units - shape.left(width)
            for group in width.groups if gone else ():
                smaller = without_units(smaller, group, rank_units(losses[group.name])[:gone])
            if gone and width.key == "embedding_dim":
                _keep_scale(smaller, self.config, ratio=width.units / (width.units - gone))
        for stack in self.stacks:
            smaller = without_layers(smaller, stack, shape.gone(stack))
        return smaller

    def _state(self, shape: Shape) -> ModelConfig | None:
        values: dict[str, Any] = self.config.model_dump()
        reduced = [width for width in self.widths if shape.left(width) != width.units]
        for width in reduced:
            values |= width.stated
        for width in reduced:
            values[width.key] = shape.left(width) * width.unit_size
        for stack in self.stacks:
            if gone := shape.gone(stack):
                values |= stack.stated(self.config, gone)
        try:
            config = parse_model(values)
        except ConfigError:
            return None
        if shape.layers and not self._keeps_layers(shape, config):
            return None
        return config

    def _keeps_layers(self, shape: Shape, config: ModelConfig) -> bool:
        """Whether the layers that a config states are those left of the model with all layers and the same widths.

        Removal may change whose blocks a layer applies, or its kind of attention.
        """
        deeper = self.config_of(replace(shape, layers=()))
        if deeper is None:
            return False
        return all(
            without_specs(before.specs, shape.gone(before)) == list(after.specs)
            for before, after in zip(stacks_of(deeper), stacks_of(config), strict=True)
        )


def _keep_scale(state: dict[str, Tensor], config: ModelConfig, *, ratio: float) -> None:
    """Make up for the scale of the source's embeddings, the root of the table's width."""
    if not isinstance(config, LayeredConfig) or isinstance(config, LanguageModelConfig):
        return
    name = "src_input" if isinstance(config, DecoderConfig) else "input"
    weight = f"{name}.projection.0.weight"
    state[weight] = state[weight] * math.sqrt(ratio)
