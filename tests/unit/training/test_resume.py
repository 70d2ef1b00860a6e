"""Runs that are cut short, killed or damaged go on as if they had been left alone."""

import io
import itertools
import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from rich.console import Console

from lite_nlp.artifacts.directory import load_model_directory, model_from_state
from lite_nlp.core.errors import TrainingError
from lite_nlp.data.pairs.batches import Batch
from lite_nlp.training import batching
from lite_nlp.training.checkpoints import Checkpoint, CheckpointStore
from lite_nlp.training.loop import TrainingJob, train
from lite_nlp.training.stepper import StepFigures, Stepper

from .run_files import events, same, weights_at
from .tiny_task import make_config, make_job, make_split


@pytest.mark.parametrize("end", [3, 4, 5])
def test_a_run_cut_short_and_resumed_is_the_run_undisturbed(tmp_path: Path, accelerator: Accelerator, end: int) -> None:
    whole, parts, scores = tmp_path / "whole", tmp_path / "parts", itertools.count()

    def run(out: Path, max_steps: int, **options: Any) -> dict[str, Any]:
        # What is scored last is best, so that the mean is kept.
        config = make_config(max_steps=max_steps, average_checkpoints=5, validate_metric="bleu")
        evaluate = {"bleu": lambda model: float(next(scores))}
        return train(make_job(out, config, evaluate=evaluate, **options), accelerator)

    metrics = run(whole, 9)
    run(parts, end)
    resumed = run(parts, 9, resume=True)
    assert same(weights_at(whole, 9), weights_at(parts, 9))
    # Step 9, the end of the run, and the steps where validations were due; not 3 or 5, where a call ended.
    assert metrics["weights"] == resumed["weights"] == {"made_of": "average", "steps": [2, 4, 6, 8, 9]}
    assert (whole / "model.safetensors").read_bytes() == (parts / "model.safetensors").read_bytes()
    figures = [[(line["step"], line["loss"]) for line in events(out, "train")] for out in (whole, parts)]
    assert figures[0] == figures[1]


def test_resuming_what_has_no_checkpoint_begins(tmp_path: Path, accelerator: Accelerator) -> None:
    output = io.StringIO()
    job = make_job(tmp_path / "run", make_config(), resume=True, console=Console(file=output, width=200))
    assert train(job, accelerator)["steps"] == 6
    assert "no checkpoint yet, training starts at step 1" in output.getvalue()


