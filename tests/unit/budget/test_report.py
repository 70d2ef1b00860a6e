import json

from rich.console import Console

from lite_nlp.budget.formulas import count_model
from lite_nlp.budget.limits import Limits, check_budget
from lite_nlp.budget.report import BudgetReport
from lite_nlp.models.config import load_config


def _report(preset: str, limits: Limits, size_bytes: int | None = None) -> BudgetReport:
    model = load_config(preset).model
    count = count_model(model)
    return BudgetReport(
        target=preset,
        family=model.family,
        count=count,
        limits=limits,
        verdicts=check_budget(count, limits, size_bytes=size_bytes),
        size_bytes=size_bytes,
    )


def _printed(report: BudgetReport) -> str:
    console = Console(width=100)
    with console.capture() as capture:
        console.print(report.to_tables())
    return capture.get()


def test_json_holds_exact_integers_and_its_parts_sum_to_them() -> None:
    content = json.loads(json.dumps(_report("lite-transformer-wmt-200", Limits()).to_json()))
    assert content["target"] == "lite-transformer-wmt-200"
    assert content["family"] == "lite-transformer"
    assert content["lengths"] == {"src": 30, "tgt": 30}
    assert content["params"]["total"] == 9_438_000
    assert content["params"]["embeddings"] == 32_768 * 200
    assert content["params"]["paper"] == 2_884_400
    assert sum(content["params"]["parts"].values()) == 9_438_000
    assert content["macs"]["paper"] == 90_132_000
    parts = content["macs"]["parts"].values()
    assert sum(part["paper"] for part in parts) == 90_132_000
    assert sum(part["executed"] for part in parts) == content["macs"]["executed"]
    assert content["limits"] == {
        "max_macs": 500_000_000,
        "max_params": 10_000_000,
        "count_params": "paper",
        "max_size_bytes": None,
    }
    assert content["within_budget"] is True
    assert "size_bytes" not in content
    assert "graphs" not in content["macs"]


def test_json_of_a_file_names_its_size() -> None:
    content = _report("lite-transformer-wmt-200", Limits(max_size_bytes=10), size_bytes=11).to_json()
    assert content["size_bytes"] == 11
    assert content["within_budget"] is False


def test_tables_mark_what_is_over() -> None:
    within = _printed(_report("lite-transformer-wmt-200", Limits()))
    assert "90,132,000" in within
    assert "2,884,400" in within
    assert "over" not in within
    over = _printed(_report("lite-transformer-wmt-408", Limits()))
    assert [line.split("│")[1].strip() for line in over.splitlines() if "over" in line] == ["parameters (paper)"]


def test_overruns_name_the_largest_contributors() -> None:
    lines = _report("lite-transformer-wmt-496", Limits(max_size_bytes=3), size_bytes=5).overruns()
    assert lines[0].startswith("Mult-Adds (paper): 527,436,480 found, at most 500,000,000 allowed; largest: ")
    assert "decoder.cross_attention 5,916,288 (34%)" in lines[1]
    assert lines[2] == "file size in bytes: 5 found, at most 3 allowed"
    assert _report("lite-transformer-wmt-200", Limits()).overruns() == []
