"""Every figure here comes from elsewhere: counted on the authors' released models, or published in their tables."""

import json

import numpy as np
import pytest

from lite_nlp.budget.closed_form.formulas import ModelCount, count_config
from lite_nlp.budget.gate.enforcement import BudgetGate
from lite_nlp.budget.gate.limits import Limits, check_limits
from lite_nlp.config.preset import load_config, parse_config
from lite_nlp.core.errors import ConfigError

#: Preset, parameters without the input tables, Mult-Adds of the paper's convention at 30 -> 30 tokens; and both as
#: the paper prints them.
TRANSLATION = [
    ("lite-transformer-iwslt-160", 2_774_704, 54_288_000, "2.8M", "54M"),
    ("lite-transformer-iwslt-240", 5_428_784, 119_448_000, "5.4M", "119M"),
    ("lite-transformer-iwslt-320", 8_927_664, 209_952_000, "8.9M", "209M"),
    ("lite-transformer-wmt-200", 2_884_400, 90_132_000, "2.9M", "90M"),
    ("lite-transformer-wmt-408", 11_739_792, 359_537_760, "11.7M", "360M"),
    ("lite-transformer-wmt-496", 17_283_616, 527_436_480, "17.3M", "527M"),
    ("transformer-iwslt-128", 2_836_480, 63_244_800, "2.8M", "63M"),
    ("transformer-iwslt-192", 5_729_280, 139_104_000, "5.7M", "139M"),
    ("transformer-iwslt-240", 8_544_000, 215_352_000, "8.5M", "215M"),
    ("transformer-wmt-128", 2_777_088, 86_837_760, "2.8M", "87M"),
    ("transformer-wmt-256", 11_059_200, 338_826_240, "11.1M", "338M"),
    ("transformer-wmt-320", 17_264_640, 526_752_000, "17.3M", "527M"),
    ("lightconv-iwslt-128", 2_540_716, 51_640_320, "2.5M", "52M"),
    ("lightconv-iwslt-192", 5_063_916, 115_061_760, "5.1M", "115M"),
    ("lightconv-iwslt-256", 8_422_700, 203_550_720, "8.4M", "204M"),
]

#: The two rows whose Mult-Adds the paper cuts off instead of rounding.
TRUNCATED = {"lite-transformer-iwslt-320", "transformer-wmt-256"}

#: Preset, parameters, source tokens, and Mult-Adds at 60 target tokens in thousandths of a million; as printed, in G.
SUMMARIZATION = [
    ("lite-transformer-cnndm-496", 17_283_616, 30, 799_235, "0.8"),
    ("lite-transformer-cnndm-496", 17_283_616, 100, 1_454_054, "1.5"),
    ("lite-transformer-cnndm-496", 17_283_616, 1000, 12_471_206, "12.5"),
    ("transformer-cnndm-512", 44_138_496, 30, 2_021_253, "2.0"),
    ("transformer-cnndm-512", 44_138_496, 100, 3_644_805, "3.6"),
    ("transformer-cnndm-512", 44_138_496, 1000, 29_882_757, "29.9"),
]

#: Lite Transformer by width: Mult-Adds of Linears, kernel generators, attention, LayerNorm; taps; output softmax.
COMPONENTS = [
    ("lite-transformer-iwslt-160", 50_688_000, 0, 3_456_000, 144_000, 566_400, 31_833_600),
    ("lite-transformer-iwslt-240", 114_048_000, 0, 5_184_000, 216_000, 849_600, 47_750_400),
    ("lite-transformer-iwslt-320", 202_752_000, 0, 6_912_000, 288_000, 1_132_800, 63_667_200),
    ("lite-transformer-wmt-200", 82_800_000, 2_832_000, 4_320_000, 180_000, 708_000, 196_608_000),
    ("lite-transformer-wmt-408", 344_580_480, 5_777_280, 8_812_800, 367_200, 1_444_320, 401_080_320),
    ("lite-transformer-wmt-496", 509_253_120, 7_023_360, 10_713_600, 446_400, 1_755_840, 487_587_840),
]

