"""The widths of a model that its config can state smaller, and the units that each of them consists of."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import torch
from torch import Tensor, nn

from lite_nlp.compress.prune.units import Slices, UnitGroup, channel_step, numbers_left
from lite_nlp.config.blocks import LayeredConfig
from lite_nlp.config.layers import LayerSpec, derives_heads
from lite_nlp.config.model import (
    EncoderDecoderConfig,
    LanguageModelConfig,
    LSTMReaderConfig,
    ModelConfig,
    SequenceClassifierConfig,
)
from lite_nlp.models.build import Model
from lite_nlp.models.convolution import Convolution
from lite_nlp.models.linear import LowRankLinear
from lite_nlp.models.lstm_classifiers import LSTMReader
from lite_nlp.tasks.shrinking.blocks import (
    attention_heads,
    channels_together,
    conv_heads,
    feature_units,
    ffn_channels,
    has_free_heads,
    linear_inputs,
    linear_outputs,
    low_rank_units,
    strided,
)
from lite_nlp.tasks.shrinking.layers import stacks_of

__all__ = ["Width", "find_widths"]

#: Steps from the whole width to the least, at most about.
_STEPS: Final = 32


@dataclass(frozen=True, kw_only=True, eq=False)
class Width:
    """One width of a model, or the number of its heads: a key of the config and the units that it counts.

    Attributes:
        key: The key, without its section.
        kind: What the units are, in words.
        units: How many of them each group has now.
        unit_size: What the key counts for one unit.
        step: Units that go at once, from every group.
        groups: The units, of one place in the model each; the key counts those of every group.
        stated: Keys to be stated along with a smaller value, which else follow from it.
    """

    key: str
    kind: str
    units: int
    unit_size: int = 1
    step: int = 1
    groups: tuple[UnitGroup, ...]
    stated: Mapping[str, int] = field(default_factory=dict)

    @property
    def choices(self) -> tuple[int, ...]:
        """Numbers of units that may be left, falling, all of them first."""
        return numbers_left(self.units, self.step)


#: The configs of models that consist of layers.
LayeredModelConfig = EncoderDecoderConfig | LanguageModelConfig | SequenceClassifierConfig


class _Owner(NamedTuple):
    """A layer with blocks of its own."""

    name: str
    spec: LayerSpec
    #: Whether it has the feed-forward width of the inside of a sandwich, where that is another.
    is_inside: bool
    #: Whether its heads follow from its width.
    derives_heads: bool


def find_widths(model: Model) -> list[Width]:
    """The widths of which something can go."""
    if isinstance(model, LSTMReader):
        found = [*_of_lstm(model, model.config)]
    else:
        config = model.config
        owners = list(_owners(config))
        found = [
            *_ffn_widths(model, owners),
            *_head_counts(model, owners),
            *_feature_sizes(model, owners),
            *_table_widths(config),
        ]
    found += _ranks(model)
    return [width for width in found if len(width.choices) > 1]


def _owners(config: LayeredModelConfig) -> Iterator[_Owner]:
    for stack in stacks_of(config):
        last = len(stack.specs) - 1
        for spec in stack.specs:
            if spec.is_owner:
                is_inside = bool(config.sandwich_ffn_dim) and 0 < spec.position < last
                derived = derives_heads(config, spec.position, len(stack.specs))
                yield _Owner(f"{stack.prefix}.{spec.position}", spec, is_inside, derived)


def _channels(key: str, kind: str, groups: list[UnitGroup], together: int = 1, **stated: int) -> Iterator[Width]:
    """A width that counts channels, of which ``together`` are one unit."""
    if not groups:
        return
    value = groups[0].size * together
    fine = channel_step(value, together)
    step = fine * max(1, value // fine // _STEPS) // together
    yield Width(
        key=key,
        kind=kind,
        units=groups[0].size,
        unit_size=together,
        step=step,
        groups=tuple(groups),
        stated=stated,
    )


def _ffn_widths(model: nn.Module, owners: list[_Owner]) -> Iterator[Width]:
    together = 1
    found: dict[bool, list[UnitGroup]] = {False: [], True: []}
    for owner in owners:
        ffn = model.get_submodule(f"{owner.name}.ffn")
        together = channels_together(ffn.get_submodule("up_proj"))
        found[owner.is_inside].append(ffn_channels(f"{owner.name}.ffn", ffn))
    yield from _channels("ffn_dim", "feed-forward channels", found[False], together)
    yield from _channels("sandwich_ffn_dim", "feed-forward channels inside the sandwich", found[True], together)


def _head_counts(model: nn.Module, owners: list[_Owner]) -> Iterator[Width]:
    heads: list[UnitGroup] = []
    cross: list[UnitGroup] = []
    convolutions: list[UnitGroup] = []
    dims: defaultdict[str, set[int]] = defaultdict(set)
    for owner in owners:
        spec = owner.spec
        name = f"{owner.name}.mixer.attention"
        if spec.attention_dim and not owner.derives_heads and has_free_heads(found := model.get_submodule(name)):
            dims["head_dim"].add(spec.head_dim)
            heads.append(attention_heads(name, found, num_heads=spec.num_heads, head_dim=spec.head_dim))
        name = f"{owner.name}.cross"
        if spec.memory_dim and has_free_heads(found := model.get_submodule(name)):
            dims["cross_head_dim"].add(spec.cross_head_dim)
            cross.append(attention_heads(name, found, num_heads=spec.cross_num_heads, head_dim=spec.cross_head_dim))
        name = f"{owner.name}.mixer.convolution"
        if spec.conv_dim and has_free_heads(found := model.get_submodule(name)) and isinstance(found, Convolution):
            dims["conv_head_dim"].add(spec.conv_head_dim)
            convolutions.append(conv_heads(name, found))
    for key, dim_key, kind, groups in (
        ("num_heads", "head_dim", "heads of self-attention", heads),
        ("cross_num_heads", "cross_head_dim", "heads of cross-attention", cross),
        ("conv_num_heads", "conv_head_dim", "heads of convolution", convolutions),
    ):
        # A config states one width of all heads; those of convolutions inside a sandwich may have another.
        if len(dims[dim_key]) == 1:
            stated = {dim_key: min(dims[dim_key])}
            yield Width(key=key, kind=kind, units=groups[0].size, groups=tuple(groups), stated=stated)


def _feature_sizes(model: nn.Module, owners: list[_Owner]) -> Iterator[Width]:
    for key, kind, part, width in (
        ("self_feature_size", "features of self-attention", "mixer.attention", "attention_dim"),
        ("cross_feature_size", "features of cross-attention", "cross", "memory_dim"),
    ):
        names = [f"{owner.name}.{part}" for owner in owners if getattr(owner.spec, width)]
        units = [feature_units(name, model.get_submodule(name)) for name in names]
        yield from _channels(key, kind, [group for group in units if group is not None])


def _table_widths(config: ModelConfig) -> Iterator[Width]:
    """The width of tables that a Linear projects; SAFE adds positions and a LayerNorm, which know their width."""
    if not isinstance(config, LayeredConfig) or config.embedding not in ("linear", "two-layer-linear"):
        return
    if config.table_dim == config.embed_dim:
        return
    channels = torch.arange(config.table_dim)[:, None]
    last = 1 if config.embedding == "two-layer-linear" else 0
    groups = [
        UnitGroup(tensors[0][0].removesuffix(".weight"), tuple(Slices(name, dim, channels) for name, dim in tensors))
        for tensors in _tied_tables(config, last)
    ]
    yield from _channels("embedding_dim", "channels of the tables", groups)


def _tied_tables(config: ModelConfig, last: int) -> list[list[tuple[str, int]]]:
    """The tensors whose dimensions are channels of the same table; ``last`` is the output's last Linear."""
    if isinstance(config, SequenceClassifierConfig):
        return [[("embedding.weight", 1), ("input.projection.0.weight", 1)]]
    if isinstance(config, LanguageModelConfig):
        entry = [("vocabulary.table.weight", 1), ("input.projection.0.weight", 1)]
        leave = [(f"vocabulary.output_proj.{last}.weight", 0)]
        return (
            [entry + leave]
            if config.tie_embeddings == "all"
            else [entry, [("vocabulary.own_output.weight", 1), *leave]]
        )
    source = [("src_embedding.weight", 1), ("src_input.projection.0.weight", 1)]
    target = [("own_tgt_embedding.weight", 1), ("tgt_input.projection.0.weight", 1)]
    leave = [(f"output_proj.{last}.weight", 0)]
    if not isinstance(config, EncoderDecoderConfig) or config.tie_embeddings == "all":
        return [source + target[1:] + leave]
    if config.tie_embeddings == "decoder":
        return [source, target + leave]
    return [source, target, [("own_output.weight", 1), *leave]]


