"""The course of a run from the lines of its log, and the curves of it."""

import math

import pytest

from lite_nlp.budget.reporting.history import TrainingHistory
from lite_nlp.budget.reporting.size_quality import draw_size_quality, size_text


def run_of(steps: int, *, every: int = 10, **scores: float) -> TrainingHistory:
    history = TrainingHistory()
    for step in range(1, steps + 1):
        history.add({"event": "train", "step": step, "loss": float(step), "tokens_per_second": 100.0})
        if step % every == 0:
            history.add({"event": "valid", "step": step, "epoch": 1, "loss": 2.0, "nll": math.log(30), **scores})
    return history


def test_curves_are_means_of_equal_runs_of_steps() -> None:
    curves = run_of(480).curves()
    assert curves["steps"][:2] == [2.0, 5.0]
    assert curves["loss"] == curves["steps"]
    assert len(curves["steps"]) == 160
    assert set(curves["tokens_per_second"]) == {100.0}
    assert run_of(7).curves()["steps"] == [1, 2, 3, 4, 5, 6, 7]


def test_panels_show_what_there_is() -> None:
    assert [panel.key for panel in run_of(20).panels()] == ["loss", "score", "speed"]
    assert TrainingHistory().panels() == ()
    (loss,) = run_of(5).panels()[:1]
    assert [line.name for line in loss.lines] == ["training"]


@pytest.mark.parametrize(
    ("scores", "title", "words"),
    [
        ({}, "Validation perplexity", "30.00 at best, step 10"),
        ({"bleu": 12.5}, "Validation BLEU", "12.50 at best"),
        ({"sample_bleu": 12.5}, "Validation BLEU, sample", "12.50 at best"),
        ({"accuracy": 71.0}, "Validation accuracy", "71.00 at best"),
    ],
)
def test_the_score_is_the_tasks_own_or_else_perplexity(scores: dict[str, float], title: str, words: str) -> None:
    score = run_of(20, **scores).panels()[1]
    assert score.title == title
    assert words in score.summary


@pytest.mark.parametrize(
    "line", [{}, {"event": "train"}, {"event": "train", "step": 1, "loss": math.nan}, {"event": "other", "step": 1}]
)
def test_lines_without_figures_are_left_out(line: dict[str, object]) -> None:
    history = TrainingHistory()
    history.add(line)
    assert history == TrainingHistory()


@pytest.mark.parametrize("score", [math.nan, math.inf, None, [1.0], "high", 10**400])
def test_scores_that_are_no_figures_are_left_out(score: object) -> None:
    history = TrainingHistory()
    history.add({"event": "valid", "step": 7, "epoch": 1, "loss": 2.5, "nll": 2.0, "bleu": score})
    assert history.validations == [{"step": 7, "epoch": 1, "loss": 2.5, "nll": 2.0}]
    assert history.panels()[1].title == "Validation perplexity"


STAGES = [
    {"stage": "original", "size_bytes": 18_603_647, "scores": {"bleu": 46.78}},
    {"stage": "kmeans", "size_bytes": 4_763_956, "scores": {"bleu": 45.42}},
    {"stage": "entropy-coded", "size_bytes": 3_671_982},
]


def test_stages_without_a_score_are_no_point() -> None:
    panel = draw_size_quality(STAGES, candidates=[{"size_bytes": 5_000_000, "scores": {"bleu": 44.0}}])
    assert panel is not None
    assert [mark.name for mark in panel.marks] == ["", "original", "kmeans"]
    assert panel.summary == "From 18.6 MB with BLEU 46.78 to 4.76 MB with BLEU 45.42."
    # To the right on an axis of 20 MB from zero.
    left, _, right, _ = panel.plot
    assert panel.marks[1].x == pytest.approx(left + (right - left) * 18.603647 / 20)
    assert draw_size_quality(STAGES[2:]) is None
    assert draw_size_quality([]) is None


def test_a_lower_score_can_be_better() -> None:
    panel = draw_size_quality([{"stage": "original", "size_bytes": 900, "scores": {"perplexity": 0.0}}])
    assert panel is not None
    assert "lower is better" in panel.title


def test_sizes_for_people() -> None:
    assert [size_text(size) for size in (12, 570_000, 999_500, 3_671_982, 18_603_647)] == [
        "12 bytes",
        "570 KB",
        "1.00 MB",
        "3.67 MB",
        "18.6 MB",
    ]