#: Lite Transformer by width: parameters of attention, in-Linear, out-Linear, kernels and feed-forward (the same in
#: both stacks), LayerNorm of the encoder and of the decoder, cross-attention, untied output projection.
SUBMODULES = [
    ("lite-transformer-iwslt-160", 155_520, 38_880, 38_880, 472, 309_120, 3_840, 5_760, 618_240, 1_061_120),
    ("lite-transformer-iwslt-240", 348_480, 87_120, 87_120, 472, 694_080, 5_760, 8_640, 1_388_160, 1_591_680),
    ("lite-transformer-iwslt-320", 618_240, 154_560, 154_560, 472, 1_232_640, 7_680, 11_520, 2_465_280, 2_122_240),
    ("lite-transformer-wmt-200", 242_400, 121_200, 60_600, 47_200, 482_400, 4_800, 7_200, 964_800, 0),
    ("lite-transformer-wmt-408", 1_003_680, 501_840, 250_920, 96_288, 2_002_464, 9_792, 14_688, 4_004_928, 0),
    ("lite-transformer-wmt-496", 1_482_048, 741_024, 370_512, 117_056, 2_958_144, 11_904, 17_856, 5_916_288, 0),
]

#: Presets and all their parameters, embedding tables included.
TOTALS = [
    ("lite-transformer-iwslt-160", 5_251_504),
    ("lite-transformer-iwslt-240", 9_143_984),
    ("lite-transformer-iwslt-320", 13_881_264),
    ("lite-transformer-wmt-200", 9_438_000),
    ("lite-transformer-wmt-408", 25_109_136),
    ("lite-transformer-wmt-496", 33_536_544),
    ("lite-transformer-cnndm-496", 32_163_616),
]


def _count(preset: str, *, src_len: int = 30, tgt_len: int = 30) -> ModelCount:
    return count_config(load_config(preset).model, src_len=src_len, tgt_len=tgt_len)


@pytest.mark.parametrize(("preset", "params", "macs", "printed_params", "printed_macs"), TRANSLATION)
def test_translation_rows_give_the_counts_of_the_released_models(
    preset: str, params: int, macs: int, printed_params: str, printed_macs: str
) -> None:
    count = _count(preset)
    assert (count.params_paper, count.macs_paper) == (params, macs)
    assert f"{count.params_paper / 1e6:.1f}M" == printed_params
    shown = count.macs_paper // 10**6 if preset in TRUNCATED else round(count.macs_paper / 1e6)
    assert f"{shown}M" == printed_macs


@pytest.mark.parametrize(("preset", "params", "src_len", "kilo_macs", "printed"), SUMMARIZATION)
def test_summarization_rows_give_the_counts_of_the_released_models(
    preset: str, params: int, src_len: int, kilo_macs: int, printed: str
) -> None:
    count = _count(preset, src_len=src_len, tgt_len=60)
    assert count.params_paper == params
    assert round(count.macs_paper / 1000) == kilo_macs
    assert f"{count.macs_paper / 1e9:.1f}" == printed


@pytest.mark.parametrize(("preset", "linear", "generator", "attention", "norm", "taps", "output"), COMPONENTS)
def test_mult_adds_by_operation(
    preset: str, linear: int, generator: int, attention: int, norm: int, taps: int, output: int
) -> None:
    costs = _count(preset).by_operation()
    paper = {operation: cost.paper for operation, cost in costs.items() if cost.paper}
    expected = {"linear": linear, "kernel_generator": generator, "attention": attention, "layer_norm": norm}
    assert paper == {operation: macs for operation, macs in expected.items() if macs}
    # What the paper's convention leaves out and a device computes all the same.
    assert costs["conv_taps"].executed == taps
    assert costs["output"].executed == output


