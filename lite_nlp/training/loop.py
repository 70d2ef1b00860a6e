"""The training loop: steps over all processes, validation, checkpoints, and the final weights."""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from accelerate import Accelerator
from rich.console import Console
from torch import nn

from lite_nlp.config.preset import Config
from lite_nlp.core.errors import TrainingError
from lite_nlp.core.files import sha256_bytes
from lite_nlp.training.arithmetic import fast_arithmetic, has_bf16_units
from lite_nlp.training.batching import Work, deal, load_ahead
from lite_nlp.training.checkpoints import Checkpoint, skip_damaged
from lite_nlp.training.interruption import StopSignal, TimeLimit
from lite_nlp.training.journal import Journal
from lite_nlp.training.memory import kept_memory
from lite_nlp.training.objective import Batches, Objective, SplitChoice
from lite_nlp.training.optimizer import load_optimizer_state, optimizer_state
from lite_nlp.training.processes import share_weights, sum_over_processes
from lite_nlp.training.progress import TrainingProgress
from lite_nlp.training.rehearsal import choose_threads
from lite_nlp.training.run_directory import RunDirectory
from lite_nlp.training.sampling import ScoreSamples
from lite_nlp.training.state import RunIdentity, RunState, Validation
from lite_nlp.training.stepper import DIVERGED, Stepper
from lite_nlp.training.threads import threads_restored
from lite_nlp.training.validation import check_metric, validation_loss

__all__ = ["TrainingJob", "train"]

B = TypeVar("B")


@dataclass(frozen=True, kw_only=True)
class TrainingJob(Generic[B]):
    """Model, data and destination of a training run.

    Attributes:
        config: Model and training settings; ``config.model`` fits the tokenizer.
        model: Trained in place.
        objective: The data, the loss and the validation scores.
        tokenizer_json: The tokenizer file's bytes, copied beside the weights.
        data_sha256: A digest of the data, by which a resumed run knows its own; None compares their figures alone.
        out: The run's directory.
        console: For progress and warnings; the processes other than the first are silent.
        resume: Resume the run in ``out``; without a checkpoint and a finished model, begin at the first step.
        force: Overwrite the run in ``out``.
        threads: Threads of each process; None chooses them by a measurement, or resumes with those of the run.
        max_minutes: Wall time after which this call ends the run; None sets no limit.
        init_sha256: Digest of the model whose weights ``model`` begins with; None without one.
        judge: Receives the final model, its metrics and the losses of all validations, and returns warnings for
            ``metrics.json``; called in the first process.
    """

    config: Config
    model: nn.Module
    objective: Objective[B]
    tokenizer_json: bytes
    out: Path
    console: Console
    data_sha256: str | None = None
    resume: bool = False
    force: bool = False
    threads: int | None = None
    max_minutes: float | None = None
    init_sha256: str | None = None
    judge: Callable[[nn.Module, Mapping[str, Any], Sequence[float]], Sequence[str]] = lambda *_: ()


def train(job: TrainingJob[B], accelerator: Accelerator) -> dict[str, Any]:
    """Train until the end that the config sets, and leave a model directory in ``job.out``.

    Every process calls this with an equal job. A run that is killed and called again with ``resume`` gives the weights
    of an uninterrupted run: bit for bit on a CPU with the same number of threads.

    Args:
        job: Model, data and destination.
        accelerator: From ``start_processes``.

    Returns:
        The content of ``metrics.json``.

    Raises:
        TrainingError: If there is nothing to train on, the loss is not finite, the run in ``job.out`` is another
            one or has a finished model and no checkpoint, or a signal stopped the run, after writing a checkpoint.
        OutputError: If ``job.out`` has content already, or a write fails.
    """
    with threads_restored(), fast_arithmetic(accelerator.device), kept_memory(accelerator.device):
        return _Trainer(job, accelerator).run()


