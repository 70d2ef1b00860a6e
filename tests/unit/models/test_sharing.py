"""Shared layers against models that hold a copy of the block at every position."""

from typing import Any

import pytest
import torch
from torch import Tensor

from lite_nlp.config.layers import layer_owners
from lite_nlp.models.build import build_model
from lite_nlp.models.transformer import EncoderDecoder
from tests.unit.models.conftest import WIDE, randomized, small_config

FOUR = {"num_encoder_layers": 4, "num_decoder_layers": 4}
SCHEMES = ("all", "all-but-last", "every-two", "sandwich")
BLOCKS = ("mixer.", "cross.", "ffn.")


def _batch() -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    src = torch.randint(3, 37, (3, 7), generator=generator)
    mask = torch.arange(7)[None, :] < torch.tensor([7, 4, 1])[:, None]
    return src, mask, torch.randint(3, 37, (3, 9), generator=generator)


def _place(name: str, sharing: Any) -> str:
    """The name, in a model with shared layers, of what an unshared model calls ``name``."""
    stack, *rest = name.split(".")
    if stack not in ("encoder", "decoder") or not ".".join(rest[1:]).startswith(BLOCKS):
        return name
    return ".".join([stack, str(layer_owners(sharing, 4)[int(rest[0])]), *rest[1:]])


def _unshared(model: EncoderDecoder) -> EncoderDecoder:
    """The same function, with a copy of the shared blocks at every position that applies them."""
    copies = build_model(model.config.model_copy(update={"sharing": "none", "family": "transformer"}))
    state = model.state_dict()
    copies.load_state_dict({name: state[_place(name, model.config.sharing)] for name in copies.state_dict()})
    return copies.eval()


@pytest.mark.parametrize("sharing", SCHEMES)
def test_shared_layers_compute_what_copies_of_them_compute(sharing: str) -> None:
    model = randomized(small_config(family="subformer", **FOUR, sharing=sharing))
    copies = _unshared(model)
    assert sum(tensor.numel() for tensor in copies.parameters()) > sum(tensor.numel() for tensor in model.parameters())
    with torch.inference_mode():
        torch.testing.assert_close(model(*_batch()), copies(*_batch()))


@pytest.mark.parametrize("sharing", SCHEMES)
def test_gradients_of_shared_blocks_are_the_sums_over_their_positions(sharing: str) -> None:
    model = randomized(small_config(family="subformer", **FOUR, sharing=sharing)).double()
    copies = _unshared(model).double()
    sums: dict[str, Tensor] = {}
    for each in (model, copies):
        each(*_batch()).logsumexp(-1).sum().backward()
    for name, parameter in copies.named_parameters():
        assert parameter.grad is not None
        place = _place(name, sharing)
        sums[place] = sums.get(place, torch.zeros(())) + parameter.grad
    assert set(sums) == {name for name, _ in model.named_parameters()}
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, sums[name], msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("sharing", [*SCHEMES, "independent-ffn"])
def test_layer_norms_are_those_of_the_position(sharing: str) -> None:
    model = randomized(small_config(family="subformer", **FOUR, sharing=sharing))
    names = set(model.state_dict())
    for position in range(4):
        assert {f"encoder.{position}.{norm}_norm.weight" for norm in ("mixer", "ffn")} <= names
        assert {f"decoder.{position}.{norm}_norm.weight" for norm in ("mixer", "cross", "ffn")} <= names
    owners = {int(name.split(".")[1]) for name in names if name.startswith("decoder.") and ".ffn." in name}
    assert owners == set(layer_owners(sharing, 4))


def test_a_cache_keyed_by_module_would_be_noticed() -> None:
    """Steps that mix up the caches of layers with the same parameters are far from the forward: 0.7 to 0.8 in the
    Subformer's released code, which does that. So ``test_steps_equal_the_forward`` can tell the difference."""
    torch.manual_seed(7)
    # Fresh weights: random LayerNorms would fade out what happens inside the stack.
    model = build_model(small_config(family="subformer", **FOUR, **WIDE)).eval()
    src, mask, tgt = _batch()
    with torch.inference_mode():
        full = model(src, mask, tgt)
        right = wrong = model.init_state(model.encode(src, mask), mask, 9)
        for position, tokens in enumerate(tgt.unbind(1)):
            logits, right = model.decode_step(tokens, right)
            torch.testing.assert_close(logits, full[:, position], rtol=1e-5, atol=1e-5)
            mixed_up, wrong = model.decode_step(tokens, wrong)
            # Positions 1 and 2 share their blocks: what the second one writes replaces what the first one wrote.
            wrong |= {f"layers.1.self_{part}": wrong[f"layers.2.self_{part}"] for part in ("key", "value")}
    assert (mixed_up - full[:, -1]).abs().max() > 0.1
    for part in ("key", "value"):
        assert not torch.equal(right[f"layers.1.self_{part}"], right[f"layers.2.self_{part}"])


def test_state_of_a_sandwich() -> None:
    """Self-attention's caches are as wide as the layer, cross-attention's as the encoded source, at every position."""
    model = randomized(small_config(family="subformer", **FOUR, **WIDE, embedding="safe", embedding_dim=10))
    src, mask, _ = _batch()
    state = model.init_state(model.encode(src, mask), mask, 9)
    shapes = {name: tuple(value.shape) for name, value in state.items()}
    assert shapes.pop("position") == (3,)
    assert shapes.pop("src_mask") == (3, 7)
    cross = {"cross_key": (3, 4, 7, 4), "cross_value": (3, 4, 7, 4)}
    model_layer = {"self_key": (3, 2, 9, 8), "self_value": (3, 2, 9, 8), **cross}
    # 20 channels are two per head at ten heads, and SAFE's 10 are one.
    shared_layer = {"self_key": (3, 10, 9, 2), "self_value": (3, 10, 9, 2), **cross}
    layers = (model_layer, shared_layer, shared_layer, model_layer)
    assert shapes == {
        "input.self_key": (3, 10, 9, 1),
        "input.self_value": (3, 10, 9, 1),
        **{f"layers.{index}.{name}": shape for index, layer in enumerate(layers) for name, shape in layer.items()},
    }


def test_an_independent_linear_follows_the_shared_feed_forward() -> None:
    model = randomized(small_config(family="subformer", **FOUR, sharing="independent-ffn"))
    plain = randomized(small_config(family="subformer", **FOUR, sharing="all"))
    plain.load_state_dict({name: tensor for name, tensor in model.state_dict().items() if "extra_proj" not in name})
    src, mask, _ = _batch()
    with torch.inference_mode():
        assert (model.encode(src, mask) - plain.encode(src, mask)).abs().max() > 0.1
        for name, parameter in model.named_parameters():
            if "extra_proj" in name:
                parameter.zero_()
            # With no output of its last Linear, the shared feed-forward adds nothing to the residual either.
            if "ffn.down_proj" in name:
                plain.get_parameter(name).zero_()
        torch.testing.assert_close(model.encode(src, mask), plain.encode(src, mask))
