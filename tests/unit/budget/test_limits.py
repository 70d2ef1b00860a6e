from typing import Any

import pytest

from lite_nlp.budget.closed_form.formulas import count_config
from lite_nlp.budget.gate.limits import Limits, check_limits
from lite_nlp.config.preset import load_config
from lite_nlp.core.errors import UsageError


def _verdicts(preset: str, limits: Limits, size_bytes: int | None = None) -> dict[str, bool]:
    count = count_config(load_config(preset).model)
    return {verdict.quantity: verdict.within for verdict in check_limits(count, limits, size_bytes=size_bytes)}


def test_default_limits_are_the_mobile_setting_of_the_paper() -> None:
    assert _verdicts("lite-transformer-wmt-200", Limits()) == {"macs": True, "params": True}
    assert _verdicts("lite-transformer-wmt-408", Limits()) == {"macs": True, "params": False}
    assert _verdicts("lite-transformer-wmt-496", Limits()) == {"macs": False, "params": False}


def test_a_figure_equal_to_its_limit_is_within() -> None:
    exact = Limits(max_macs=90_132_000, max_params=2_884_400)
    assert _verdicts("lite-transformer-wmt-200", exact) == {"macs": True, "params": True}
    below = Limits(max_macs=90_131_999, max_params=2_884_399)
    assert _verdicts("lite-transformer-wmt-200", below) == {"macs": False, "params": False}


def test_total_counts_the_embedding_tables() -> None:
    # 8.9M parameters in the paper's counting, 13.9M with both tables.
    assert _verdicts("lite-transformer-iwslt-320", Limits()) == {"macs": True, "params": True}
    assert _verdicts("lite-transformer-iwslt-320", Limits(count_params="total")) == {"macs": True, "params": False}


def test_size_is_checked_where_there_is_a_file_and_a_limit() -> None:
    assert _verdicts("lite-transformer-wmt-200", Limits(max_size_bytes=4_000_000))["macs"]
    assert "size_bytes" not in _verdicts("lite-transformer-wmt-200", Limits(max_size_bytes=4_000_000))
    assert "size_bytes" not in _verdicts("lite-transformer-wmt-200", Limits(), size_bytes=5)
    assert not _verdicts("lite-transformer-wmt-200", Limits(max_size_bytes=4), size_bytes=5)["size_bytes"]
    assert _verdicts("lite-transformer-wmt-200", Limits(max_size_bytes=5), size_bytes=5)["size_bytes"]


def test_contributors_are_largest_first_and_sum_to_the_figure() -> None:
    count = count_config(load_config("lite-transformer-wmt-496").model)
    for limits in (Limits(), Limits(count_params="total")):
        for verdict in check_limits(count, limits):
            shares = [share for _, share in verdict.contributors]
            assert shares == sorted(shares, reverse=True)
            assert sum(shares) == verdict.found
    by_total = check_limits(count, Limits(count_params="total"))[1].contributors
    assert by_total[0] == ("embeddings.source", 32_768 * 496)
    by_paper = check_limits(count, Limits())[1].contributors
    assert by_paper[0] == ("decoder.cross_attention", 5_916_288)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"max_macs": 0}, "--max-macs: expected 1 to 1,000,000,000,000,000,000, found 0"),
        ({"max_macs": None}, "--max-macs: expected a whole number, found None"),
        ({"max_params": None}, "--max-params: expected a whole number, found None"),
        ({"max_params": -1}, "--max-params: expected 1 to 1,000,000,000,000,000,000, found -1"),
        ({"max_params": float("nan")}, "--max-params: expected a whole number, found nan"),
        ({"max_size_bytes": 0}, "--max-size: expected 1 to 1,000,000,000,000,000,000, found 0"),
        ({"count_params": "weights"}, "--count-params: expected one of total, paper, found 'weights'"),
    ],
)
def test_limits_that_the_command_line_would_refuse(limits: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Limits(**limits)
