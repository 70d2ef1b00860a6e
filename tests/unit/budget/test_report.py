import json
from typing import Any

import pytest
from rich.console import Console

from lite_nlp.budget.closed_form.formulas import count_config
from lite_nlp.budget.gate.advice import advise
from lite_nlp.budget.gate.limits import Limits, check_limits
from lite_nlp.budget.reporting.papers import conformance
from lite_nlp.budget.reporting.report import BudgetReport
from lite_nlp.budget.reporting.tables import budget_tables, papers_tables
from lite_nlp.config.preset import load_config


def _report(preset: str, limits: Limits | None = None, size_bytes: int | None = None, **more: Any) -> BudgetReport:
    model, limits = load_config(preset).model, limits or Limits()
    count = count_config(model)
    verdicts = check_limits(count, limits, size_bytes=size_bytes)
    return BudgetReport(
        target=preset,
        model=model,
        count=count,
        limits=limits,
        verdicts=verdicts,
        advice=advise(model, limits, verdicts, src_len=30, tgt_len=30),
        size_bytes=size_bytes,
        **more,
    )


def _printed(renderable: Any, width: int = 80) -> str:
    console = Console(width=width)
    with console.capture() as capture:
        console.print(renderable)
    return capture.get()


def test_json_holds_exact_integers_and_its_parts_sum_to_them() -> None:
    content = json.loads(json.dumps(_report("lite-transformer-wmt-200").to_json()))
    assert content["target"] == "lite-transformer-wmt-200"
    assert content["family"] == "lite-transformer"
    assert content["lengths"] == {"src": 30, "tgt": 30}
    assert content["params"]["total"] == 9_438_000
    assert content["params"]["embeddings"] == 32_768 * 200
    assert content["params"]["paper"] == 2_884_400
    assert content["macs"]["paper"] == 90_132_000
    for grouping in ("parts", "groups"):
        assert sum(content["params"][grouping].values()) == 9_438_000
        parts = content["macs"][grouping].values()
        assert sum(part["paper"] for part in parts) == 90_132_000
        assert sum(part["executed"] for part in parts) == content["macs"]["executed"]
    assert content["limits"] == {
        "max_macs": 500_000_000,
        "max_params": 10_000_000,
        "count_params": "paper",
        "max_size_bytes": None,
    }
    assert content["within_budget"] is True
    assert content["advice"] == []
    assert "size_bytes" not in content
    assert "graphs" not in content["macs"]


def test_json_of_a_file_names_its_size() -> None:
    content = _report("lite-transformer-wmt-200", Limits(max_size_bytes=10), size_bytes=11).to_json()
    assert content["size_bytes"] == 11
    assert content["within_budget"] is False
    assert content["checks"][2] == {
        "quantity": "size_bytes",
        "found": 11,
        "limit": 10,
        "within": False,
        "largest": [],
    }


def test_json_of_a_model_over_budget_says_why_and_what_helps() -> None:
    content = _report("lite-transformer-wmt-496").to_json()
    macs = content["checks"][0]
    # Six layers of four square projections, 496 wide, and two products of 30 x 30 pairs, for 30 tokens.
    assert macs["largest"][0] == {
        "part": "decoder.cross_attention",
        "amount": 6 * (4 * 496 * 496 * 30 + 2 * 496 * 30 * 30),
    }
    assert (macs["quantity"], macs["within"]) == ("macs", False)
    assert "model.embed_dim=376" in content["advice"][0]["set"]


def test_lengths_vary_alone_and_together() -> None:
    report = _report("transformer-wmt-128")
    rows = report.to_json()["over_lengths"]
    assert [row["src"] for row in rows["both"]] == [row["tgt"] for row in rows["both"]]
    assert {row["tgt"] for row in rows["source"]} == {30}
    assert {row["src"] for row in rows["target"]} == {30}
    for vary in ("both", "source", "target"):
        (asked,) = [row for row in rows[vary] if row["src"] == row["tgt"] == 30]
        assert asked["paper"] == 86_837_760
    growth = report.to_json()["growth"]
    assert growth["both"]["paper"]["encoder"] == "quadratic"
    assert growth["target"]["executed"]["encoder"] == "constant"
    assert growth["both"]["executed"]["ffn"] == "linear"


def test_the_longest_sentence_within_the_budget() -> None:
    report = _report("lite-transformer-wmt-496")
    longest = report.longest_within()
    costs = [count_config(report.model, src_len=n, tgt_len=n).macs_paper for n in (longest, longest + 1)]
    assert costs[0] <= 500_000_000 < costs[1]
    assert _report("transformer-wmt-128", Limits(max_macs=10**12)).longest_within() == 1024
    assert _report("transformer-wmt-128", Limits(max_macs=1)).longest_within() == 0


@pytest.mark.parametrize(
    ("paper_counts", "expected"),
    [("total", 9_438_000), ("paper", 2_884_400)],
)
def test_paper_parameters_are_those_that_the_rows_own_paper_counts(paper_counts: Any, expected: int) -> None:
    content = _report("lite-transformer-wmt-200", paper_counts=paper_counts).to_json()
    assert content["params"]["paper"] == expected
    assert content["params"]["paper_counts"] == paper_counts


def test_tables_mark_what_is_over() -> None:
    within = _printed(budget_tables(_report("lite-transformer-wmt-200")))
    assert "90,132,000" in within
    assert "2,884,400" in within
    assert " over" not in within
    over = _printed(budget_tables(_report("lite-transformer-wmt-408")))
    assert [line.split("  ")[0].strip() for line in over.splitlines() if line.rstrip().endswith("over")] == [
        "parameters (paper)"
    ]


def test_tables_never_cut_a_figure_off() -> None:
    text = _printed(budget_tables(_report("lite-transformer-wmt-496")))
    for figure in ("1,015,485,600", "527,436,480", "29,128,096,000", "decoder.cross_attention", "quadratic"):
        assert figure in text
    assert "…" not in text
    assert "…" not in _printed(budget_tables(_report("lite-transformer-wmt-496")), width=50)


def test_a_target_that_looks_like_markup_is_shown_as_it_is() -> None:
    report = _report("lite-transformer-wmt-200")
    named = BudgetReport(**{**vars(report), "target": "[red]a[/red] [/]"})
    assert "[red]a[/red] [/]" in _printed(budget_tables(named))


def test_papers_tables_show_every_cell_with_its_verdict() -> None:
    cells = conformance()
    text = _printed(papers_tables(cells), width=160)
    assert "527,436,480" in text
    assert f"{len(cells)} printed figures: " in text
    (line,) = [line for line in text.splitlines() if "209,952,000" in line]
    assert "truncates (" in line
    assert any("Mult-Adds, 1000 tokens" in line and "48,656,384,000" in line for line in text.splitlines())
    assert "not reproducible" in text
    assert "…" not in _printed(papers_tables(cells))
