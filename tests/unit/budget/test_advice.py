"""Expected figures: a transformer of L + L layers, width d and an equally wide feed-forward block costs, for one token
on each side, L (16 d^2 + 11 d) Mult-Adds (three attentions of 4 d^2 + 2 d, two blocks of 2 d^2, five norms of d) and
has L (16 d^2 + 26 d) parameters without embeddings (biases: 12 d + 4 d, norms: 10 d)."""

from fractions import Fraction
from typing import Any

import pytest

from lite_nlp.budget.closed_form.formulas import count_config
from lite_nlp.budget.gate import resizing
from lite_nlp.budget.gate.advice import Advice, Compression, advise, describe_excess
from lite_nlp.budget.gate.limits import Limits, Verdict, check_limits
from lite_nlp.budget.gate.resizing import Resize
from lite_nlp.config.model import ModelConfig
from lite_nlp.config.preset import load_config, parse_model
from lite_nlp.core.errors import ConfigError
from lite_nlp.data.tokenizer import MIN_VOCAB_SIZE
from tests.selection import PRESETS

ENOUGH = 10**12


def _model(**changes: Any) -> ModelConfig:
    sizes = {"src_vocab_size": 400, "tgt_vocab_size": 400, "embed_dim": 16, "ffn_dim": 16, "num_heads": 2}
    sizes |= {"cross_num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 1}
    return parse_model({"family": "transformer", **sizes, **changes})


def _advise(model: ModelConfig, limits: Limits, size_bytes: int | None = None, **how: Any) -> tuple[Advice, ...]:
    verdicts = check_limits(count_config(model, src_len=1, tgt_len=1), limits, size_bytes=size_bytes)
    return advise(model, limits, verdicts, src_len=1, tgt_len=1, **how)


def _by_key(advice: tuple[Advice, ...]) -> dict[str, Resize]:
    resizes = [item for item in advice if isinstance(item, Resize)]
    return {"+".join(change.key for change in item.changes if not change.follows): item for item in resizes}


def test_nothing_is_advised_within_the_limits() -> None:
    assert _advise(_model(), Limits(max_macs=4272, max_params=4512)) == ()


def test_embed_dim_is_the_largest_that_its_heads_divide() -> None:
    # 16 d^2 + 11 d: 861 at 7, which two heads do not divide, 642 at 6.
    found = _by_key(_advise(_model(), Limits(max_macs=1000)))["model.embed_dim"]
    assert found.overrides == ("model.embed_dim=6", "model.ffn_dim=6")
    assert [change.follows for change in found.changes] == [False, True]
    assert (found.macs, found.params, found.kept) == (642, 16 * 36 + 26 * 6, Fraction(6, 16))
    assert found.describe() == "model.embed_dim 16 -> 6 (with model.ffn_dim=6): 642 Mult-Adds, 732 parameters"
    assert found.to_json() == {"set": ["model.embed_dim=6", "model.ffn_dim=6"], "macs": 642, "params": 732}


def test_widths_that_few_values_fit_are_not_tried_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[Any] = []

    def parse(content: Any) -> ModelConfig:
        tried.append(content)
        return parse_model(content)

    monkeypatch.setattr(resizing, "parse_model", parse)
    model = _model(embed_dim=1 << 14, ffn_dim=1 << 14, num_heads=1 << 12, cross_num_heads=1 << 12)
    found = _by_key(_advise(model, Limits(max_macs=16 * 9000**2, max_params=ENOUGH)))["model.embed_dim"]
    assert found.overrides == ("model.embed_dim=8192", "model.ffn_dim=8192")
    assert len(tried) < 1000
    # One head for each channel leaves no smaller width.
    alone = _model(embed_dim=1 << 12, num_heads=1 << 12)
    assert "model.embed_dim" not in _by_key(_advise(alone, Limits(max_macs=16 * 3000**2, max_params=ENOUGH)))
    assert len(tried) < 2000


def test_a_figure_equal_to_the_limit_is_enough() -> None:
    assert _by_key(_advise(_model(), Limits(max_macs=642)))["model.embed_dim"].overrides[0] == "model.embed_dim=6"
    assert _by_key(_advise(_model(), Limits(max_macs=641)))["model.embed_dim"].overrides[0] == "model.embed_dim=4"


def test_ffn_dim_follows_as_the_same_multiple_or_not_at_all() -> None:
    # Four times as wide: 28 d^2 + 11 d, 1074 at 6 and 492 at 4.
    wide = _by_key(_advise(_model(ffn_dim=64), Limits(max_macs=1000)))["model.embed_dim"]
    assert (wide.overrides, wide.macs) == (("model.embed_dim=4", "model.ffn_dim=16"), 492)
    # 12 d^2 + 11 d + 4 d 24: 1074 at 6, 620 at 4.
    other = _by_key(_advise(_model(ffn_dim=24), Limits(max_macs=1000)))["model.embed_dim"]
    assert (other.overrides, other.macs) == (("model.embed_dim=4",), 620)


def test_an_equal_width_of_the_tables_follows() -> None:
    # Without following, every smaller embed_dim would be refused: plain tables have the model's width.
    found = _by_key(_advise(_model(embedding_dim=16), Limits(max_macs=1000)))["model.embed_dim"]
    assert set(found.overrides) == {"model.embed_dim=6", "model.ffn_dim=6", "model.embedding_dim=6"}


def test_ffn_dim_alone() -> None:
    # 12 x 256 + 11 x 16 = 3248, and 64 for each inner channel: 11 of them leave 48 of 4000.
    found = _by_key(_advise(_model(), Limits(max_macs=4000)))["model.ffn_dim"]
    assert (found.overrides, found.macs) == (("model.ffn_dim=11",), 3248 + 11 * 64)


def test_layers_of_both_stacks_or_of_one() -> None:
    model = _model(num_encoder_layers=5, num_decoder_layers=4)
    # An encoder layer: 6 d^2 + 4 d = 1600; a decoder layer: 10 d^2 + 7 d = 2672.
    found = _by_key(_advise(model, Limits(max_macs=15_000)))
    both = found["model.num_encoder_layers+model.num_decoder_layers"]
    assert both.overrides == ("model.num_encoder_layers=3", "model.num_decoder_layers=3")
    assert (both.macs, both.kept) == (3 * (1600 + 2672), Fraction(3, 5))
    assert found["model.num_encoder_layers"].macs == 2 * 1600 + 4 * 2672
    assert found["model.num_decoder_layers"].macs == 5 * 1600 + 2 * 2672


def test_kernel_sizes_go_with_their_layers() -> None:
    model = load_config("lite-transformer-wmt-496").model
    verdicts = check_limits(count_config(model), Limits())
    found = _by_key(advise(model, Limits(), verdicts, src_len=30, tgt_len=30))
    assert found["model.num_encoder_layers+model.num_decoder_layers"].overrides == (
        "model.num_encoder_layers=3",
        "model.num_decoder_layers=3",
        "model.kernel_sizes=[3, 7, 15]",
        "model.decoder_kernel_sizes=[3, 7, 15]",
    )


def test_vocabulary_only_where_its_tables_are_counted() -> None:
    # 16 x 256 + 26 x 16 = 4512 parameters in the layers; the joint table has 16 a type: 5488 for 343 of them.
    key = "model.src_vocab_size+model.tgt_vocab_size"
    found = _by_key(_advise(_model(), Limits(max_params=10_000, count_params="total")))
    assert found[key].overrides == ("model.src_vocab_size=343", "model.tgt_vocab_size=343")
    assert found[key].params == 10_000
    assert key not in _by_key(_advise(_model(), Limits(max_params=4000)))


def test_no_vocabulary_is_smaller_than_the_bytes_and_special_tokens() -> None:
    key = "model.src_vocab_size+model.tgt_vocab_size"
    least = 4512 + 16 * MIN_VOCAB_SIZE
    assert key in _by_key(_advise(_model(), Limits(max_params=least, count_params="total")))
    assert key not in _by_key(_advise(_model(), Limits(max_params=least - 1, count_params="total")))


def test_one_change_brings_every_limit_under() -> None:
    # Parameters ask for the narrower model here: 16 d^2 + 26 d, 1232 at 8 and 732 at 6.
    limits = Limits(max_macs=2000, max_params=1000)
    found = _by_key(_advise(_model(), limits))["model.embed_dim"]
    assert (found.overrides[0], found.params) == ("model.embed_dim=6", 732)


def test_the_change_that_keeps_most_comes_first() -> None:
    kept = [item.kept for item in _advise(_model(num_encoder_layers=6), Limits(max_macs=9000))]
    assert len(kept) > 2
    assert kept == sorted(kept, reverse=True)


def test_a_pair_where_no_dimension_suffices_alone() -> None:
    # Two heads need two channels: four layers of two cost 4 (64 + 22) = 344, and one layer of sixteen 4272.
    model = _model(num_encoder_layers=4, num_decoder_layers=4)
    [found] = _advise(model, Limits(max_macs=300))
    assert isinstance(found, Resize)
    # One layer of width 4 (300 = 16 x 16 + 44) keeps 1/4 x 1/4; three layers of width 2 (258) keep 1/8 x 3/4.
    assert (found.dimensions, found.macs, found.kept) == (2, 258, Fraction(3, 32))
    assert found.overrides == (
        "model.embed_dim=2",
        "model.num_encoder_layers=3",
        "model.num_decoder_layers=3",
        "model.ffn_dim=2",
    )
    assert _advise(model, Limits(max_macs=85)) == ()


def test_bits_per_weight_and_the_command_for_a_size() -> None:
    # 400 x 16 in the table and 4512 in the layers.
    [found] = _advise(_model(), Limits(max_size_bytes=4000), size_bytes=10_912, target="runs/my model")
    assert isinstance(found, Compression)
    assert found.bits_per_weight == Fraction(32_000, 10_912)
    assert found.command == "lite-nlp compress 'runs/my model' --target-size 4KB --out DIR"
    # 2.9326 rounds to 2.93; a bound is never rounded up.
    assert "4,000 bytes are 2.93 bits for each of 10,912 weights, 8.00 now: lite-nlp compress" in found.describe()
    [exact] = _advise(_model(), Limits(max_size_bytes=4001), size_bytes=10_912)
    assert "--target-size 4001 --out DIR" in exact.describe()
    assert _advise(_model(), Limits(max_size_bytes=4000), size_bytes=4000) == ()


def test_a_bundle_is_told_to_be_compact() -> None:
    [found] = _advise(_model(), Limits(max_size_bytes=4000), size_bytes=90_000, bundle=True)
    assert found.to_json() == {"bits_per_weight": 32_000 / 10_912, "command": None}
    assert "lite-nlp export --compact of a .lnlp file that is small enough" in found.describe()
    assert "lite-nlp compress" not in found.describe()


@pytest.mark.parametrize("preset", PRESETS)
def test_every_change_is_within_and_the_next_larger_one_is_not(preset: str) -> None:
    model = load_config(preset).model
    before = count_config(model)
    limits = Limits(max_macs=before.macs_paper * 2 // 3, max_params=before.params_total // 2, count_params="total")
    advice = advise(model, limits, check_limits(before, limits), src_len=30, tgt_len=30)
    assert advice
    for item in advice:
        assert isinstance(item, Resize)
        count = count_config(load_config(preset, item.overrides).model)
        assert (item.macs, item.params) == (count.macs_paper, count.params_total)
        assert count.macs_paper <= limits.max_macs
        assert count.params_total <= limits.max_params
        changed = [change for change in item.changes if not change.follows]
        if len(changed) > 1 or changed[0].key not in {"model.embed_dim", "model.ffn_dim"}:
            continue
        larger = _next_larger(preset, item)
        if larger is not None:
            assert larger.macs_paper > limits.max_macs or larger.params_total > limits.max_params


def _next_larger(preset: str, item: Resize) -> Any:
    """The count with the next value of the one dimension that the config accepts; None up to the value before."""
    first, *following = item.changes
    assert isinstance(first.after, int)
    assert isinstance(first.before, int)
    for value in range(first.after + 1, first.before):
        values = {first.key: Fraction(value)}
        for change in following:
            assert isinstance(change.before, int)
            values[change.key] = Fraction(change.before * value, first.before)
        try:
            return count_config(load_config(preset, [f"{key}={number}" for key, number in values.items()]).model)
        except ConfigError:
            continue
    return None


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"family": "subformer", "sharing": "sandwich", "sandwich_dim": 96}, "model.sandwich_dim"),
        ({"family": "subformer", "sharing": "sandwich", "sandwich_ffn_dim": 256}, "model.sandwich_ffn_dim"),
        ({"family": "subformer", "embedding": "safe", "embedding_dim": 48}, "model.embedding_dim"),
        ({"family": "r2d2", "attention_linear": "low-rank", "linear_rank": 24}, "model.linear_rank"),
        ({"family": "transformer", "attention_expansion": 2}, "model.attention_expansion"),
        (
            {"family": "t2r", "self_attention": "t2r", "self_feature_size": 32}
            | {"cross_attention": "t2r", "cross_feature_size": 32},
            "model.self_feature_size+model.cross_feature_size",
        ),
    ],
)
def test_dimensions_that_only_some_families_have(options: dict[str, Any], key: str) -> None:
    layers = {"num_encoder_layers": 4, "num_decoder_layers": 4}
    sizes = {"embed_dim": 64, "ffn_dim": 128, "num_heads": 4, "cross_num_heads": 4}
    model = _model(**sizes, **layers, **options)
    before = count_config(model)
    # One Mult-Add or parameter less than now is the least that a smaller dimension can bring.
    limits = Limits(max_macs=before.macs_paper - 1, max_params=before.params_total - 1, count_params="total")
    found = _by_key(advise(model, limits, check_limits(before, limits), src_len=30, tgt_len=30))[key]
    for change in found.changes:
        assert isinstance(change.before, int)
        assert isinstance(change.after, int)
        # The next value below that the heads divide, if they have to.
        assert change.before > change.after >= change.before - 4
    after = count_config(parse_model(model.model_dump() | _values(found)))
    assert (after.macs_paper, after.params_total) == (found.macs, found.params)
    assert after.macs_paper < before.macs_paper
    assert after.params_total < before.params_total


