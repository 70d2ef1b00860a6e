"""Whole layers go where a config can state what is left; the others keep their weights."""

from typing import Any

import pytest

from lite_nlp.models.build import Model
from lite_nlp.tasks.shrinking.shapes import Shape, Shapes
from tests.unit.tasks.shrinking.small_models import (
    SANDWICH,
    T2R,
    assert_same,
    layered,
    outputs,
    random_losses,
    random_model,
    smaller_model,
    zeroed_model,
)

FOUR: dict[str, Any] = {"num_encoder_layers": 4, "num_decoder_layers": 4}
DEEP: dict[str, dict[str, Any]] = {
    "pre-norm": {"family": "transformer", "pre_norm": True, **FOUR},
    "kernels": {"family": "lite-transformer", **FOUR, "pre_norm": True, "kernel_sizes": (3, 5, 7, 9)}
    | {"decoder_kernel_sizes": (2, 4, 6, 8)},
    "all": {"family": "subformer", "pre_norm": True, **FOUR, "sharing": "all"},
    "all-but-last": {"family": "subformer", "pre_norm": True, **FOUR, "sharing": "all-but-last"},
    "every-two": {"family": "subformer", "pre_norm": True, **FOUR, "sharing": "every-two"},
    "sandwich": {"family": "subformer", "pre_norm": True, **SANDWICH},
    "kept-softmax": {"family": "t2r", "pre_norm": True, **FOUR, **T2R, "keep_softmax_every": 2},
}
#: Of four decoder layers, which can go alone.
REMOVABLE = {
    "pre-norm": {0, 1, 2, 3},
    "kernels": {0, 1, 2, 3},
    "all": {0, 1, 2, 3},
    # The last has blocks of its own; the others share theirs.
    "all-but-last": {0, 1, 2},
    # Two, two: what is left must be two and one.
    "every-two": {2, 3},
    # The second projects to the inside's width.
    "sandwich": {2},
    # Softmax attention is in every second layer from the top.
    "kept-softmax": {0},
}


def skip(model: Model, prefix: str, position: int) -> None:
    """Let a layer pass on what it is given."""
    layer: Any = model.get_submodule(f"{prefix}.{position}")
    layer.forward = lambda x, *_: x
    layer.step = lambda x, *_: (x, {})


@pytest.mark.parametrize("name", DEEP)
def test_what_is_left_equals_the_model_with_the_layer_skipped(name: str) -> None:
    config = layered(DEEP[name])
    model = random_model(config)
    shapes = Shapes(model)
    decoder = shapes.stacks[1]
    removable = {
        position for position in range(4) if shapes.config_of(Shape().without_layer(decoder, position)) is not None
    }
    assert removable == REMOVABLE[name]
    for stack, position in [(decoder, position) for position in removable] + [(shapes.stacks[0], 2)]:
        shape = Shape().without_layer(stack, position)
        if shapes.config_of(shape) is None:
            continue
        whole = random_model(config)
        skip(whole, stack.prefix, position)
        assert_same(outputs(smaller_model(shapes, shape, model, {})), outputs(whole))


def test_two_layers_and_channels() -> None:
    config = layered(DEEP["kernels"])
    model = random_model(config)
    shapes = Shapes(model)
    encoder, decoder = shapes.stacks
    width = next(width for width in shapes.widths if width.key == "ffn_dim")
    shape = Shape().without_layer(encoder, 0).without_layer(encoder, 2).without_layer(decoder, 3).with_units(width, 16)
    smaller = shapes.config_of(shape)
    assert (smaller.kernel_sizes, smaller.decoder_kernel_sizes, smaller.ffn_dim) == ((5, 9), (2, 4, 6), 16)
    losses = random_losses(shapes)
    whole = zeroed_model(shapes, Shape().with_units(width, 16), config, losses)
    for prefix, position in (("encoder", 0), ("encoder", 2), ("decoder", 3)):
        skip(whole, prefix, position)
    assert_same(outputs(smaller_model(shapes, shape, model, losses)), outputs(whole))
    # Units of layers that are gone are not among those left.
    assert [group.name for group in shapes.groups_of(width, shape)] == [
        *(f"encoder.{position}.ffn" for position in (1, 3)),
        *(f"decoder.{position}.ffn" for position in (0, 1, 2)),
    ]


def test_shared_blocks_outlive_the_layer_that_owned_them() -> None:
    shapes = Shapes(random_model(layered(DEEP["all"])))
    (width,) = (width for width in shapes.widths if width.key == "ffn_dim")
    shape = Shape().without_layer(shapes.stacks[1], 0)
    assert [group.name for group in shapes.groups_of(width, shape)] == ["encoder.0.ffn", "decoder.0.ffn"]


def test_the_smallest_shape_is_the_end_of_all_moves() -> None:
    shapes = Shapes(random_model(layered(DEEP["kernels"])))
    smallest = shapes.smallest()
    assert list(shapes.moves(smallest)) == []
    config = shapes.config_of(smallest)
    assert (config.num_encoder_layers, config.num_decoder_layers, config.ffn_dim) == (1, 1, 8)
    assert (config.num_heads, config.cross_num_heads, config.conv_num_heads) == (1, 1, 1)
    assert (config.head_dim, config.cross_head_dim, config.conv_head_dim) == (4, 8, 8)
