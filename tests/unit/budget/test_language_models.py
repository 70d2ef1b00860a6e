"""Language models in closed form: published figures, arithmetic by hand, and the counter on the modules themselves."""

from typing import Any

import pytest
import torch

from lite_nlp.budget.closed_form.formulas import count_config
from lite_nlp.budget.closed_form.lengths import growth
from lite_nlp.budget.closed_form.overhead import count_overhead
from lite_nlp.budget.closed_form.state import count_state
from lite_nlp.budget.gate.advice import advise, describe_excess
from lite_nlp.budget.gate.limits import Limits, check_limits
from lite_nlp.budget.gate.resizing import Resize
from lite_nlp.budget.traced.counter import count_parameters, count_work
from lite_nlp.config.model import ModelConfig
from lite_nlp.config.preset import load_config
from lite_nlp.core.errors import ConfigError
from lite_nlp.models.build import as_language_model, build_model
from lite_nlp.models.language_model import LanguageModel
from tests.unit.models.language_models import language_model_config

ADAPTIVE: dict[str, Any] = {"embedding": "adaptive", "adaptive_cutoffs": (10, 40), "adaptive_factor": 2}
T2R: dict[str, Any] = {"family": "t2r", "self_attention": "t2r", "self_feature_size": 4}
KERNELS: dict[str, Any] = {"decoder_kernel_sizes": (3, 4, 4, 9)}
WIDE: dict[str, Any] = {"sharing": "sandwich", "sandwich_dim": 24, "sandwich_ffn_dim": 40}

VARIANTS: dict[str, dict[str, Any]] = {
    "transformer": {"family": "transformer", "final_norm": True},
    "untied": {"family": "transformer", "tie_embeddings": "none"},
    "lsra": {"family": "lite-transformer", **KERNELS, "conv_type": "dynamic", "conv_glu": True},
    "lightconv": {"family": "lightconv", **KERNELS},
    "subformer": {"family": "subformer", **WIDE, "embedding": "safe", "embedding_dim": 8},
    "linear embedding": {"family": "subformer", "embedding": "linear", "embedding_dim": 8},
    "two linears": {"family": "subformer", "embedding": "two-layer-linear", "embedding_dim": 8},
    "r2d2": {"family": "r2d2", "attention_linear": "r2d2", "ffn_linear": "r2d2", "linear_n": 2},
    "t2r": T2R,
    "t2r 75%": {**T2R, "keep_softmax_every": 4},
    "elu": {"family": "t2r", "self_attention": "elu"},
    "adaptive": {"family": "transformer", **ADAPTIVE},
    "adaptive subformer": {"family": "subformer", **WIDE, **ADAPTIVE},
    "adaptive t2r": {**T2R, **ADAPTIVE},
}
#: Those whose forward does what the papers count; a linear attention runs over all tokens in another order.
SOFTMAX = [name for name, changes in VARIANTS.items() if changes.get("self_attention") is None]


def _config(**changes: Any) -> ModelConfig:
    return language_model_config(**{"num_decoder_layers": 4, "tgt_vocab_size": 100, **changes})


def _meta_model(config: ModelConfig) -> LanguageModel:
    with torch.device("meta"):
        return as_language_model(build_model(config), source="test").eval()


@pytest.mark.parametrize(
    ("preset", "length", "macs"),
    [
        # Counted in the authors' code, and printed as 1147M (README), 3.9G and 48.7G, 3.9G and 50.3G (table 5).
        ("lite-transformer-lm-896", 30, 1_146_808_320),
        ("lite-transformer-lm-896", 100, 3_897_958_400),
        ("lite-transformer-lm-896", 1000, 48_656_384_000),
        ("adaptive-inputs-lm-512", 100, 3_925_196_800),
        ("adaptive-inputs-lm-512", 1000, 50_311_168_000),
    ],
)
def test_published_mult_adds(preset: str, length: int, macs: int) -> None:
    assert count_config(load_config(preset).model, tgt_len=length).macs_paper == macs


@pytest.mark.parametrize(
    ("preset", "layers", "total"),
    [
        # The authors' layers alone, as Lite Transformer prints them, and their whole model.
        ("lite-transformer-lm-896", 37_182_208, 76_751_360),
        ("adaptive-inputs-lm-512", 37_828_608, None),
        # With tables, as the Subformer prints them.
        ("transformer-lm-4", None, 95_778_816),
        ("transformer-lm-8", None, 146_163_712),
        ("subformer-lm", None, 96_306_432),
        # The authors' language model and 33,024 parameters of maps in each of its 32 layers.
        ("transformer-lm-32", None, 448_473_088),
        ("t2r-lm", None, 448_473_088 + 32 * 33_024),
    ],
)
def test_published_parameters(preset: str, layers: int | None, total: int | None) -> None:
    count = count_config(load_config(preset).model)
    assert layers in (None, count.params_paper)
    assert total in (None, count.params_total)


def test_the_papers_state_is_constant() -> None:
    """T2R: h k + r k = 33,024 numbers per layer, whatever the length; softmax keeps 2 h per token and layer."""
    for length in (1, 512, 1000):
        assert count_state(load_config("t2r-lm").model, tgt_len=length) == {"decoder.attention": 32 * 33_024}
        softmax = count_state(load_config("transformer-lm-32").model, tgt_len=length)
        assert softmax == {"decoder.attention": 32 * 2 * 1024 * length}
    kept = count_state(load_config("t2r-75-lm").model, tgt_len=512)
    assert kept == {"decoder.attention": 24 * 33_024 + 8 * 2 * 1024 * 512}


