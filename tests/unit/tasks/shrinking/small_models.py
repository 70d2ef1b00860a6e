"""Small models of every family, and what they compute with and without some units."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from lite_nlp.artifacts.directory import model_from_state
from lite_nlp.compress.prune.units import zero_units
from lite_nlp.config.model import ModelConfig
from lite_nlp.config.preset import Config, parse_model
from lite_nlp.models.build import Model, build_model
from lite_nlp.tasks.shrinking.shapes import Shape, Shapes

LAYERS: dict[str, Any] = {
    "embed_dim": 32,
    "ffn_dim": 32,
    "num_heads": 4,
    "cross_num_heads": 4,
    "conv_num_heads": 2,
    "num_encoder_layers": 2,
    "num_decoder_layers": 2,
    "src_vocab_size": 37,
    "tgt_vocab_size": 37,
    "max_positions": 32,
}
SANDWICH = {"num_encoder_layers": 4, "num_decoder_layers": 4, "sharing": "sandwich", "sandwich_dim": 24}
T2R = {"self_attention": "t2r", "self_feature_size": 6, "cross_attention": "t2r", "cross_feature_size": 4}


def layered(values: Mapping[str, Any]) -> ModelConfig:
    """A small config with these keys, of any architecture."""
    foreign = {
        "language-model": ("src_vocab_size", "num_encoder_layers", "cross_num_heads"),
        "sequence-classifier": ("tgt_vocab_size", "num_decoder_layers", "cross_num_heads"),
        "lstm-classifier": tuple(LAYERS),
        "pair-classifier": tuple(LAYERS),
    }.get(values.get("architecture", ""), ())
    return parse_model({**{key: value for key, value in LAYERS.items() if key not in foreign}, **values})


def random_model(config: ModelConfig) -> Model:
    """A model whose biases and norms are random too."""
    torch.manual_seed(3)
    model = build_model(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model.eval()


def outputs(model: Model) -> list[Tensor]:
    """What a model computes of some sentences, at once and token by token."""
    generator = torch.Generator().manual_seed(5)
    tokens = torch.randint(3, 37, (2, 9), generator=generator)
    mask = torch.ones_like(tokens, dtype=torch.bool)
    mask[1, 6:] = False
    architecture = model.config.architecture
    with torch.inference_mode():
        if architecture == "pair-classifier":
            return [model(tokens, mask, tokens.flip(1), mask)]
        if architecture in ("sequence-classifier", "lstm-classifier"):
            return [model(tokens, mask)]
        if architecture == "language-model":
            state = model.init_state(2, 4)
            found = [model(tokens)]
        else:
            state = model.init_state(model.encode(tokens, mask), mask, 4)
            found = [model(tokens, mask, tokens.flip(1))]
        for step in range(3):
            logits, state = model.decode_step(tokens[:, step], state)
            found.append(logits)
        return found


def smaller_model(shapes: Shapes, shape: Shape, model: Model, losses: dict[str, list[float]]) -> Model:
    """The model of a shape."""
    config = shapes.config_of(shape)
    assert config is not None
    state = shapes.state_of(shape, model.state_dict(), losses)
    return model_from_state(Config(name="small", model=config), state, source="small")


def random_losses(shapes: Shapes) -> dict[str, list[float]]:
    """A loss for each unit."""
    generator = torch.Generator().manual_seed(11)
    groups = [group for width in shapes.widths for group in width.groups]
    return {group.name: torch.rand(group.size, generator=generator).tolist() for group in groups}


def zeroed_model(shapes: Shapes, shape: Shape, config: ModelConfig, losses: dict[str, list[float]]) -> Model:
    """The whole model with the same units at zero."""
    model = random_model(config)
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    for width in shapes.widths:
        gone = width.units - shape.left(width)
        for group in width.groups:
            order = sorted(range(group.size), key=lambda unit, name=group.name: losses[name][unit])
            zero_units(tensors, group, order[:gone])
    return model


def assert_same(found: list[Tensor], expected: list[Tensor]) -> None:
    """Compare what two models compute."""
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)
