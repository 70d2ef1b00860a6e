import json
from pathlib import Path

import pytest

from lite_nlp.core.errors import OutputError
from lite_nlp.training.journal import Journal


def read_steps(path: Path) -> list[tuple[str, int]]:
    lines = (path / "log.jsonl").read_text().splitlines()
    return [(content["event"], content["step"]) for content in map(json.loads, lines)]


def test_figures_go_to_json_lines_and_tensorboard(tmp_path: Path) -> None:
    with Journal(tmp_path, step=0) as journal:
        journal.record("train", step=1, figures={"loss": 2.5})
        journal.record("valid", step=1, figures={"loss": 2.0})
    assert json.loads((tmp_path / "log.jsonl").read_text().splitlines()[0]) == {
        "event": "train",
        "step": 1,
        "loss": 2.5,
    }
    assert read_steps(tmp_path) == [("train", 1), ("valid", 1)]
    events = b"".join(path.read_bytes() for path in (tmp_path / "tensorboard").iterdir())
    assert b"train/loss" in events
    assert b"valid/loss" in events


def test_a_validation_draws_the_curves_of_the_whole_run(tmp_path: Path) -> None:
    def train(journal: Journal, steps: range) -> None:
        for step in steps:
            journal.record("train", step=step, figures={"loss": 9.0 - step, "tokens_per_second": 500.0})
        journal.record("valid", step=steps[-1], figures={"loss": 2.0, "nll": 1.5})

    run = tmp_path / "run"
    run.mkdir()
    with Journal(run, step=0) as journal:
        train(journal, range(1, 5))
        whole = (run / "curves.svg").read_text()
        train(journal, range(5, 8))
    with Journal(run, step=4) as journal:
        assert (run / "curves.svg").read_text() != whole
        train(journal, range(5, 8))
    resumed = (run / "curves.svg").read_text()
    for words in ("Training of run", "Loss, nats per target", "Validation perplexity", "Tokens per second"):
        assert words in resumed
    # What a run draws that was never stopped.
    other = tmp_path / "other" / "run"
    other.mkdir(parents=True)
    with Journal(other, step=0) as journal:
        train(journal, range(1, 5))
        train(journal, range(5, 8))
    assert (other / "curves.svg").read_text() == resumed


def test_what_came_after_the_checkpoint_is_removed(tmp_path: Path) -> None:
    with Journal(tmp_path, step=0) as journal:
        for step in range(1, 6):
            journal.record("train", step=step, figures={"loss": 1.0})
    with (tmp_path / "log.jsonl").open("a") as file:
        file.write('{"event": "train", "st')
    with Journal(tmp_path, step=3) as journal:
        journal.record("train", step=4, figures={"loss": 1.0})
    assert read_steps(tmp_path) == [("train", step) for step in (1, 2, 3, 4)]


def test_a_log_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "tensorboard").write_text("in the way")
    with pytest.raises(OutputError, match="the run's log could not be written"):
        Journal(tmp_path, step=0)