def test_steps_with_caches_save_half_of_the_square_in_causal_attention() -> None:
    count = _count("lite-transformer-wmt-496")
    assert count.by_part()["decoder.attention"].paper - count.by_part()["decoder.attention"].executed == 1_294_560
    assert count.macs_executed == 527_436_480 - 1_294_560 + 1_755_840 + 487_587_840


@pytest.mark.parametrize(
    ("preset", "attention", "conv_in", "conv_out", "kernel", "ffn", "encoder_norm", "decoder_norm", "cross", "output"),
    SUBMODULES,
)
def test_parameters_by_part(
    preset: str,
    attention: int,
    conv_in: int,
    conv_out: int,
    kernel: int,
    ffn: int,
    encoder_norm: int,
    decoder_norm: int,
    cross: int,
    output: int,
) -> None:
    params = {part: cost.params for part, cost in _count(preset).by_part().items() if not part.startswith("embeddings")}
    shared = {"attention": attention, "conv_in": conv_in, "conv_kernel": kernel, "conv_out": conv_out, "ffn": ffn}
    assert params == {
        **{f"encoder.{part}": number for part, number in shared.items()},
        "encoder.norm": encoder_norm,
        **{f"decoder.{part}": number for part, number in shared.items()},
        "decoder.cross_attention": cross,
        "decoder.norm": decoder_norm,
        "output": output,
    }


@pytest.mark.parametrize(("preset", "total"), TOTALS)
def test_totals_with_embeddings(preset: str, total: int) -> None:
    count = _count(preset)
    assert count.params_total == total
    assert count.params_embeddings + count.params_paper == total


def test_a_hand_counted_model() -> None:
    """One layer a side, small enough to count on paper: width 4, feed-forward 6, kernel 3, 10 and 7 words."""
    text = """
    name = "tiny"
    [model]
    family = "lightconv"
    src_vocab_size = 10
    tgt_vocab_size = 7
    tie_embeddings = "decoder"
    embed_dim = 4
    ffn_dim = 6
    num_encoder_layers = 1
    num_decoder_layers = 1
    cross_num_heads = 2
    kernel_sizes = [3]
    decoder_kernel_sizes = [2]
    conv_num_heads = 2
    final_norm = true
    pre_norm = true
    """
    count = count_config(parse_config(text, name="tiny").model, src_len=5, tgt_len=3)
    dense = 4 * 4 + 4
    ffn = 4 * 6 + 6 + 6 * 4 + 4
    assert count.params_embeddings == 10 * 4 + 7 * 4
    assert count.params_paper == (2 * dense + 2 * 3 + ffn + 3 * 8) + (2 * dense + 2 * 2 + 4 * dense + ffn + 4 * 8)
    encoder = 5 * (2 * 16 + 2 * 24 + 3 * 4)
    decoder = 3 * (2 * 16 + 2 * 16 + 2 * 24 + 4 * 4) + 5 * 2 * 16 + 2 * 4 * 3 * 5
    assert count.macs_paper == encoder + decoder
    taps, output = 5 * 3 * 4 + 3 * 2 * 4, 3 * 7 * 4
    assert count.macs_executed == count.macs_paper + taps + output


@pytest.mark.parametrize(("src_len", "tgt_len", "named"), [(0, 30, "source"), (30, -1, "target"), (1025, 30, "source")])
def test_lengths_that_the_model_cannot_take(src_len: int, tgt_len: int, named: str) -> None:
    with pytest.raises(ConfigError, match=rf"{named} length: expected 1 to 1024 tokens \(model.max_positions\), found"):
        _count("lite-transformer-wmt-200", src_len=src_len, tgt_len=tgt_len)