def _values(found: Resize) -> dict[str, Any]:
    return {change.key.removeprefix("model."): change.after for change in found.changes}


def test_the_widths_inside_a_sandwich_keep_their_ratio() -> None:
    layers = {"num_encoder_layers": 3, "num_decoder_layers": 3}
    sandwich = {"sharing": "sandwich", "sandwich_dim": 20, "sandwich_ffn_dim": 96}
    model = _model(family="subformer", **layers, **sandwich)
    before = count_config(model, src_len=1, tgt_len=1)
    found = _by_key(_advise(model, Limits(max_macs=before.macs_paper - 1)))["model.embed_dim"]
    # 20 is five quarters of 16: at 14, which two heads divide, it would be 17.5.
    assert found.overrides[0] == "model.embed_dim=12"
    assert set(found.overrides[1:]) == {"model.ffn_dim=12", "model.sandwich_dim=15", "model.sandwich_ffn_dim=72"}


def _described(preset: str, limits: Limits) -> tuple[list[str], tuple[Verdict, ...]]:
    model = load_config(preset).model
    count = count_config(model)
    verdicts = check_limits(count, limits)
    advice = advise(model, limits, verdicts, src_len=30, tgt_len=30)
    return describe_excess(preset, count.lengths, verdicts, advice).splitlines(), verdicts


