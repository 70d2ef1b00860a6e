"""Subformer, R2D2 and T2R in closed form: figures from the papers' models and from arithmetic by hand."""

import pytest

from lite_nlp.budget.closed_form.attention import AttentionBlock
from lite_nlp.budget.closed_form.blocks import Rows, linear
from lite_nlp.budget.closed_form.formulas import count_config
from lite_nlp.budget.closed_form.lengths import growth
from lite_nlp.budget.closed_form.state import count_state
from lite_nlp.config.kinds import LinearSpec
from lite_nlp.config.model import ModelConfig
from lite_nlp.config.preset import load_config

ONCE = Rows(paper=1, executed=1)


def _config(preset: str, *overrides: str) -> ModelConfig:
    return load_config(preset, overrides).model


@pytest.mark.parametrize(
    ("kind", "inputs", "outputs", "weights", "macs"),
    [
        # Figure 1 of the R2D2 paper: n = 2, d = 8, k = 6 keeps 24 + 8 of 48 weights and all of the work.
        (LinearSpec(kind="r2d2", n=2), 8, 6, 32, 48),
        (LinearSpec(kind="r2d2", n=1), 8, 6, 49, 48),
        (LinearSpec(kind="r2d2", n=16), 512, 2048, 2048 * 32 + 4096, 2048 * 512),
        (LinearSpec(kind="quaternion"), 8, 12, 24, 96),
        (LinearSpec(kind="low-rank", rank=3), 8, 6, 42, 42),
        (LinearSpec(), 8, 6, 48, 48),
    ],
)
def test_members_of_the_linear_family(kind: LinearSpec, inputs: int, outputs: int, weights: int, macs: int) -> None:
    cost = linear("part", inputs, outputs, ONCE, kind=kind)
    assert (cost.params, cost.vectors, cost.paper) == (weights + outputs, outputs, macs)


def test_a_token_of_the_t2r_language_model() -> None:
    """Width 1024, 8 heads, feature size 32, as in the T2R paper's section 3.1: work per layer and token."""
    block = AttentionBlock(part="attention", width=1024, num_heads=8, linear=LinearSpec(), kind="t2r", feature_size=32)
    costs = list(block.costs(queries=ONCE, keys=ONCE, pairs=ONCE))
    merged_maps, value_and_output = 524_288, 2_097_152
    update, read, normalizer = 32_768, 32_768, 256
    assert sum(cost.executed for cost in costs if cost.operation == "linear") == merged_maps + value_and_output
    assert sum(cost.executed for cost in costs if cost.operation == "attention") == update + read + normalizer
    assert sum(cost.params for cost in costs if cost.operation == "feature_map") == 33_024
    softmax = AttentionBlock(part="attention", width=1024, num_heads=8, linear=LinearSpec())
    at_512 = softmax.costs(queries=ONCE, keys=ONCE, pairs=Rows(paper=512, executed=512))
    assert sum(cost.executed for cost in at_512) == 4_194_304 + 2 * 512 * 1024


def test_maps_of_wide_features_stay_apart() -> None:
    block = AttentionBlock(part="attention", width=8, num_heads=4, linear=LinearSpec(), kind="t2r", feature_size=3)
    costs = list(block.costs(queries=ONCE, keys=ONCE, pairs=ONCE))
    # Merged: 8 * (12 + 12 + 8) = 256; apart: 3 * 64 + 2 * 3 * 8 = 240.
    assert sum(cost.paper for cost in costs if cost.operation == "linear") == 192 + 64
    assert sum(cost.paper for cost in costs if cost.operation == "feature_map") == 48


def test_t2r_adds_its_maps_to_the_big_transformer() -> None:
    """Causal maps of 4 features and cross maps of 32: 6 * (4,160 + 33,280) parameters more."""
    big, t2r = (count_config(_config(preset)) for preset in ("transformer-big-ende", "t2r-big-ende"))
    assert t2r.params_total - big.params_total == 224_640
    maps = {part: cost for part, cost in t2r.by_part().items() if "attention" in part}
    assert maps["decoder.attention"].params - big.by_part()["decoder.attention"].params == 6 * 4_160
    elu = count_config(_config("t2r-elu-big-ende"))
    assert elu.params_total == big.params_total


def test_state_of_the_t2r_translation_model() -> None:
    state = count_state(_config("t2r-big-ende"), src_len=30, tgt_len=1000)
    assert state == {"decoder.attention": 6 * 4_160, "decoder.cross_attention": 6 * 33_280}
    assert state == count_state(_config("t2r-big-ende"), src_len=700, tgt_len=1)
    elu = count_state(_config("t2r-elu-big-ende"))
    assert sum(elu.values()) == 6 * 133_120