def test_resuming_overwrites_no_model_that_has_lost_its_checkpoints(tmp_path: Path, accelerator: Accelerator) -> None:
    out = tmp_path / "run"
    train(make_job(out, make_config()), accelerator)
    shutil.rmtree(out / "checkpoints")
    metrics = json.loads((out / "metrics.json").read_text())
    # As a run leaves it, as a conversion does, and damaged.
    for content in (metrics, {"converted": "t2r"}, None):
        (out / "metrics.json").write_text("damaged" if content is None else json.dumps(content))
        before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
        with pytest.raises(
            TrainingError, match=r"run: expected checkpoints to resume from, found a model.*--init-from.*--force starts"
        ):
            train(make_job(out, make_config(), resume=True), accelerator)
        assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_a_run_killed_between_its_first_model_and_checkpoint_is_resumed(
    tmp_path: Path, accelerator: Accelerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = CheckpointStore.save

    def kill(store: CheckpointStore, checkpoint: Checkpoint) -> None:
        if checkpoint.state.step > 0:
            raise KeyboardInterrupt
        save(store, checkpoint)

    out, config = tmp_path / "run", make_config(checkpoint_every_steps=1000)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(CheckpointStore, "save", kill)
        train(make_job(out, config), accelerator)
    assert (out / "model.safetensors").exists()
    assert train(make_job(out, config, resume=True), accelerator)["steps"] == 6


def test_a_run_killed_in_its_first_step_goes_on_as_the_same_run(
    tmp_path: Path, accelerator: Accelerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    def start(name: str, **options: Any) -> TrainingJob[Any]:
        return make_job(tmp_path / name, make_config(), **options)

    first = start("whole", init_sha256="of other weights")
    with torch.no_grad():
        next(first.model.parameters()).mul_(2)
    begun = {name: value.clone() for name, value in first.model.state_dict().items()}
    train(first, accelerator)
    cut = start("cut", init_sha256="of other weights")
    cut.model.load_state_dict(begun)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Stepper, "take", kill)
        train(cut, accelerator)
    # Neither the weights that it began with nor the config are asked for again, and another config is refused.
    with pytest.raises(TrainingError, match=r"config\.training\.learning_rate was 0\.01, is 0\.02"):
        train(make_job(tmp_path / "cut", make_config(learning_rate=0.02), resume=True), accelerator)
    train(start("cut", resume=True), accelerator)
    assert same(weights_at(tmp_path / "whole", 6), weights_at(tmp_path / "cut", 6))
    # What is resumed without its first weights may be resumed with them again, and not with others.
    train(start("cut", resume=True, init_sha256="of other weights"), accelerator)
    with pytest.raises(TrainingError, match="init_from was 'of other weights', is 'of none'"):
        train(start("cut", resume=True, init_sha256="of none"), accelerator)


def test_a_run_that_has_more_steps_than_it_is_to_have_says_so(tmp_path: Path, accelerator: Accelerator) -> None:
    train(make_job(tmp_path / "run", make_config()), accelerator)
    output = io.StringIO()
    config = make_config(max_steps=4)
    train(make_job(tmp_path / "run", config, resume=True, console=Console(file=output, width=500)), accelerator)
    assert "expected at most training.max_steps=4 steps, found 6 taken already" in output.getvalue()


def test_resuming_another_run_is_refused(tmp_path: Path, accelerator: Accelerator) -> None:
    train(make_job(tmp_path / "run", make_config()), accelerator)
    with pytest.raises(TrainingError, match=r"config\.training\.learning_rate was 0\.01, is 0\.02"):
        train(make_job(tmp_path / "run", make_config(learning_rate=0.02), resume=True), accelerator)
    with pytest.raises(TrainingError, match=r"data\.train_pairs was 60, is 50"):
        train(make_job(tmp_path / "run", make_config(), train=make_split(50, seed=1), resume=True), accelerator)
    with pytest.raises(TrainingError, match=r"data\.tokenizer_sha256 was"):
        train(make_job(tmp_path / "run", make_config(), tokenizer_json=b"[]", resume=True), accelerator)


def test_a_damaged_checkpoint_costs_the_steps_since_the_one_before(tmp_path: Path, accelerator: Accelerator) -> None:
    train(make_job(tmp_path / "run", make_config()), accelerator)
    before = weights_at(tmp_path / "run", 6)
    path = tmp_path / "run" / "checkpoints" / "step-00000006" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    output = io.StringIO()
    job = make_job(tmp_path / "run", make_config(), resume=True, console=Console(file=output, width=500))
    train(job, accelerator)
    assert "skipping a damaged checkpoint" in output.getvalue()
    assert "resuming after step 4" in output.getvalue()
    assert same(before, weights_at(tmp_path / "run", 6))


@pytest.mark.parametrize("scores", [[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [1.0, 9.0, 3.0, 4.0, 5.0, 6.0]])
def test_damage_to_what_is_averaged_or_best_does_not_keep_a_run_from_its_end(
    tmp_path: Path, accelerator: Accelerator, scores: list[float]
) -> None:
    given = iter(scores)
    evaluate = {"bleu": lambda model: next(given)}
    out, options = tmp_path / "run", {"average_checkpoints": 3, "validate_metric": "bleu"}
    train(make_job(out, make_config(**options), evaluate=evaluate), accelerator)
    (out / "checkpoints" / "step-00000004" / "model.safetensors").write_bytes(b"damaged")
    output = io.StringIO()
    console = Console(file=output, width=500)
    job = make_job(out, make_config(max_steps=8, **options), evaluate=evaluate, resume=True, console=console)
    # The mean of the last two scored 6.0; step 4 was among the last three, and in the second case the best.
    assert train(job, accelerator)["weights"] == {"made_of": "average", "steps": [6, 8]}
    assert "skipping a damaged checkpoint" in output.getvalue()


def test_the_time_ends_a_run_as_the_last_step_does_and_it_can_go_on(tmp_path: Path, accelerator: Accelerator) -> None:
    config = make_config(max_steps=9, validate_every_steps=0, checkpoint_every_steps=1000, average_checkpoints=1)
    train(make_job(tmp_path / "whole", config), accelerator)
    # So short a time is over when the first step begins.
    metrics = train(make_job(tmp_path / "run", config, max_minutes=1e-9), accelerator)
    assert (metrics["ended_by"], metrics["steps"]) == ("max_minutes", 1)
    saved = load_model_directory(tmp_path / "run")
    model_from_state(saved.config, saved.state, source="the run")
    assert saved.metrics == metrics
    assert same(saved.state, weights_at(tmp_path / "run", 1))
    # The time of the first call does not count in the second.
    metrics = train(make_job(tmp_path / "run", config, resume=True, max_minutes=5), accelerator)
    assert (metrics["ended_by"], metrics["steps"]) == ("max_steps", 9)
    assert same(weights_at(tmp_path / "whole", 9), weights_at(tmp_path / "run", 9))


def test_a_run_of_many_short_calls_stops_early_where_one_call_does(tmp_path: Path, accelerator: Accelerator) -> None:
    # Worse at every step: of the validations that are due, every fourth step, the first is the best.
    def loss(out: Path, **options: Any) -> dict[str, Any]:
        config = make_config(
            max_steps=100, validate_every_steps=4, patience=2, average_checkpoints=2, validate_metric="bleu"
        )
        return train(
            make_job(out, config, evaluate={"bleu": lambda model: -len(events(out, "train"))}, **options), accelerator
        )

    whole = loss(tmp_path / "whole")
    calls = [loss(tmp_path / "parts", resume=True, max_minutes=1e-9)]
    while calls[-1]["ended_by"] == "max_minutes":
        calls.append(loss(tmp_path / "parts", resume=True, max_minutes=1e-9))
    assert [call["steps"] for call in calls] == list(range(1, 13))
    assert (whole["ended_by"], whole["steps"], whole["best_checkpoint"]["step"]) == ("early_stopping", 12, 4)
    for key in ("ended_by", "steps", "weights", "valid", "best_checkpoint"):
        assert calls[-1][key] == whole[key], key
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "parts")]
    assert weights[0] == weights[1]
    # The first call's own end is what its model was made of.
    assert calls[0]["best_checkpoint"]["step"] == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_with_a_checkpoint(
    tmp_path: Path, accelerator: Accelerator, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    collate = batching.collate
    loads = iter(range(100))

    def load_then_signal(*arguments: object) -> object:
        if next(loads) == 3:
            os.kill(os.getpid(), number)
        return collate(*arguments)  # type: ignore[arg-type]

    config = make_config(checkpoint_every_steps=1000, validate_every_steps=1000, max_steps=20)
    train(make_job(tmp_path / "whole", config), accelerator)
    monkeypatch.setattr(batching, "collate", load_then_signal)
    with pytest.raises(
        TrainingError, match=rf"stopped by {number.name} after step \d+; a checkpoint was written.*--resume"
    ):
        train(make_job(tmp_path / "run", config), accelerator)
    (name,) = [path.name for path in (tmp_path / "run" / "checkpoints").iterdir()]
    assert 0 < int(name.removeprefix("step-")) < 20
    train(make_job(tmp_path / "run", config, resume=True), accelerator)
    assert same(weights_at(tmp_path / "whole", 20), weights_at(tmp_path / "run", 20))


@pytest.mark.parametrize("every", [2, 1000])
def test_a_run_resumed_at_its_end_is_validated_there(
    tmp_path: Path, accelerator: Accelerator, monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    take = Stepper.take

    def stop(stepper: Stepper[Batch], step: int, *rest: Any, **options: Any) -> StepFigures:
        return take(stepper, step, *rest, **options)._replace(stopping=step == 3)

    def run(out: Path, max_steps: int, **options: Any) -> dict[str, Any]:
        config = make_config(max_steps=max_steps, validate_every_steps=every, validate_metric="bleu")
        # All alike, so that the mean of all is kept.
        return train(make_job(out, config, evaluate={"bleu": lambda model: 1.0}, **options), accelerator)

    with monkeypatch.context() as patch, pytest.raises(TrainingError, match="after step 3"):
        patch.setattr(Stepper, "take", stop)
        run(parts, 9)
    metrics = [run(whole, 3), run(parts, 3, resume=True)]
    for key in ("ended_by", "steps", "weights", "valid", "best_checkpoint"):
        assert metrics[0][key] == metrics[1][key], key
    assert metrics[1]["weights"]["steps"][-1] == 3
    assert (whole / "model.safetensors").read_bytes() == (parts / "model.safetensors").read_bytes()
    # Once more there is nothing to be done.
    before = events(parts, "valid")
    run(parts, 3, resume=True)
    assert events(parts, "valid") == before == events(whole, "valid")
