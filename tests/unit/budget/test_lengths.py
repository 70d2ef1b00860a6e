"""Growth with the length, against orders and polynomials derived by hand."""

import re
from fractions import Fraction
from typing import get_args

import pytest

from lite_nlp.budget.closed_form.counts import GROUPS
from lite_nlp.budget.closed_form.formulas import count_config
from lite_nlp.budget.closed_form.lengths import LENGTHS, growth, length_polynomials, length_table
from lite_nlp.budget.reporting.conventions import CONVENTIONS, PARAMETER_COUNTS
from lite_nlp.budget.reporting.papers import ParameterConvention
from lite_nlp.config.model import ModelConfig
from lite_nlp.config.preset import load_config, parse_model
from lite_nlp.core.errors import ConfigError

#: One layer a side, width 4, feed-forward 6, 10 source and 7 target words.
TINY = {
    "family": "transformer",
    "src_vocab_size": 10,
    "tgt_vocab_size": 7,
    "tie_embeddings": "decoder",
    "embed_dim": 4,
    "ffn_dim": 6,
    "num_encoder_layers": 1,
    "num_decoder_layers": 1,
    "num_heads": 2,
    "cross_num_heads": 2,
}


def _tiny(**changes: object) -> ModelConfig:
    return parse_model({**TINY, **changes})


def test_polynomials_of_a_hand_counted_model() -> None:
    paper = length_polynomials(_tiny(), convention="paper")
    executed = length_polynomials(_tiny(), convention="executed")
    assert paper["encoder"] == executed["encoder"] == (0, 4 * 16, 8)
    assert paper["decoder"] == (0, 4 * 16, 8)
    # 8 per pair, n (n + 1) / 2 pairs.
    assert executed["decoder"] == (0, 4 * 16 + 4, 4)
    assert paper["ffn"] == executed["ffn"] == (0, 2 * 2 * 24, 0)
    assert paper["layer_norm"] == executed["layer_norm"] == (0, 5 * 4, 0)
    assert (paper["output"], executed["output"]) == ((0, 0, 0), (0, 28, 0))
    assert paper["embeddings"] == (0, 0, 0)


def test_polynomials_of_the_source_alone() -> None:
    polynomials = length_polynomials(_tiny(), convention="executed", vary="source", fixed=3, beam=2)
    # Query and output projections of 3 steps of 2 hypotheses; keys and values of n tokens; 8 per pair.
    assert polynomials["cross_attention"] == (2 * 3 * 2 * 16, 2 * 16 + 8 * 2 * 3, 0)
    assert polynomials["encoder"] == (0, 64, 8)
    # 6 tokens' projections; 2 hypotheses with 1 + 2 + 3 pairs.
    assert polynomials["decoder"] == (6 * 64 + 8 * 2 * 6, 0, 0)
    assert all(isinstance(value, Fraction) for value in polynomials["encoder"])


def test_softmax_attention_grows_with_the_square() -> None:
    for convention in ("paper", "executed"):
        orders = growth(load_config("lite-transformer-wmt-496").model, convention=convention)
        assert {group for group, order in orders.items() if order == "quadratic"} == {
            "encoder",
            "decoder",
            "cross_attention",
        }
        assert {orders[group] for group in ("ffn", "convolution", "layer_norm")} == {"linear"}
        assert orders["embeddings"] == "constant"
        assert orders["output"] == ("constant" if convention == "paper" else "linear")


def test_only_the_encoder_grows_with_the_square_of_the_source() -> None:
    orders = growth(load_config("transformer-wmt-128").model, vary="source")
    assert orders["encoder"] == "quadratic"
    assert orders["cross_attention"] == "linear"
    assert orders["decoder"] == orders["output"] == "constant"


def test_without_self_attention_only_cross_attention_is_quadratic() -> None:
    orders = growth(load_config("lightconv-iwslt-128").model)
    assert [group for group, order in orders.items() if order == "quadratic"] == ["cross_attention"]
    assert orders["encoder"] == orders["decoder"] == "constant"


def test_table_rows_are_the_counts_at_their_lengths() -> None:
    model = load_config("lite-transformer-cnndm-496").model
    rows = length_table(model, convention="paper", lengths=(30, 100, 1000), vary="source", fixed=60)
    # Table 4 of Lite Transformer prints 0.8, 1.5 and 12.5 G; counted on the released models to the thousand.
    assert [round(row.total / 1000) for row in rows] == [799_235, 1_454_054, 12_471_206]
    assert [(row.src_len, row.tgt_len) for row in rows] == [(30, 60), (100, 60), (1000, 60)]
    assert list(rows[0].groups) == list(GROUPS)


def test_table_goes_as_far_as_the_model() -> None:
    assert [row.tgt_len for row in length_table(_tiny(), convention="executed")] == list(LENGTHS)
    assert [row.src_len for row in length_table(_tiny(max_positions=100), convention="executed")] == list(LENGTHS[:8])
    rows = length_table(_tiny(), convention="executed", lengths=(1, 2), vary="target", fixed=5)
    assert [(row.src_len, row.tgt_len) for row in rows] == [(5, 1), (5, 2)]


def test_lengths_that_no_sentence_has() -> None:
    with pytest.raises(ConfigError, match="source length: expected 1 to 1024 tokens"):
        length_table(_tiny(), convention="paper", lengths=(0,))
    with pytest.raises(ConfigError, match="beam: expected at least 1 hypothesis, found 0"):
        length_polynomials(_tiny(), convention="executed", beam=0)


def test_the_examples_of_the_conventions_are_right() -> None:
    model = _tiny()
    one, two = (count_config(model, src_len=3, tgt_len=3, beam=beam) for beam in (1, 2))
    block, wide = one.by_part()["decoder.attention"], two.by_part()["decoder.attention"]
    assert set(CONVENTIONS) == {"paper", "executed"}
    assert f"together {block.paper}." in CONVENTIONS["paper"].example
    executed = CONVENTIONS["executed"].example
    assert f"together {block.executed}; a beam of 2 takes {wide.executed}." in executed
    assert f"= {one.by_part()['output'].executed}." in executed


def test_the_examples_of_the_parameter_counts_are_right() -> None:
    assert set(PARAMETER_COUNTS) == set(get_args(ParameterConvention))
    tied, own = count_config(_tiny()), count_config(_tiny(tie_embeddings="none"))
    assert re.findall(r"\d+", PARAMETER_COUNTS["total"].example)[-1] == str(tied.params_embeddings)
    assert own.by_part()["output"].params == 28
    assert tied.by_part()["output"].params == 0
    block = tied.by_part()["encoder.ffn"]
    assert (block.params, block.params - block.vectors) == (30 + 28, 24 + 24)
