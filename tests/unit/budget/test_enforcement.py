"""The model of the tests costs 16 d^2 + 11 d Mult-Adds for one token on each side (see ``test_advice``), 4272 at 16."""

import logging

import pytest

from lite_nlp.budget.gate.enforcement import BudgetGate
from lite_nlp.budget.gate.limits import Limits
from lite_nlp.config.model import EncoderDecoderConfig
from lite_nlp.config.preset import load_config, parse_model
from lite_nlp.core.errors import ConfigError, OverBudgetError, UsageError

MODEL = EncoderDecoderConfig(
    family="transformer",
    src_vocab_size=400,
    tgt_vocab_size=400,
    embed_dim=16,
    ffn_dim=16,
    num_heads=2,
    cross_num_heads=2,
    num_encoder_layers=1,
    num_decoder_layers=1,
    max_positions=20,
)


def _gate(allow: bool = False, **limits: int) -> BudgetGate:
    return BudgetGate(limits=Limits(**limits), src_len=1, tgt_len=1, allow=allow)


def test_within_budget_nothing_happens(caplog: pytest.LogCaptureFixture) -> None:
    _gate(max_macs=4272).check_model(MODEL, target="mine")
    assert not caplog.records


def test_over_budget_is_an_error_with_advice() -> None:
    with pytest.raises(OverBudgetError) as stopped:
        _gate(max_macs=4271).check_model(MODEL, target="mine")
    lines = str(stopped.value).splitlines()
    assert lines[0] == "over budget: mine, 1 -> 1 tokens"
    assert lines[1].startswith("  Mult-Adds (paper): 4,272 found, at most 4,271 allowed; largest: ")
    # The next width that two heads divide: 16 x 196 + 11 x 14.
    assert "  model.embed_dim 16 -> 14 (with model.ffn_dim=14): 3,290 Mult-Adds, 3,500 parameters" in lines
    assert lines[-1] == "--allow-over-budget goes on nevertheless"


def test_a_vocabulary_of_data_is_made_smaller_where_it_is_made() -> None:
    gate = BudgetGate(limits=Limits(max_params=10_000, count_params="total"), src_len=1, tgt_len=1)
    said = []
    for of_data in (False, True):
        with pytest.raises(OverBudgetError) as stopped:
            gate.check_model(MODEL, target="mine", vocabulary_of_data=of_data)
        said.append(str(stopped.value).splitlines())
    # 4512 parameters in the layers (see ``test_advice``) and 16 for each of the joint types.
    figures = ": 4,272 Mult-Adds, 10,000 parameters"
    assert f"  model.src_vocab_size 400 -> 343, model.tgt_vocab_size 400 -> 343{figures}" in said[0]
    assert f"  data prepare --vocab-size 343{figures}" in said[1]
    assert [line for line in said[0] if "vocab" not in line] == [line for line in said[1] if "vocab" not in line]


def test_allowed_it_is_a_warning() -> None:
    said: list[str] = []
    gate = BudgetGate(limits=Limits(max_macs=4271), src_len=1, tgt_len=1, allow=True, warn=said.append)
    gate.check_model(MODEL, target="mine")
    [text] = said
    assert text.startswith("over budget: mine, 1 -> 1 tokens\n")
    assert text.endswith("\ngoing on: --allow-over-budget")


def test_a_warning_is_logged_by_default(caplog: pytest.LogCaptureFixture) -> None:
    _gate(allow=True, max_macs=4271).check_model(MODEL, target="mine")
    [record] = caplog.records
    assert (record.name, record.levelno) == ("lite_nlp", logging.WARNING)
    assert "over budget: mine" in record.message


def test_lengths_are_30_or_what_the_model_takes() -> None:
    assert BudgetGate().lengths(MODEL) == (20, 20)
    longer = parse_model(MODEL.model_dump() | {"max_positions": 64})
    assert BudgetGate().lengths(longer) == (30, 30)
    assert BudgetGate(src_len=7).lengths(longer) == (7, 30)


def test_a_length_beyond_the_model_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"expected 1 to 20 tokens \(model.max_positions\), found 21"):
        BudgetGate(tgt_len=21).check_model(MODEL, target="mine")
    with pytest.raises(ConfigError, match=r"expected 1 to 20 tokens \(model.max_positions\), found 0"):
        BudgetGate(src_len=0).check_model(MODEL, target="mine")


def test_a_length_of_a_side_that_is_not_there_is_wrong_usage() -> None:
    language_model, classifier, pairs = (
        load_config(preset).model
        for preset in ("tinyshakespeare-lite-transformer", "r2d2-sva-dense", "r2d2-lstm-nli-5")
    )
    assert BudgetGate(tgt_len=7).lengths(language_model) == (30, 7)
    with pytest.raises(UsageError, match="--src-len: expected --tgt-len alone with a language-model, found 77"):
        BudgetGate(src_len=77).lengths(language_model)
    assert BudgetGate(src_len=7).lengths(classifier) == (7, 30)
    with pytest.raises(UsageError, match="--tgt-len: expected --src-len alone with a sequence-classifier, found 77"):
        BudgetGate(tgt_len=77).lengths(classifier)
    assert BudgetGate(src_len=7, tgt_len=9).lengths(pairs) == (7, 9)
    lstm = load_config("r2d2-lstm-nli-5", ["model.architecture=lstm-classifier"]).model
    with pytest.raises(UsageError, match="--tgt-len: expected --src-len alone with a lstm-classifier, found 9"):
        BudgetGate(tgt_len=9).lengths(lstm)


def test_of_a_file_only_the_size_is_checked() -> None:
    _gate(max_macs=1).check_size(MODEL, target="mine", size_bytes=10**9)
    _gate(max_macs=1, max_size_bytes=1000).check_size(MODEL, target="mine", size_bytes=1000)
    with pytest.raises(OverBudgetError) as stopped:
        _gate(max_macs=1, max_size_bytes=1000).check_size(MODEL, target="mine", size_bytes=1001)
    message = str(stopped.value)
    assert "file size in bytes: 1,001 found, at most 1,000 allowed" in message
    assert "lite-nlp compress mine --target-size 1KB --out DIR" in message
    assert "Mult-Adds" not in message