def test_state_of_softmax_attention_grows() -> None:
    state = count_state(_config("lite-transformer-iwslt-160"), src_len=7, tgt_len=5)
    assert state == {
        "decoder.attention": 6 * 2 * 80 * 5,
        "decoder.convolution": 80 * (2 + 6 + 14 + 3 * 30),
        "decoder.cross_attention": 6 * 2 * 160 * 7,
    }


@pytest.mark.parametrize("convention", ["paper", "executed"])
def test_linear_attention_grows_linearly(convention: str) -> None:
    """Feature maps turn O(M N h) into O(h k (M + N)) (T2R, section 2.2); the encoder keeps its softmax."""
    for preset in ("t2r-big-ende", "t2r-elu-big-ende"):
        orders = growth(_config(preset), convention=convention)  # type: ignore[arg-type]
        assert (orders["decoder"], orders["cross_attention"], orders["encoder"]) == ("linear", "linear", "quadratic")
    kept = growth(_config("t2r-big-ende", "model.keep_softmax_every=4"))
    assert (kept["decoder"], kept["cross_attention"]) == ("quadratic", "quadratic")


@pytest.mark.parametrize(
    ("preset", "kept"),
    [("subformer-all-shared-ende", 1), ("subformer-every-two-ende", 3), ("subformer-sandwich-ende", 3)],
)
def test_shared_layers_work_as_often_as_others(preset: str, kept: int) -> None:
    shared, base = count_config(_config(preset)), count_config(_config("transformer-base-ende"))
    assert (shared.macs_paper, shared.macs_executed) == (base.macs_paper, base.macs_executed)
    parts, whole = shared.by_part(), base.by_part()
    for part in ("encoder.attention", "decoder.cross_attention", "decoder.ffn"):
        assert parts[part].params * 6 == whole[part].params * kept
    assert parts["decoder.norm"] == whole["decoder.norm"]


def test_r2d2_saves_parameters_and_no_work() -> None:
    dense, r2d2 = count_config(_config("transformer-nmt-512")), count_config(_config("r2d2-nmt-8"))
    assert r2d2.macs_paper == dense.macs_paper
    # 66 Linears: two of attention and two of the feed-forward, and three of cross-attention in each decoder layer.
    assert r2d2.params_weights == 44_040_192 // 8 + 66 * 8**3


def test_upsampled_attention_is_twice_as_wide_inside() -> None:
    """Twice the work of all matrices and of all pairs; the model's width, and so its norms and output, stay."""
    dense, upsampled = count_config(_config("transformer-nmt-512")), count_config(_config("r2d2-nmt-upsampled-4"))
    parts, before = upsampled.by_part(), dense.by_part()
    for part in ("encoder.attention", "decoder.attention", "decoder.cross_attention", "encoder.ffn", "decoder.ffn"):
        assert parts[part].paper == 2 * before[part].paper
        assert parts[part].executed == 2 * before[part].executed
    for part in ("encoder.norm", "decoder.norm", "output"):
        assert parts[part] == before[part]
    assert upsampled.params_weights == 2 * 44_040_192 // 4 + 66 * 4**3
    # A key and a value of 1024 channels per layer and token.
    assert count_state(_config("r2d2-nmt-upsampled-4"), src_len=7, tgt_len=5) == {
        "decoder.attention": 6 * 2 * 1024 * 5,
        "decoder.cross_attention": 6 * 2 * 1024 * 7,
    }


def test_groups_of_a_subformer_hold_everything() -> None:
    count = count_config(_config("subformer-base-ende"))
    groups = count.by_group()
    assert sum(cost.params for cost in groups.values()) == count.params_total == 51_961_024
    safe = 5 * 320**2 + 320 * 512
    assert groups["embeddings"].params - groups["embeddings"].vectors == 32_768 * 320 + 2 * safe
    # Tables are looked up; both SAFE layers work, on 30 tokens each.
    assert groups["embeddings"].paper == 2 * (30 * safe + 2 * 30 * 30 * 320)
    assert count.params_embeddings == 32_768 * 320
    assert groups["output"].params == 512 * 320 + 320
    # One projection up and one down a side, with their biases; those of cross-attention are its own.
    projections = 2 * 512 * 1024 + 1024 + 512
    assert count.by_part()["encoder.projection"].params == projections
    assert count.by_part()["encoder.attention"].params == 2 * 4 * (512**2 + 512) + 4 * (1024**2 + 1024)
