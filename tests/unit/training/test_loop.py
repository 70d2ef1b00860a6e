"""Whole runs of a model so small that each takes a fraction of a second."""

import io
import itertools
import json
import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from rich.console import Console
from safetensors.torch import load
from torch import nn

from lite_nlp.artifacts.directory import load_model_directory, model_from_state
from lite_nlp.core.errors import OutputError, TrainingError
from lite_nlp.data.pairs.batches import Batch
from lite_nlp.models.transformer import EncoderDecoder
from lite_nlp.training import batching, sampling
from lite_nlp.training.checkpoints import Checkpoint, CheckpointStore
from lite_nlp.training.loop import TrainingJob, train
from lite_nlp.training.stepper import StepFigures, Stepper

from .tiny_task import MemorySplit, make_config, make_job, make_split


def weights_at(out: Path, step: int) -> dict[str, torch.Tensor]:
    return load((out / "checkpoints" / f"step-{step:08d}" / "model.safetensors").read_bytes())


def events(out: Path, event: str) -> list[dict[str, float]]:
    lines = map(json.loads, (out / "log.jsonl").read_text().splitlines())
    return [line for line in lines if line["event"] == event]


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_a_run_learns_and_leaves_a_model_directory(tmp_path: Path, accelerator: Accelerator) -> None:
    metrics = train(make_job(tmp_path / "run", make_config(max_steps=60, validate_every_steps=20)), accelerator)
    saved = load_model_directory(tmp_path / "run")
    model_from_state(saved.config, saved.state, source="the run")
    assert saved.metrics == metrics
    assert saved.tokenizer_json == b"{}"
    validations = events(tmp_path / "run", "valid")
    # A uniform guess among 12 types costs log(12) = 2.48 nats; 60 steps learn part of the task.
    assert metrics["valid"]["nll"] < 2.0
    assert validations[-1]["loss"] < validations[0]["loss"]
    assert (metrics["ended_by"], metrics["steps"]) == ("max_steps", 60)
    assert metrics["valid"]["perplexity"] == pytest.approx(torch.tensor(metrics["valid"]["nll"]).exp().item(), rel=1e-4)
    assert len(events(tmp_path / "run", "train")) == 60
    curves = (tmp_path / "run" / "curves.svg").read_text(encoding="utf-8")
    for row in validations:
        assert f"validation at step {row['step']}: {row['loss']:.3f}" in curves


def test_a_sample_is_scored_for_the_curves_alone(
    tmp_path: Path, accelerator: Accelerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling, "_SHARE", 1e9)
    scores = iter([12.5, 25.0, 20.0])
    job = make_job(tmp_path / "run", make_config(max_steps=6), evaluate={"bleu": lambda model: next(scores)})
    metrics = train(job, accelerator)
    assert [line["sample_bleu"] for line in events(tmp_path / "run", "valid")] == [12.5, 25.0, 20.0]
    assert "BLEU at step 4: 25.00" in (tmp_path / "run" / "curves.svg").read_text(encoding="utf-8")
    # It decides nothing, and is no score of the model.
    assert not any("bleu" in name for name in metrics["valid"])
    assert train(make_job(tmp_path / "other", make_config(max_steps=6)), accelerator)["valid"] == metrics["valid"]


def test_an_epoch_reads_every_row_once(tmp_path: Path, accelerator: Accelerator) -> None:
    split = make_split(60, seed=1)
    config = make_config(max_epochs=2, max_steps=1000, gradient_accumulation=3)
    metrics = train(make_job(tmp_path / "run", config, train=split), accelerator)
    assert sorted(split.read) == sorted(2 * list(range(60)))
    # Tokens and an end mark per row, in both epochs.
    assert metrics["tgt_tokens"] == 2 * (int(split.tgt_lengths.sum()) + 60)
    assert (metrics["ended_by"], metrics["epochs"]) == ("max_epochs", 2)