class _Trainer(Generic[B]):
    def __init__(self, job: TrainingJob[B], accelerator: Accelerator) -> None:
        self.job = job
        self.objective = job.objective
        self.accelerator = accelerator
        self.config = job.config.training
        check_metric(self.objective, self.config)
        self.console = job.console if accelerator.is_main_process else Console(quiet=True)
        self.train_batches = self._batches("train", batches=self.config.gradient_accumulation)
        self.valid_batches = self._batches("valid", batches=1)
        self.total_steps = min(self.config.max_steps, self.config.max_epochs * len(self.train_batches.steps(0)))
        self.identity = RunIdentity.of(
            job.config,
            data={
                "sha256": job.data_sha256,
                "tokenizer_sha256": sha256_bytes(job.tokenizer_json),
                **self.objective.fingerprint(),
            },
            batches_per_step=self.train_batches.batches_per_step,
            init_from=job.init_sha256,
        )
        self.directory = RunDirectory(job.out, config=job.config, tokenizer_json=job.tokenizer_json)
        self.model = job.model.to(accelerator.device).train()
        self.stepper = Stepper(
            self.model,
            objective=self.objective,
            config=self.config,
            accelerator=accelerator,
            total_steps=self.total_steps,
        )
        self.state = RunState()
        self.limit = TimeLimit(None)
        self.out_of_time = False
        self.journal: Journal | None = None
        self.samples = ScoreSamples(self.objective)

    def run(self) -> dict[str, Any]:
        main = self.accelerator.is_main_process
        with self.directory.open(resume=self.job.resume, force=self.job.force) if main else nullcontext():
            return self._run()

    def _run(self) -> dict[str, Any]:
        self.accelerator.wait_for_everyone()
        if self.job.resume:
            self._restore()
        share_weights(self.accelerator, self.model)
        if self._end() is None:
            self._set_threads()
            self._warn_of_precision()
        self.sitting = time.monotonic() - self.state.seconds
        self.limit = TimeLimit(self.job.max_minutes)
        if self.state.step == 0:
            # A run that is killed before its first validation goes on from the same weights, and as the same run.
            self._save(improved=False)
        progress = TrainingProgress(
            console=self.console, total_steps=self.total_steps, step=self.state.step, limit=self.limit
        )
        main = self.accelerator.is_main_process
        with Journal(self.job.out, step=self.state.step) if main else nullcontext() as self.journal, progress:
            with StopSignal() as stop:
                while self._end() is None:
                    self._run_epoch(progress, stop)
            # A run that stopped between two validations may be resumed at what is now its end: it takes no step here.
            if [validation.step for validation in self.state.all_validations[-1:]] != [self.state.step]:
                self._after_step(progress, epoch_ended=False, stopping=False)
            return self._finish()

    def _end(self) -> str | None:
        """The reason why this call is to end, or None; a run that only its time has ended can be resumed."""
        return self.state.end(self.config) or ("max_minutes" if self.out_of_time else None)

    def _set_threads(self) -> None:
        """Choose the number of threads; a resumed run keeps its own, so that its weights are the same bit for bit."""
        choice = choose_threads(
            self.stepper,
            self.train_batches,
            self.train_batches.steps(self.state.epoch)[self.state.step_in_epoch],
            accelerator=self.accelerator,
            asked=self.job.threads,
            before=self.state.threads,
        )
        self.state.threads = choice.threads
        self.console.print(choice.describe("tokens"), markup=False)

    def _warn_of_precision(self) -> None:
        """Warn of bf16 on a processor that has to emulate it, which has taken 13 times as long as fp32."""
        bf16 = self.config.precision == "bf16"
        if bf16 and self.accelerator.device.type == "cpu" and not has_bf16_units():
            self.console.print(
                "warning: training.precision=bf16: this processor has no instructions for it (avx512_bf16 or amx_bf16) "
                "and may take ten times as long as with --set training.precision=fp32",
                markup=False,
                soft_wrap=True,
            )

    def _batches(self, split: SplitChoice, *, batches: int) -> Batches[B]:
        """The batches of a split, ``batches`` per step and process; prints what is left out of the split."""
        return self.objective.batches(
            split,
            batches_per_step=self.accelerator.num_processes * batches,
            say=lambda text: self.console.print(text, markup=False),
        )

    def _restore(self) -> None:
        checkpoint = self.directory.load_latest(self._warn)
        if checkpoint is None:
            self.console.print(f"{self.job.out}: no checkpoint yet, training starts at step 1", markup=False)
            return
        self.identity.check_resumable(checkpoint.identity)
        self.model.load_state_dict(dict(checkpoint.model))
        load_optimizer_state(self.stepper.optimizer, self.model, checkpoint.optimizer)
        self.state = checkpoint.state
        # The weights that it began with need not be named again, and are not forgotten.
        self.identity = self.identity.model_copy(update={"init_from": checkpoint.identity.init_from})
        self.console.print(f"resuming after step {self.state.step}")
        if self.state.step > self.config.max_steps:
            self.console.print(
                f"warning: expected at most training.max_steps={self.config.max_steps} steps, found {self.state.step} "
                "taken already: the run is at its end",
                markup=False,
            )

    def _run_epoch(self, progress: TrainingProgress, stop: StopSignal) -> None:
        """Take the remaining steps of the current epoch, or those up to the end of the run."""
        steps = self.train_batches.steps(self.state.epoch)
        for loaded in self._load(steps[self.state.step_in_epoch :]):
            begin = time.monotonic()
            figures = self.stepper.take(
                self.state.step + 1, loaded, stopping=stop.name is not None, out_of_time=self.limit.passed
            )
            seconds = time.monotonic() - begin
            epoch_ended = self.state.add_step(
                figures.src_tokens, figures.tgt_tokens, seconds, steps_of_epoch=len(steps)
            )
            self.out_of_time = figures.out_of_time
            tokens = figures.src_tokens + figures.tgt_tokens
            progress.advance(loss=figures.loss, tokens=tokens, seconds=seconds)
            self._record(
                "train",
                loss=figures.loss,
                nll=figures.nll,
                gradient_norm=figures.gradient_norm,
                learning_rate=figures.learning_rate,
                tokens_per_second=tokens / seconds,
            )
            self._after_step(progress, epoch_ended=epoch_ended, stopping=figures.stopping)
            if figures.stopping:
                raise TrainingError(
                    f"stopped by {stop.name or 'a signal to another process'} after step {self.state.step}; a"
                    " checkpoint was written: the same command with --resume continues from there"
                )
            if self._end() is not None:
                return

    def _load(self, steps: list[list[Work]]) -> Iterator[list[tuple[Work, B]]]:
        process, processes = self.accelerator.process_index, self.accelerator.num_processes
        epoch = self.state.epoch

        def load(step: list[Work]) -> list[tuple[Work, B]]:
            mine = deal(step, process=process, processes=processes)
            return [(work, self.train_batches.load(work.rows, epoch)) for work in mine]

        return load_ahead(load, steps)

    def _after_step(self, progress: TrainingProgress, *, epoch_ended: bool, stopping: bool) -> None:
        every = self.config.validate_every_steps
        due = self.state.step % every == 0 if every else epoch_ended
        improved = False
        if due or self._end() is not None:
            validation = self._validate()
            add = self.state.add_validation if due else self.state.close
            improved = add(validation, metric=self.config.validate_metric)
            self._record("valid", **validation.model_dump(exclude={"step"}, exclude_none=True), **self._sample())
            progress.note(self._describe(validation, improved=improved))
            due = True
        if due or stopping or self.state.step % self.config.checkpoint_every_steps == 0:
            self._save(improved=improved)

    def _validate(self) -> Validation:
        """Validation scores of the current weights.

        Raises:
            TrainingError: If the loss is not finite: the step before has made the weights useless.
        """
        loss, nll = validation_loss(self.model, self.objective, self.valid_batches, accelerator=self.accelerator)
        if not (math.isfinite(loss) and math.isfinite(nll)):
            raise TrainingError(
                f"step {self.state.step}: expected a finite validation loss, found {loss:g}; {DIVERGED}"
            )
        measures: dict[str, float] = {}
        # Other scores take longer than the loss and are measured on the whole split only if they decide.
        if self.config.validate_metric != "loss":
            self.model.eval()
            found = self.objective.measure(self.model) if self.accelerator.is_main_process else {}
            self.model.train()
            names = self.objective.measures
            scores = sum_over_processes(self.accelerator, [found.get(name, 0.0) for name in names])
            measures = dict(zip(names, scores, strict=True))
        return Validation(step=self.state.step, loss=loss, nll=nll, **measures)

    def _sample(self) -> dict[str, float]:
        """Scores for the curves where the loss decides; the other processes wait at their next step."""
        if self.config.validate_metric != "loss" or not self.accelerator.is_main_process:
            return {}
        return self.samples.take(self.model, training_seconds=self.state.training_seconds)

    def _save(self, *, improved: bool) -> None:
        self.state.seconds = time.monotonic() - self.sitting
        if not self.accelerator.is_main_process:
            return
        checkpoint = Checkpoint(
            model=self.model.state_dict(),
            optimizer=optimizer_state(self.stepper.optimizer, self.model),
            state=self.state,
            identity=self.identity,
        )
        # The model is written first: a run killed in between repeats these steps and writes the same model.
        best = self.state.best_of_all(self.config.validate_metric)
        if improved and best is not None:
            weights = {"made_of": "checkpoint", "steps": [self.state.step]}
            self.directory.save_model(checkpoint.model, self._metrics(best, weights=weights))
        self.directory.checkpoints.save(checkpoint)
        self.directory.prune(self.state)

    def _finish(self) -> dict[str, Any]:
        """Write the mean of the latest validated checkpoints as the model, or the best one if the mean is worse."""
        best = self.state.best_of_all(self.config.validate_metric)
        if best is None:
            raise TrainingError(f"{self.job.out}: expected at least one validation, found a run that ended without")
        store = self.directory.checkpoints
        steps = self.directory.averaged_steps(self.state)
        main = self.accelerator.is_main_process
        if main:
            steps, mean = store.average(steps, self._warn)
            self.model.load_state_dict(mean)
        share_weights(self.accelerator, self.model)
        scores = self._validate()
        weights = {"made_of": "average", "steps": steps}
        if best.beats(scores, self.config.validate_metric):
            of_mean = scores, weights
            scores, weights = best, {"made_of": "checkpoint", "steps": [best.step]}
            if main:
                try:
                    self.model.load_state_dict(store.model_state(best.step))
                except TrainingError as error:
                    skip_damaged(error, self._warn)
                    scores, weights = of_mean
            share_weights(self.accelerator, self.model)
        metrics = self._metrics(scores, weights=weights)
        if main:
            self.model.eval()
            losses = [validation.loss for validation in self.state.all_validations]
            metrics["warnings"] = list(self.job.judge(self.model, metrics, losses))
            self.model.train()
            self.directory.save_model(self.model.state_dict(), metrics)
        self.accelerator.wait_for_everyone()
        return metrics

    def _metrics(self, scores: Validation, *, weights: dict[str, Any]) -> dict[str, Any]:
        state = self.state
        metrics: dict[str, Any] = {
            "schema_version": 1,
            **self.objective.facts(),
            "ended_by": self._end(),
            "steps": state.step,
            "epochs": state.epoch,
            "weights": weights,
            "valid": scores.model_dump(exclude={"step"}, exclude_none=True)
            | {"perplexity": math.exp(min(scores.nll, 700.0))},
            "src_tokens": state.src_tokens,
            "tgt_tokens": state.tgt_tokens,
            "seconds": round(state.seconds, 3),
            "tokens_per_second": round(state.tokens_per_second, 1),
            "precision": self.config.precision,
            "processes": self.accelerator.num_processes,
            "threads": state.threads,
        }
        best = state.best_of_all(self.config.validate_metric)
        if best is not None:
            metrics["best_checkpoint"] = best.model_dump(exclude_none=True)
        return metrics

    def _warn(self, text: str) -> None:
        self.console.print(text, markup=False)

    def _record(self, event: str, **figures: float) -> None:
        if self.journal is not None:
            self.journal.record(event, step=self.state.step, figures={"epoch": self.state.epoch, **figures})

    def _describe(self, validation: Validation, *, improved: bool) -> str:
        labels = self.objective.measures
        measures = "".join(f", {labels[name]} {score:.2f}" for name, score in validation.measures.items())
        return (
            f"step {validation.step}, epoch {self.state.epoch}: validation loss {validation.loss:.4f}, perplexity"
            f" {math.exp(min(validation.nll, 700.0)):.2f}{measures}{' (best so far)' if improved else ''}"
        )
