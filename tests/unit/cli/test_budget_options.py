import pytest
import typer

from lite_nlp.budget.gate.limits import Limits
from lite_nlp.cli.budget_options import read_gate, read_target_size


def test_options_become_limits() -> None:
    assert read_gate().limits == Limits(max_macs=500_000_000, max_params=10_000_000, count_params="paper")
    assert read_gate(max_macs="1.5M", max_params="2K", count_params="total", max_size="4MB").limits == Limits(
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
        read_gate(**options)


def test_lengths_and_permission_are_the_gate_s() -> None:
    gate = read_gate(src_len=7, tgt_len=9, allow=True)
    assert (gate.src_len, gate.tgt_len, gate.allow) == (7, 9, True)
    assert not read_gate().allow


def test_an_allowed_excess_is_said_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    read_gate(allow=True).warn("over budget: [mine]")
    assert capsys.readouterr() == ("", "over budget: [mine]\n")


def test_a_target_size_is_no_larger_than_the_largest() -> None:
    assert read_target_size(None, max_size="1MB") is None
    assert read_target_size("1MB", max_size="1MB") == read_target_size("1MB", max_size=None) == 1_000_000
    with pytest.raises(typer.BadParameter, match="--target-size: expected at most --max-size 1MB, found 2MB"):
        read_target_size("2MB", max_size="1MB")
