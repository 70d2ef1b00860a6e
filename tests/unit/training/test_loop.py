"""Whole runs of a model so small that each takes a fraction of a second."""

import io
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
from lite_nlp.models.transformer import EncoderDecoder
from lite_nlp.training import sampling
from lite_nlp.training.loop import train

from .run_files import events, same, weights_at
from .tiny_task import MemorySplit, make_config, make_job, make_split


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
