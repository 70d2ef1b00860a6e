"""What goes with a unit: a model without it equals the same model with all that at zero."""

from typing import Any, cast

import pytest
import torch
import torch_pruning as tp
from torch import nn

from lite_nlp.budget.closed_form.formulas import count_config
from lite_nlp.config.model import ModelConfig
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

KERNELS = {"kernel_sizes": (3, 5), "decoder_kernel_sizes": (2, 7)}
FACTORS = {"attention_linear": "r2d2", "ffn_linear": "r2d2", "linear_n": 4}
LOW_RANK = {"attention_linear": "low-rank", "ffn_linear": "low-rank", "linear_rank": 6}
WIDER = {"kernel_sizes": (3, 5, 5, 3), "decoder_kernel_sizes": (3, 5, 5, 3)}
TABLES = {"family": "subformer", "embedding_dim": 16}

MODELS: dict[str, dict[str, Any]] = {
    "transformer": {"family": "transformer"},
    "transformer-pre-norm": {"family": "transformer", "pre_norm": True, "final_norm": True, "attention_expansion": 2},
    "lite-transformer": {"family": "lite-transformer", **KERNELS, "conv_type": "dynamic", "conv_glu": True},
    "lite-transformer-static": {"family": "lite-transformer", **KERNELS},
    "lightconv": {"family": "lightconv", **KERNELS, "conv_type": "dynamic"},
    "sandwich": {"family": "subformer", **SANDWICH, "sandwich_ffn_dim": 48},
    "sandwich-of-one-width": {"family": "subformer", **SANDWICH, "sandwich_dim": 0},
    "safe": {"family": "subformer", "embedding": "safe", "embedding_dim": 16},
    "linear": {**TABLES, "embedding": "linear"},
    "linear-decoder": {**TABLES, "embedding": "linear", "tie_embeddings": "decoder"},
    "two-layer-linear": {**TABLES, "embedding": "two-layer-linear", "tie_embeddings": "none"},
    "every-two": {"family": "subformer", "sharing": "every-two", "num_encoder_layers": 4, "num_decoder_layers": 3},
    "independent-ffn": {"family": "subformer", "sharing": "independent-ffn"},
    "t2r": {"family": "t2r", **T2R},
    "t2r-softmax-kept": {"family": "t2r", **T2R, "keep_softmax_every": 2},
    "elu": {"family": "t2r", "self_attention": "elu", "cross_attention": "elu"},
    "random-features": {"family": "t2r", **T2R, "self_attention": "random-features"},
    "r2d2": {"family": "r2d2", **FACTORS},
    "quaternion": {"family": "r2d2", "attention_linear": "quaternion", "ffn_linear": "quaternion"},
    "low-rank": {"family": "r2d2", **LOW_RANK},
}
TEXT = {"architecture": "language-model"}
SINGLE = {"architecture": "sequence-classifier", "num_classes": 3}
PAIR = {
    "architecture": "pair-classifier",
    "family": "lstm",
    "num_classes": 3,
    "embed_dim": 24,
    "ffn_dim": 32,
    "src_vocab_size": 37,
    "embedding_dim": 16,
}
OTHERS: dict[str, dict[str, Any]] = {
    "language-model": {**TEXT, "family": "lite-transformer", "decoder_kernel_sizes": (2, 7), "conv_glu": True},
    "language-model-linear": {**TEXT, **TABLES, "embedding": "linear"},
    "language-model-untied": {**TEXT, **TABLES, "embedding": "two-layer-linear", "tie_embeddings": "none"},
    "classifier": {**SINGLE, "family": "transformer"},
    "classifier-linear": {**SINGLE, **TABLES, "embedding": "linear"},
    # Inside, the heads of convolution have another width; a config states one of all.
    "sandwich-convolutions": {**SANDWICH, "family": "lite-transformer", **WIDER, "sandwich_ffn_dim": 48},
    "pairs": PAIR,
    "lstm": {**PAIR, "architecture": "lstm-classifier"},
    "lstm-r2d2": {**PAIR, "architecture": "lstm-classifier", "family": "r2d2", "lstm_linear": "r2d2", "linear_n": 4},
    "pairs-r2d2": {**PAIR, "family": "r2d2", "lstm_linear": "r2d2", "linear_n": 4},
    "pairs-low-rank": {**PAIR, "lstm_linear": "low-rank", "linear_rank": 5},
}
#: The widths of which something can go, by model.
WIDTHS = {
    "transformer": {"ffn_dim", "num_heads", "cross_num_heads"},
    "lite-transformer": {"ffn_dim", "num_heads", "cross_num_heads", "conv_num_heads"},
    "lightconv": {"ffn_dim", "cross_num_heads", "conv_num_heads"},
    "sandwich": {"ffn_dim", "sandwich_ffn_dim", "num_heads", "cross_num_heads"},
    "sandwich-convolutions": {"ffn_dim", "sandwich_ffn_dim", "num_heads", "cross_num_heads"},
    # SAFE adds positions to embeddings and normalizes them, at the width of the tables.
    "safe": {"ffn_dim", "num_heads", "cross_num_heads"},
    "linear": {"ffn_dim", "num_heads", "cross_num_heads", "embedding_dim"},
    "t2r": {"ffn_dim", "num_heads", "cross_num_heads", "self_feature_size", "cross_feature_size"},
    # Their factors mix the heads.
    "r2d2": {"ffn_dim"},
    "quaternion": {"ffn_dim"},
    "low-rank": {"ffn_dim", "num_heads", "cross_num_heads", "linear_rank"},
    "pairs": {"ffn_dim", "embed_dim", "embedding_dim"},
    "lstm": {"ffn_dim", "embed_dim", "embedding_dim"},
    "pairs-low-rank": {"ffn_dim", "embed_dim", "embedding_dim", "linear_rank"},
}