@pytest.mark.parametrize("beam", [1, 4])
def test_a_beam_multiplies_the_steps_but_not_the_source(beam: int) -> None:
    """The formulas of papers.md's d 160 row: the encoder and two projections of cross-attention stay."""
    one = _count("lite-transformer-iwslt-160").by_part()
    wide = count_config(load_config("lite-transformer-iwslt-160").model, beam=beam)
    parts = wide.by_part()
    assert wide.macs_paper == 54_288_000
    for part, cost in parts.items():
        if part.startswith(("encoder", "embeddings")):
            assert cost.executed == one[part].executed
        elif part == "decoder.cross_attention":
            keys_and_values = 6 * 2 * 160 * 160 * 30
            assert cost.executed - keys_and_values == beam * (one[part].executed - keys_and_values)
        else:
            assert cost.executed == beam * one[part].executed


def test_groups_in_their_order_hold_everything() -> None:
    count = _count("lite-transformer-wmt-496")
    groups = count.by_group()
    assert list(groups) == [
        "embeddings",
        "encoder",
        "decoder",
        "cross_attention",
        "ffn",
        "convolution",
        "recurrent",
        "layer_norm",
        "output",
    ]
    # Counted on the released model.
    assert {group: cost.params for group, cost in groups.items()} == {
        "embeddings": 32_768 * 496,
        "encoder": 1_482_048,
        "decoder": 1_482_048,
        "cross_attention": 5_916_288,
        "ffn": 2 * 2_958_144,
        "convolution": 2 * (741_024 + 370_512 + 117_056),
        "recurrent": 0,
        "layer_norm": 11_904 + 17_856,
        "output": 0,
    }
    assert groups["layer_norm"].paper == 446_400
    assert sum(cost.paper for cost in groups.values()) == 527_436_480
    assert sum(cost.executed for cost in groups.values()) == count.macs_executed
    assert all(group == cost.part for group, cost in groups.items())


def test_a_group_that_a_model_lacks_is_zero() -> None:
    convolution = _count("transformer-wmt-128").by_group()["convolution"]
    assert (convolution.params, convolution.paper, convolution.executed) == (0, 0, 0)


def test_parameters_of_matrices_alone() -> None:
    """Transformer base without biases and LayerNorms: 44,040,192 (R2D2's table 2 prints 44M)."""
    count = _count("transformer-cnndm-512")
    assert (count.params_paper, count.params_weights) == (44_138_496, 44_040_192)


@pytest.mark.parametrize(
    ("number", "message"),
    [
        ({"beam": 2.5}, "beam: expected a whole number, found 2.5"),
        ({"src_len": 7.5}, "source length: expected a whole number, found 7.5"),
        ({"tgt_len": "30"}, "target length: expected a whole number, found '30'"),
    ],
)
def test_what_is_counted_is_a_whole_number(number, message) -> None:
    with pytest.raises(ConfigError, match=message):
        count_config(load_config("transformer-wmt-128").model, **number)


def test_numbers_of_numpy_count_as_those_of_python() -> None:
    model = load_config("lite-transformer-wmt-200").model
    for kind in (np.int16, np.int32, np.int64):
        found = count_config(model, src_len=kind(1000), tgt_len=kind(1000), beam=kind(2))
        assert found == count_config(model, src_len=1000, tgt_len=1000, beam=2)
    assert json.dumps(BudgetGate(src_len=np.int32(7), tgt_len=np.uint8(9)).lengths(model)) == "[7, 9]"
    limits = Limits(max_macs=np.int64(1), max_params=np.int32(2), max_size_bytes=np.uint8(3))
    verdicts = check_limits(count_config(model), limits, size_bytes=4)
    assert [json.loads(json.dumps(verdict.to_json()))["limit"] for verdict in verdicts] == [1, 2, 3]
    with pytest.raises(ConfigError, match=r"source length: expected a whole number, found 7\.5"):
        BudgetGate(src_len=7.5).lengths(model)  # type: ignore[arg-type]


def test_a_beam_of_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="beam: expected at most 256 hypotheses, found 257"):
        count_config(load_config("transformer-wmt-128").model, beam=257)
    with pytest.raises(ConfigError, match="beam: expected at least 1 hypothesis, found 0"):
        count_config(load_config("transformer-wmt-128").model, beam=0)
