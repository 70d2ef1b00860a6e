"""Records of finished models: what becomes a row, and what is left out."""

import pytest
from rich.console import Console

from lite_nlp.budget.closed_form.formulas import count_config
from lite_nlp.budget.gate.limits import Limits, check_limits
from lite_nlp.budget.reporting.history import TrainingHistory
from lite_nlp.budget.reporting.html import render_page
from lite_nlp.budget.reporting.records import ModelRecord, Score, read_scores
from lite_nlp.budget.reporting.report import BudgetReport
from lite_nlp.budget.reporting.tables import model_tables
from lite_nlp.config.preset import load_config

HOSTILE = '[red]<b>"&'

HISTORY = TrainingHistory()
for step in (100, 200):
    HISTORY.add({"event": "train", "step": step, "loss": 4.0 - step / 100, "tokens_per_second": 1000.0})
    HISTORY.add({"event": "valid", "step": step, "loss": 3.5 - step / 200, "nll": 2.0})

RECORD = ModelRecord(
    kind="container",
    path="small.lnlp",
    files={"tensors": 1200, HOSTILE: 34},
    scores={
        HOSTILE: {"bleu": 39.7098, "bleu_low": 38.2, "bleu_high": 41.3, "bleu_signature": "nrefs:1", "sentences": 2000}
    },
    stages=(
        {
            "stage": "original",
            "size_bytes": 4000,
            "ratio": 1.0,
            "sparsity": 0.0,
            "bits_per_weight": 32.0,
            "scores": {"bleu": 40.0},
        },
        {"stage": HOSTILE, "size_bytes": 1234, "ratio": 3.241},
    ),
    metrics={
        "steps": 5300,
        "ended_by": "max_steps",
        "weights": {"steps": [1]},
        "valid": {"loss": 2.5},
        "labels": ["a"],
    },
    history=HISTORY,
)


@pytest.fixture(scope="module")
def budget() -> BudgetReport:
    model = load_config("multi30k-transformer").model
    count = count_config(model)
    return BudgetReport(
        target="small", model=model, count=count, limits=Limits(), verdicts=check_limits(count, Limits())
    )


def test_scores_keep_their_intervals_and_leave_signatures_out() -> None:
    assert RECORD.score_rows() == (
        Score(test_set=HOSTILE, metric="BLEU", value=39.7098, interval=(38.2, 41.3)),
        Score(test_set=HOSTILE, metric="sentences", value=2000),
        Score(test_set="validation split, after training", metric="loss", value=2.5),
    )
    assert [score.shown for score in RECORD.score_rows()] == ["39.71", "2,000", "2.50"]


def test_stages_have_gaps_where_nothing_was_recorded() -> None:
    assert RECORD.stage_metrics() == {"bleu": "BLEU"}
    assert RECORD.stage_rows() == (
        ("original", "4,000", "1.00x", "0.0%", "32.00", "40.00"),
        (HOSTILE, "1,234", "3.24x", "", "", ""),
    )


def test_training_is_its_plain_facts() -> None:
    assert RECORD.training == {"steps": "5,300", "ended by": "max_steps"}


@pytest.mark.parametrize("content", [{}, {"scores": None}, {"scores": [1]}, {"scores": {"test": 3}}])
def test_scores_of_another_form_are_none(content: dict[str, object]) -> None:
    assert read_scores(content) == {}


def test_tables_show_all_of_it_whatever_its_words(budget: BudgetReport, capsys: pytest.CaptureFixture[str]) -> None:
    Console(width=100).print(model_tables(budget, RECORD))
    out = capsys.readouterr().out
    for words in (f"{HOSTILE} ", "38.20 to 41.30", "3.24x", "5,300", "1,200", "total"):
        assert words in out
    Console(width=100).print(model_tables(budget, ModelRecord(kind="loaded")))
    assert "test set" not in capsys.readouterr().out


def test_the_page_shows_all_of_it_escaped(budget: BudgetReport) -> None:
    page = render_page(budget, record=RECORD)
    assert "<b>&#34;" not in page.replace("<b>", "")
    assert page.count("[red]&lt;b&gt;&#34;&amp;") == 5
    for section in ("card", "scores", "speed", "stages", "training", "files", "budget", "contributions"):
        assert f'<section id="{section}"' in page
    for chart in ("loss", "score", "speed", "size-quality"):
        assert f'<title id="{chart}-title">' in page
    assert "<caption>Validations</caption>" in page
    assert "<title>Report on small</title>" in page
    plain = render_page(budget)
    assert '<section id="scores"' not in plain
    assert "<title>Budget of small</title>" in plain
    bare = render_page(budget, record=ModelRecord(kind="loaded"))
    assert "<dt>size</dt>\n<dd>1,234 bytes</dd>" in page
    assert "<dt>size</dt>" not in bare
    assert not [name for name in ("scores", "stages", "training", "files") if f'<section id="{name}"' in bare]