def macs(config: ModelConfig | None) -> int:
    assert config is not None
    return count_config(config, src_len=9, tgt_len=9).macs_paper


@pytest.mark.parametrize("name", [*MODELS, *OTHERS])
def test_what_is_left_equals_the_model_with_the_units_at_zero(name: str) -> None:
    config = layered({**MODELS, **OTHERS}[name])
    model = random_model(config)
    shapes = Shapes(model)
    losses = random_losses(shapes)
    assert {width.key for width in shapes.widths} == WIDTHS.get(name, {width.key for width in shapes.widths})
    whole = Shape()
    for width in shapes.widths:
        shape = Shape().with_units(width, width.choices[1])
        assert_same(
            outputs(smaller_model(shapes, shape, model, losses)), outputs(zeroed_model(shapes, shape, config, losses))
        )
        assert macs(shapes.config_of(shape)) < macs(config)
        whole = whole.with_units(width, width.choices[1])
    # All kinds together.
    assert_same(
        outputs(smaller_model(shapes, whole, model, losses)), outputs(zeroed_model(shapes, whole, config, losses))
    )


@pytest.mark.parametrize(
    "name", ["transformer-pre-norm", "lite-transformer", "sandwich", "language-model", "classifier"]
)
def test_feed_forward_channels_are_those_of_the_dependency_graph(name: str) -> None:
    model = random_model(layered({**MODELS, **OTHERS}[name]))
    tokens = torch.full((1, 4), 3)
    mask = torch.ones_like(tokens, dtype=torch.bool)
    inputs = {"language-model": (tokens,), "classifier": (tokens, mask)}.get(name, (tokens, mask, tokens))
    graph = tp.DependencyGraph().build_dependency(model, example_inputs=inputs, verbose=False)
    names = {id(module): name for name, module in model.named_modules()}
    groups = [group for width in Shapes(model).widths if width.key.endswith("ffn_dim") for group in width.groups]
    assert len(groups) > 1
    for group in groups:
        up = cast(nn.Linear, model.get_submodule(f"{group.name}.up_proj"))
        found = set()
        for dependency, indices in graph.get_pruning_group(up, tp.prune_linear_out_channels, idxs=[5]):
            if any(True for _ in dependency.target.module.parameters()):
                dim = 0 if dependency.handler == tp.prune_linear_out_channels else 1
                found.add((names[id(dependency.target.module)], dim, tuple(indices)))
        expected = {
            (part.tensor.rpartition(".")[0], part.dim, tuple(part.indices[5].tolist())) for part in group.slices
        }
        assert found == expected