def test_a_step_is_normalised_by_its_own_tokens(tmp_path: Path, accelerator: Accelerator) -> None:
    """Many batches in one step give the gradient of their tokens together, as one big batch does."""
    whole = make_config(max_steps=1, batch_tokens=100_000)
    small = make_config(max_steps=1, batch_tokens=64, gradient_accumulation=100)
    for name, config in (("whole", whole), ("small", small)):
        # Without dropout the two are the same sum.
        still = config.model_copy(update={"model": config.model.model_copy(update={"dropout": 0.0})})
        train(make_job(tmp_path / name, still), accelerator)
    (one,), (other,) = events(tmp_path / "whole", "train"), events(tmp_path / "small", "train")
    assert one["loss"] == pytest.approx(other["loss"], rel=1e-5)
    assert one["gradient_norm"] == pytest.approx(other["gradient_norm"], rel=1e-4)


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


def test_an_existing_run_is_not_overwritten_unless_asked(tmp_path: Path, accelerator: Accelerator) -> None:
    out = tmp_path / "run"
    train(make_job(out, make_config()), accelerator)
    (out / "notes.txt").write_text("mine")
    with pytest.raises(OutputError, match=r"output exists already.*or --resume to continue the run in it"):
        train(make_job(out, make_config()), accelerator)
    train(make_job(out, make_config(max_steps=2), force=True), accelerator)
    assert [path.name for path in (out / "checkpoints").iterdir()] == ["step-00000002"]
    assert [line["step"] for line in events(out, "train")] == [1, 2]
    assert (out / "notes.txt").read_text() == "mine"


def test_old_checkpoints_go_and_the_averaged_and_the_best_stay(tmp_path: Path, accelerator: Accelerator) -> None:
    scores = iter([5.0, 9.0, 3.0, 2.0, 1.0, 0.0])
    config = make_config(max_steps=10, validate_metric="bleu")
    metrics = train(make_job(tmp_path / "run", config, evaluate={"bleu": lambda model: next(scores)}), accelerator)
    names = sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir())
    assert names == ["step-00000004", "step-00000008", "step-00000010"]
    # The mean of the last two scored 0.0, the checkpoint of step 4 scored 9.0.
    assert metrics["weights"] == {"made_of": "checkpoint", "steps": [4]}
    assert metrics["valid"]["bleu"] == metrics["best_checkpoint"]["bleu"] == 9.0
    assert same(load((tmp_path / "run" / "model.safetensors").read_bytes()), weights_at(tmp_path / "run", 4))


def test_the_final_weights_are_the_mean_of_the_last_validated(tmp_path: Path, accelerator: Accelerator) -> None:
    scores = iter([1.0, 2.0, 3.0, 4.0])
    config = make_config(max_steps=6, validate_metric="bleu")
    metrics = train(make_job(tmp_path / "run", config, evaluate={"bleu": lambda model: next(scores)}), accelerator)
    assert metrics["weights"] == {"made_of": "average", "steps": [4, 6]}
    final = load((tmp_path / "run" / "model.safetensors").read_bytes())
    one, other = weights_at(tmp_path / "run", 4), weights_at(tmp_path / "run", 6)
    for name, tensor in final.items():
        torch.testing.assert_close(tensor, (one[name] + other[name]) / 2)


def test_early_stopping_waits_for_its_patience(tmp_path: Path, accelerator: Accelerator) -> None:
    scores = iter([5.0, 4.0, 6.0, 3.0, 2.0, 9.0])
    in_training: list[bool] = []

    def evaluate(model: EncoderDecoder) -> float:
        in_training.append(model.training)
        return next(scores)

    config = make_config(max_steps=100, validate_metric="bleu", patience=2)
    metrics = train(make_job(tmp_path / "run", config, evaluate={"bleu": evaluate}), accelerator)
    assert (metrics["ended_by"], metrics["steps"]) == ("early_stopping", 10)
    assert not any(in_training)


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


def test_the_judge_sees_the_final_model_and_its_words_are_kept(tmp_path: Path, accelerator: Accelerator) -> None:
    judged: list[dict[str, torch.Tensor]] = []

    def judge(model: nn.Module, metrics: Mapping[str, Any], losses: Sequence[float]) -> list[str]:
        assert not model.training
        assert list(losses) == [line["loss"] for line in events(tmp_path / "run", "valid")]
        judged.append({name: tensor.clone() for name, tensor in model.state_dict().items()})
        return [f"after {metrics['steps']} steps"]

    metrics = train(make_job(tmp_path / "run", make_config(), judge=judge), accelerator)
    assert metrics["warnings"] == ["after 6 steps"]
    saved = load_model_directory(tmp_path / "run")
    assert saved.metrics == metrics
    (seen,) = judged
    assert same(seen, saved.state)