def test_the_message_names_figures_parts_and_changes() -> None:
    lines, _ = _described("lite-transformer-wmt-496", Limits())
    assert lines[0] == "over budget: lite-transformer-wmt-496, 30 -> 30 tokens"
    # Cross-attention: 6 layers of 4 x 30 x 496^2 + 2 x 496 x 900.
    assert lines[1].startswith(
        "  Mult-Adds (paper): 527,436,480 found, at most 500,000,000 allowed; largest: "
        "decoder.cross_attention 182,488,320 (35%), "
    )
    assert lines[1].count("%") == 3
    assert lines[2].startswith("  parameters (paper): 17,283,616 found, at most 10,000,000 allowed; largest: ")
    assert lines[3] == "any one of these changes brings Mult-Adds and parameters under:"
    assert lines[4].startswith("  model.embed_dim 496 -> 376 (with model.ffn_dim=376): ")


def test_the_message_leaves_out_what_is_within() -> None:
    lines, _ = _described("lite-transformer-iwslt-320", Limits(count_params="total"))
    assert lines[1].startswith("  parameters (total): 13,881,264 found, at most 10,000,000 allowed; largest: ")
    assert not any(line.lstrip().startswith("Mult-Adds") for line in lines)


def test_the_message_says_when_nothing_or_only_a_pair_suffices() -> None:
    lines, _ = _described("lite-transformer-wmt-200", Limits(max_macs=1000))
    assert lines[-1] == (
        "no single dimension brings Mult-Adds and parameters under, nor embed_dim and the layers together"
    )
    lines, _ = _described("lite-transformer-wmt-200", Limits(max_macs=200_000))
    assert lines[-2] == "no single dimension brings Mult-Adds and parameters under; two together do:"
    assert lines[-1].startswith("  model.embed_dim 200 -> 8, model.num_encoder_layers 6 -> ")


def test_the_message_about_a_size_alone_advises_no_dimension() -> None:
    model = load_config("lite-transformer-wmt-200").model
    limits = Limits(max_size_bytes=4_000_000)
    count = count_config(model)
    verdicts = check_limits(count, limits, size_bytes=5_000_000)
    advice = advise(model, limits, verdicts, src_len=30, tgt_len=30)
    assert describe_excess("small", count.lengths, verdicts, advice).splitlines() == [
        "over budget: small, 30 -> 30 tokens",
        "  file size in bytes: 5,000,000 found, at most 4,000,000 allowed",
        "the file size needs:",
        # 32 million bits for 9,438,000 weights: 3.3906.
        "  4,000,000 bytes are 3.39 bits for each of 9,438,000 weights, 4.24 now: "
        "lite-nlp compress MODEL --target-size 4MB --out DIR",
    ]
