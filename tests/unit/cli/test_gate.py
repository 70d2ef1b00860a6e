"""The model of the tests costs 16 d^2 + 11 d Mult-Adds for one token on each side (see ``test_advice``), 4272 at 16."""

import pytest
import typer

from lite_nlp.budget.gate.limits import Limits
from lite_nlp.cli.gate import Gate, enforce_budget, enforce_size, read_limits
from lite_nlp.config.model import EncoderDecoderConfig
from lite_nlp.config.preset import parse_model
from lite_nlp.core.errors import ConfigError

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


def _gate(allow: bool = False, **limits: int) -> Gate:
    return Gate(limits=Limits(**limits), src_len=1, tgt_len=1, allow=allow)


def test_options_become_limits() -> None:
    assert read_limits() == Limits(max_macs=500_000_000, max_params=10_000_000, count_params="paper")
    assert read_limits(max_macs="1.5M", max_params="2K", count_params="total", max_size="4MB") == Limits(
        max_macs=1_500_000, max_params=2000, count_params="total", max_size_bytes=4_000_000
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_macs": "lots"}, "expected a count such as 500M"),
        ({"max_params": "4MB"}, "expected a count such as 500M"),
        ({"max_size": "0"}, "expected a size such as 570KB"),
        ({"count_params": "some"}, "--count-params: expected total or paper, found some"),
    ],
)
def test_wrong_options_are_wrong_usage(options: dict[str, str], message: str) -> None:
    with pytest.raises(typer.BadParameter, match=message):
        read_limits(**options)


def test_within_budget_nothing_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    enforce_budget(MODEL, _gate(max_macs=4272), target="mine")
    assert capsys.readouterr() == ("", "")


def test_over_budget_is_code_3_with_advice_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as stopped:
        enforce_budget(MODEL, _gate(max_macs=4271), target="mine")
    assert stopped.value.exit_code == 3
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert lines[0] == "over budget: mine, 1 -> 1 tokens"
    assert lines[1].startswith("  Mult-Adds (paper): 4,272 found, at most 4,271 allowed; largest: ")
    # The next width that two heads divide: 16 x 196 + 11 x 14.
    assert "  model.embed_dim 16 -> 14 (with model.ffn_dim=14): 3,290 Mult-Adds, 3,500 parameters" in lines
    assert lines[-1] == "--allow-over-budget goes on nevertheless"


def test_allowed_it_is_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    enforce_budget(MODEL, _gate(allow=True, max_macs=4271), target="mine")
    assert capsys.readouterr().err.endswith("\ngoing on: --allow-over-budget\n")


def test_quiet_processes_stop_as_well(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        enforce_budget(MODEL, _gate(max_macs=4271), target="mine", quiet=True)
    assert capsys.readouterr() == ("", "")


def test_lengths_are_30_or_what_the_model_takes() -> None:
    assert Gate(limits=Limits()).lengths(MODEL) == (20, 20)
    longer = parse_model(MODEL.model_dump() | {"max_positions": 64})
    assert Gate(limits=Limits()).lengths(longer) == (30, 30)
    assert Gate(limits=Limits(), src_len=7).lengths(longer) == (7, 30)


def test_a_length_beyond_the_model_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"expected 1 to 20 tokens \(model.max_positions\), found 21"):
        enforce_budget(MODEL, Gate(limits=Limits(), tgt_len=21), target="mine")


def test_of_a_file_only_the_size_is_checked(capsys: pytest.CaptureFixture[str]) -> None:
    enforce_size(MODEL, _gate(max_macs=1), target="mine", size_bytes=10**9)
    enforce_size(MODEL, _gate(max_macs=1, max_size_bytes=1000), target="mine", size_bytes=1000)
    assert capsys.readouterr() == ("", "")
    with pytest.raises(typer.Exit) as stopped:
        enforce_size(MODEL, _gate(max_macs=1, max_size_bytes=1000), target="mine", size_bytes=1001)
    assert stopped.value.exit_code == 3
    err = capsys.readouterr().err
    assert "file size in bytes: 1,001 found, at most 1,000 allowed" in err
    assert "lite-nlp compress mine --target-size 1KB --out DIR" in err
    assert "Mult-Adds" not in err
