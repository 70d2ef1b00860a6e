"""Removal of whole layers: which a config can state, and where the parameters of the others go."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from torch import Tensor

from lite_nlp.config.blocks import DecoderConfig, EncoderConfig
from lite_nlp.config.layers import LayerSpec, decoder_specs, encoder_specs
from lite_nlp.config.model import LanguageModelConfig, ModelConfig

__all__ = ["Stack", "applied_blocks", "stacks_of", "without_layers", "without_specs"]

#: Modules of a layer that others may share; the rest is each layer's own.
_BLOCKS: Final = ("mixer", "cross", "cross_entry", "cross_exit", "ffn")


@dataclass(frozen=True, kw_only=True)
class Stack:
    """A stack of layers.

    Attributes:
        prefix: Name of its module.
        kind: What its layers are, in words.
        key: The config's key of their number.
        kernels_key: That of their kernel sizes.
        specs: The layers.
    """

    prefix: str
    kind: str
    key: str
    kernels_key: str
    specs: tuple[LayerSpec, ...]

    def stated(self, config: ModelConfig, removed: Iterable[int]) -> dict[str, object]:
        """The config's keys for what is left without some layers."""
        gone = set(removed)
        kernels = getattr(config, self.kernels_key)
        left = [kernels[position] for position in range(len(self.specs)) if position not in gone] if kernels else []
        return {self.key: len(self.specs) - len(gone), self.kernels_key: left}


def stacks_of(config: ModelConfig) -> list[Stack]:
    """The stacks of a model; none in one without layers."""
    stacks = []
    if isinstance(config, EncoderConfig):
        keys = {"key": "num_encoder_layers", "kernels_key": "kernel_sizes"}
        stacks.append(Stack(prefix="encoder", kind="encoder layers", specs=encoder_specs(config), **keys))
    if isinstance(config, DecoderConfig):
        keys = {"key": "num_decoder_layers", "kernels_key": "decoder_kernel_sizes"}
        alone = isinstance(config, LanguageModelConfig)
        prefix, kind = ("layers", "layers") if alone else ("decoder", "decoder layers")
        stacks.append(Stack(prefix=prefix, kind=kind, specs=decoder_specs(config), **keys))
    return stacks


def without_specs(specs: Sequence[LayerSpec], removed: Iterable[int]) -> list[LayerSpec]:
    """The layers left, at their new positions; blocks that a removed layer owned go to the first that applies them."""
    gone = set(removed)
    kept = [spec for spec in specs if spec.position not in gone]
    first: dict[int, int] = {}
    for position, spec in enumerate(kept):
        first.setdefault(spec.owner, position)
    return [replace(spec, position=position, owner=first[spec.owner]) for position, spec in enumerate(kept)]


def applied_blocks(specs: Sequence[LayerSpec], removed: Iterable[int]) -> set[int]:
    """The owners whose blocks are still applied without some layers."""
    gone = set(removed)
    return {spec.owner for spec in specs if spec.position not in gone}


def without_layers(state: Mapping[str, Tensor], stack: Stack, removed: Sequence[int]) -> dict[str, Tensor]:
    """The tensors of a model without some layers of a stack, under the names of what is left."""
    if not removed:
        return dict(state)
    return dict(_renamed(state, stack, set(removed)))


def _renamed(state: Mapping[str, Tensor], stack: Stack, gone: set[int]) -> Iterator[tuple[str, Tensor]]:
    kept = [spec for spec in stack.specs if spec.position not in gone]
    places = {spec.position: place for place, spec in enumerate(kept)}
    owners: dict[int, int] = {}
    for place, spec in enumerate(kept):
        owners.setdefault(spec.owner, place)
    start = f"{stack.prefix}."
    for name, tensor in state.items():
        if not name.startswith(start):
            yield name, tensor
            continue
        position, block, rest = name.removeprefix(start).split(".", 2)
        new = (owners if block in _BLOCKS else places).get(int(position))
        if new is not None:
            yield f"{start}{new}.{block}.{rest}", tensor