def _of_lstm(model: LSTMReader, config: LSTMReaderConfig) -> Iterator[Width]:
    """The width of the table, of the LSTM and of the hidden layers."""
    lstm, hidden, mlp = model.encoder, config.embed_dim, config.ffn_dim
    together = channels_together(lstm.input_gates[0])
    gates = [(f"encoder.input_gates.{number}", gate) for number, gate in enumerate(lstm.input_gates)]
    recurrent = [(f"encoder.hidden_gates.{number}", gate) for number, gate in enumerate(lstm.hidden_gates)]
    table = strided(config.table_dim, together)
    slices = [Slices("embedding.weight", 1, table)]
    for name, gate in gates:
        slices += linear_inputs(name, gate, table)
    yield from _channels("embedding_dim", "channels of the table", [UnitGroup("embedding", tuple(slices))], together)
    states = strided(hidden, together)
    # One bias for the four gates; maximum and mean of each sentence.
    pooled = _repeated(states, model.first_proj.in_features // hidden, hidden)
    slices = [Slices("encoder.bias", 0, _repeated(states, 4, hidden))]
    slices += linear_inputs("first_proj", model.first_proj, pooled)
    for name, gate in (*gates, *recurrent):
        slices += linear_outputs(name, gate, states)
    for name, gate in recurrent:
        slices += linear_inputs(name, gate, states)
    lstm_group = UnitGroup("encoder", tuple(slices))
    yield from _channels("embed_dim", "channels of the LSTM", [lstm_group], together, embedding_dim=config.table_dim)
    channels = torch.arange(mlp)[:, None]
    layers = (("first_proj", "second_proj"), ("second_proj", "output"))
    groups = [
        UnitGroup(
            before,
            (
                *linear_outputs(before, model.get_submodule(before), channels),
                *linear_inputs(after, model.get_submodule(after), channels),
            ),
        )
        for before, after in layers
    ]
    yield from _channels("ffn_dim", "channels of the hidden layers", groups)


def _repeated(channels: Tensor, times: int, width: int) -> Tensor:
    """The places of ``channels``, unit by unit, where ``times`` parts of so many channels stand side by side."""
    return torch.cat([channels + part * width for part in range(times)], dim=1)


def _ranks(model: nn.Module) -> Iterator[Width]:
    low_rank = [(name, module) for name, module in model.named_modules() if isinstance(module, LowRankLinear)]
    yield from _channels("linear_rank", "ranks of projections", [low_rank_units(*found) for found in low_rank])
