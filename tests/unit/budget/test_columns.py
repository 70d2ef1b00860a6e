"""Columns made by hand: an encoder of 10 S^2 + 4 S products, a decoder step of 3 S + 5 C products and 7 sums."""

from typing import Any

import pytest
from rich.console import Console

from lite_nlp.budget.closed_form.formulas import count_config
from lite_nlp.budget.gate.limits import Limits, check_limits
from lite_nlp.budget.reporting.columns import GraphColumns, GraphRow
from lite_nlp.budget.reporting.html import render_page
from lite_nlp.budget.reporting.report import BudgetReport
from lite_nlp.budget.reporting.tables import budget_tables
from lite_nlp.budget.traced.graphs import GraphWork, Polynomial
from lite_nlp.budget.traced.reconciliation import reconcile
from lite_nlp.config.preset import load_config


def _work(step_norm: int = 7) -> GraphWork:
    return GraphWork(
        encode={"matmul": Polynomial(((10, 2, 0), (4, 1, 0)))},
        decode_step={"matmul": Polynomial(((3, 1, 0), (5, 0, 1))), "layer_norm": Polynomial(((step_norm, 0, 0),))},
    )


def _columns(**work: GraphWork) -> GraphColumns:
    return GraphColumns(
        work=work,
        origins={name: "recorded" if name == "executorch" else "recounted" for name in work},
        reconciliation=reconcile(work),
    )


@pytest.fixture
def agreeing() -> GraphColumns:
    return _columns(torch=_work(), onnx=_work(), executorch=_work())


@pytest.fixture
def disagreeing() -> GraphColumns:
    return _columns(torch=_work(), onnx=_work(step_norm=9))


def _report(graphs: GraphColumns | None) -> BudgetReport:
    model = load_config("multi30k-transformer").model
    count = count_config(model, src_len=3, tgt_len=4, beam=2)
    return BudgetReport(
        target="a bundle",
        model=model,
        count=count,
        limits=Limits(),
        verdicts=check_limits(count, Limits()),
        graphs=graphs,
    )


def test_rows_are_the_work_of_one_translation(agreeing: GraphColumns) -> None:
    rows = agreeing.rows(src_len=3, tgt_len=4, beam=2)

    def alike(figure: int) -> dict[str, int]:
        return dict.fromkeys(("torch", "onnx", "executorch"), figure)

    # 10 * 9 + 4 * 3 once; 3 * 3 + 5 * 4 and 7, for 4 steps of 2 hypotheses.
    assert rows == (
        GraphRow(graph="encode", kind="matmul", figures=alike(102)),
        GraphRow(graph="decode_steps", kind="matmul", figures=alike(29 * 8)),
        GraphRow(graph="decode_steps", kind="layer_norm", figures=alike(7 * 8)),
    )
    assert agreeing.totals(src_len=3, tgt_len=4, beam=2) == alike(102 + 232 + 56)


def test_json_has_the_totals_beside_the_conventions_and_the_details_apart(agreeing: GraphColumns) -> None:
    content = _report(agreeing).to_json()
    assert content["macs"]["graphs"] == {"torch": 390, "onnx": 390, "executorch": 390}
    assert content["graphs"] == {
        "agree": True,
        "columns": {
            name: {
                "origin": "recorded" if name == "executorch" else "recounted",
                "encode": {"matmul": 102},
                "decode_steps": {"matmul": 232, "layer_norm": 56},
            }
            for name in ("torch", "onnx", "executorch")
        },
        "differences": [],
        # Four layers of 128 channels: a cache of 4 slots, of which step t needs t, for two hypotheses.
        "overheads": [
            {"name": "empty cache slots", "part": "decoder.attention", "macs": 2 * 2 * 128 * 4 * (3 + 2 + 1)}
        ],
    }
    assert "graphs" not in _report(None).to_json()


def test_a_difference_is_named_everywhere(disagreeing: GraphColumns) -> None:
    report = _report(disagreeing)
    content = report.to_json()
    assert content["graphs"]["agree"] is False
    assert content["macs"]["graphs"] == {"torch": 390, "onnx": 390 + 2 * 8}
    (difference,) = content["graphs"]["differences"]
    assert "layer_norm: 2 Mult-Adds beyond" in difference
    page = render_page(report)
    assert "the graphs do not agree" in page
    assert "layer_norm: 2 Mult-Adds beyond" in page
    text = _printed(budget_tables(report))
    assert "The graphs do not agree." in text
    assert "layer_norm: 2 Mult-Adds beyond" in " ".join(text.split())


def test_tables_and_page_show_every_column(agreeing: GraphColumns) -> None:
    text = _printed(budget_tables(_report(agreeing)))
    (line,) = [line for line in text.splitlines() if line.startswith("decoder step, 8 times: layer norm")]
    assert line.split()[-3:] == ["56", "56", "56"]
    assert "The graphs agree." in text
    page = render_page(_report(agreeing))
    assert page.count('<td class="n">232</td>') == 3
    assert "the graphs agree" in page


def test_a_single_column_is_not_said_to_agree() -> None:
    report = _report(_columns(torch=_work()))
    assert "Nothing to hold it against." in _printed(budget_tables(report))
    assert "agree" not in render_page(report).split('<section id="graphs">')[1].split("</section>")[0]


def _printed(renderable: Any) -> str:
    console = Console(width=80)
    with console.capture() as capture:
        console.print(renderable)
    return capture.get()