def test_adaptive_embeddings_by_hand() -> None:
    """Bands of 10, 30 and 60 types, 16, 8 and 4 wide; 3 tokens."""
    parts = count_config(_config(**VARIANTS["adaptive"]), tgt_len=3).by_part()
    projections = 16 * 16 + 8 * 16 + 4 * 16
    assert parts["embeddings.target"].params == 10 * 16 + 30 * 8 + 60 * 4 + projections + 2 * 16
    way_in, output = parts["embeddings.target_input"], parts["output"]
    assert (way_in.params, way_in.paper, way_in.executed) == (0, 3 * 16 * 16, 3 * projections)
    # 10 types and 2 bands at width 16; then each band's projection and types.
    step = 12 * 16 + (16 * 8 + 8 * 30) + (16 * 4 + 4 * 60)
    assert (output.params, output.paper, output.executed) == (0, 0, 3 * step)


@pytest.mark.parametrize("name", VARIANTS)
def test_generation_counts_as_the_executed_convention(name: str) -> None:
    config = _config(**VARIANTS[name])
    model, length = _meta_model(config), 7
    with torch.device("meta"):
        tokens, state = torch.zeros(1, dtype=torch.int64), model.init_state(1, length)
    step = count_work(model.decode_step, tokens, state).total
    count = count_config(config, tgt_len=length)
    assert length * step == count.macs_executed + sum(item.macs for item in count_overhead(config, tgt_len=length))
    assert count_parameters(model).total == count.params_total


@pytest.mark.parametrize("name", SOFTMAX)
def test_the_forward_counts_as_the_paper_convention(name: str) -> None:
    config = _config(**VARIANTS[name])
    length = 7
    work = count_work(_meta_model(config), torch.zeros(1, length, dtype=torch.int64))
    parts = count_config(config, tgt_len=length).by_part()
    # Outside of the paper's count: the output, what an adaptive vocabulary adds on the way in, and the taps, laid out
    # as (T, T) band matrices for each channel.
    executed_only = parts["output"].executed
    if config.embedding == "adaptive":
        way_in = parts["embeddings.target_input"]
        executed_only += way_in.executed - way_in.paper
    band = config.conv_dim * len(config.decoder_kernel_sizes) * length**2
    assert work.total - executed_only - band == count_config(config, tgt_len=length).macs_paper


def test_there_is_no_source() -> None:
    config = _config(family="transformer", max_positions=50)
    count = count_config(config, src_len=99, tgt_len=50)
    assert (count.src_len, count.tgt_len) == (0, 50)
    assert count == count_config(config, src_len=1, tgt_len=50)
    assert not any(part.startswith(("encoder", "embeddings.source")) for part in count.by_part())
    with pytest.raises(ConfigError, match=r"target length: expected 1 to 50 tokens \(model.max_positions\), found 51"):
        count_config(config, tgt_len=51)


def test_a_beam_multiplies_every_step() -> None:
    config = _config(**VARIANTS["lsra"])
    one, four = (count_config(config, tgt_len=9, beam=beam) for beam in (1, 4))
    assert four.macs_executed == 4 * one.macs_executed
    assert four.macs_paper == one.macs_paper


def test_only_softmax_attention_grows_with_the_square() -> None:
    assert growth(_config(family="transformer"))["decoder"] == "quadratic"
    assert growth(_config(**VARIANTS["t2r 75%"]))["decoder"] == "quadratic"
    linear = growth(_config(**VARIANTS["adaptive t2r"]))
    assert set(linear.values()) == {"linear", "constant"}
    assert linear["decoder"] == linear["output"] == "linear"


def test_advice_names_dimensions_that_there_are() -> None:
    config = load_config("lite-transformer-lm-896").model
    count, limits = count_config(config), Limits(max_macs=600_000_000, max_params=30_000_000)
    verdicts = check_limits(count, limits)
    advice = advise(config, limits, verdicts, src_len=30, tgt_len=30)
    keys = {change.key for item in advice if isinstance(item, Resize) for change in item.changes if not change.follows}
    assert {"model.embed_dim", "model.num_decoder_layers"} <= keys
    assert not keys & {"model.num_encoder_layers", "model.src_vocab_size"}
    text = describe_excess("lm", count.lengths, verdicts, advice)
    assert text.startswith("over budget: lm, 30 tokens\n")


def test_a_smaller_vocabulary_takes_its_adaptive_tables_along() -> None:
    config = load_config("lite-transformer-lm-896").model
    limits = Limits(max_params=70_000_000, max_macs=2_000_000_000, count_params="total")
    advice = advise(config, limits, check_limits(count_config(config), limits), src_len=30, tgt_len=30)
    [vocabulary] = [item for item in advice if isinstance(item, Resize) and "model.tgt_vocab_size" in str(item)]
    # The third table has 56 numbers per type: 6,751,360 numbers too many are 120,560 types.
    assert vocabulary.overrides == ("model.tgt_vocab_size=147184",)
    tighter = Limits(max_params=62_000_000, max_macs=2_000_000_000, count_params="total")
    advice = advise(config, tighter, check_limits(count_config(config), tighter), src_len=30, tgt_len=30)
    [vocabulary] = [item for item in advice if isinstance(item, Resize) and "model.tgt_vocab_size" in str(item)]
    # Without the third table, its projection (56 x 896) and its score (896) 65,066,624 numbers are left; the second has
    # 224 per type, and 3,066,624 too many are 13,691 types.
    assert vocabulary.overrides == ("model.tgt_vocab_size=46309", "model.adaptive_cutoffs=[20000]")