def test_the_model_is_usable_after_the_first_validation(tmp_path: Path, accelerator: Accelerator) -> None:
    out = tmp_path / "run"

    def evaluate(model: EncoderDecoder) -> float:
        if (out / "metrics.json").exists():
            saved = load_model_directory(out)
            model_from_state(saved.config, saved.state, source="the run")
            assert saved.metrics["ended_by"] is None
            assert saved.metrics["weights"] == {"made_of": "checkpoint", "steps": [2]}
            raise KeyboardInterrupt
        return 1.0

    with pytest.raises(KeyboardInterrupt):
        train(make_job(out, make_config(validate_metric="bleu"), evaluate={"bleu": evaluate}), accelerator)
    assert (out / "metrics.json").exists()


def test_bleu_without_a_way_to_measure_it_is_refused(tmp_path: Path, accelerator: Accelerator) -> None:
    with pytest.raises(TrainingError, match="validate_metric: expected loss with this task and data, found bleu"):
        train(make_job(tmp_path / "run", make_config(validate_metric="bleu")), accelerator)


def test_a_loss_that_is_not_finite_ends_the_run(tmp_path: Path, accelerator: Accelerator) -> None:
    job = make_job(tmp_path / "run", make_config())
    with torch.no_grad():
        next(job.model.parameters()).fill_(float("inf"))
    with pytest.raises(TrainingError, match=r"step 1: expected a finite loss.*found loss nan.*learning_rate"):
        train(job, accelerator)


def test_weights_that_a_step_has_made_useless_are_neither_kept_nor_validated(
    tmp_path: Path, accelerator: Accelerator
) -> None:
    # The first step's own loss and gradient are finite, and no other comes before the validation.
    job = make_job(tmp_path / "run", make_config(learning_rate=1e30, warmup_steps=0, max_steps=1))
    with pytest.raises(TrainingError, match=r"step 1: expected a finite validation loss, found nan; .*learning_rate"):
        train(job, accelerator)
    assert {path.parent.name for path in (tmp_path / "run").rglob("*.safetensors")} == {"step-00000000"}


def test_data_without_a_usable_pair_is_refused(tmp_path: Path, accelerator: Accelerator) -> None:
    config = make_config()
    config = config.model_copy(update={"model": config.model.model_copy(update={"max_positions": 1000})})
    with pytest.raises(TrainingError, match=r"training split: expected at least one pair of at most 256 tokens"):
        train(make_job(tmp_path / "run", config, train=make_split(0, seed=1)), accelerator)
    too_long = MemorySplit([make_split(1, seed=1).src[0].repeat(40)], [make_split(1, seed=1).src[0]])
    # 32 positions hold 31 tokens and the end mark.
    with pytest.raises(TrainingError, match=r"validation split: .* at most 31 tokens a side, found none \(1 longer\)"):
        train(make_job(tmp_path / "run", make_config(), valid=too_long), accelerator)


def test_pairs_left_out_are_counted(tmp_path: Path, accelerator: Accelerator) -> None:
    output = io.StringIO()
    console = Console(file=output, width=200)
    metrics = train(make_job(tmp_path / "run", make_config(max_tokens=3), console=console), accelerator)
    left_out = int((make_split(60, seed=1).src_lengths > 3).sum())
    assert f"training split: {left_out} of 60 pairs left out, longer than 3 tokens" in output.getvalue()
    assert metrics["train_pairs"] == 60 - left_out


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


@pytest.mark.parametrize(
    ("precision", "units", "warned"),
    [("bf16", False, True), ("bf16", True, False), ("fp32", False, False)],
    ids=["emulated", "native", "not-used"],
)
def test_bf16_on_a_processor_without_it_is_warned_of(
    tmp_path: Path,
    accelerator: Accelerator,
    monkeypatch: pytest.MonkeyPatch,
    precision: str,
    units: bool,
    warned: bool,
) -> None:
    monkeypatch.setattr("lite_nlp.training.loop.has_bf16_units", lambda: units)
    output = io.StringIO()
    console = Console(file=output, width=80)
    train(make_job(tmp_path / "run", make_config(max_steps=1, precision=precision), console=console), accelerator)
    assert ("--set training.precision=fp32\n" in output.getvalue()) is warned
