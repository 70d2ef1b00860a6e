"""The stages in order: each writes a file, and every figure of the ledger is measured on that file read back."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from numbers import Real
from pathlib import Path
from typing import Final

import torch
from torch import nn

from lite_nlp.budget.reporting.plan import ComparedQuantizer
from lite_nlp.compress.explanation import compared_quantizers, explain_plan, preferred
from lite_nlp.compress.ledger import CompressionSubject, Ledger, StageRow
from lite_nlp.compress.planner import Planned, Planner
from lite_nlp.compress.prune.magnitude import apply_masks, magnitude_masks, prunable_parameters, weights_restored
from lite_nlp.compress.quantizers import COMPARED, get_quantizer
from lite_nlp.compress.shortfall import check_overhead, out_of_reach
from lite_nlp.compress.significance import Scored
from lite_nlp.compress.stages import (
    ENTROPY_CODED,
    FINETUNED,
    ORIGINAL,
    PRUNED,
    STRUCTURED,
    dense_model,
    model_tensors,
    pruned_model,
    quantized_model,
)
from lite_nlp.compress.stored import holds_model
from lite_nlp.compress.tolerance import largest_tolerance
from lite_nlp.compress.weight_tuner import Finetuning, WeightTuner
from lite_nlp.compress.work import Work
from lite_nlp.core.bounds import check_loss
from lite_nlp.core.errors import ModelError, UndefinedScoreError, UsageError
from lite_nlp.core.progress import Progress, SilentProgress

__all__ = ["COMPRESSION_FILES", "CompressionOptions", "run_pipeline"]

#: Patterns of the files that a compression writes, which may be lost where its directory is replaced.
COMPRESSION_FILES: Final = ("*.lnlp",)

#: Factors of the tolerance while the final file loses too much quality.
_BACKOFF: Final = (0.5, 0.2, 0.05)
#: Losses below are told with two digits, since two decimals of a metric in small units may be zeros.
_TWO_DECIMALS: Final = 0.01


@dataclass(frozen=True, kw_only=True)
class CompressionOptions:
    """Targets and limits of a compression.

    Attributes:
        tolerance: Largest increase of the loss by the plan, before fine-tuning, where no target is given. Where no plan
            is within it, the one that increases the loss least is taken.
        quantizer: Name of a registered quantizer; None compares them.
        target_bytes: Largest size of the final file.
        target_ratio: Smallest ratio of the original's file to the final one.
        max_loss: Largest loss of quality, at least 0, in the unit of the metric, from the original's file to the final
            one.

    Raises:
        UsageError: If a number is out of range, or there is no such quantizer.
    """

    tolerance: float = 0.05
    quantizer: str | None = None
    target_bytes: int | None = None
    target_ratio: float | None = None
    max_loss: float | None = None

    def __post_init__(self) -> None:
        if self.target_ratio is not None and not isinstance(self.target_ratio, Real):
            raise UsageError(f"target_ratio: expected a number, found {self.target_ratio!r}")
        if self.target_ratio is not None and not 1 < self.target_ratio < math.inf:
            raise UsageError(f"target_ratio: expected more than 1, found {self.target_ratio}")
        check_loss("max_loss", self.max_loss)
        check_loss("tolerance", self.tolerance)
        if self.target_bytes is not None and not isinstance(self.target_bytes, int):
            raise UsageError(f"target_bytes: expected an integer, found {self.target_bytes!r}")
        if self.target_bytes is not None and self.target_bytes < 1:
            raise UsageError(f"target_bytes: expected at least 1, found {self.target_bytes}")
        if self.quantizer is not None:
            get_quantizer(self.quantizer)


def run_pipeline(
    model: nn.Module,
    *,
    out: Path,
    subject: CompressionSubject,
    options: CompressionOptions,
    shrink: Callable[[nn.Module], nn.Module] | None = None,
    finetuning: Finetuning | None = None,
    work: Work | None = None,
    progress: Progress | None = None,
    on_dropped: Callable[[StageRow], None] = lambda row: None,
) -> list[StageRow]:
    """Compress a model stage by stage.

    Args:
        model: In evaluation mode. Its weights are as before afterwards, unless ``shrink`` or fine-tuning what is
            left of it changed them; what counts are the files.
        out: An existing directory for the files; the last one is ``model.lnlp``.
        subject: How to embed, load, score and evaluate.
        options: Targets and limits.
        shrink: Structured pruning: returns the smaller model.
        finetuning: If given, the model is fine-tuned while it is compressed.
        work: Keeps what is worked out, so that an interrupted compression goes on from there.
        progress: Receiver of progress reports.
        on_dropped: Receives the row of each file that is measured and then dropped, since an attempt was too large or
            lost too much.

    Returns:
        The ledger.

    Raises:
        ModelError: If there is nothing to prune, or a target or the largest loss cannot be met.
        OutputError: If a file cannot be written.
    """
    run = _Run(model, out, subject, options, finetuning, work, progress or SilentProgress(), on_dropped)
    first = run.ledger.add(ORIGINAL, model, dense_model(model_tensors(model).tensors))
    if options.target_ratio is not None:
        wanted = max(1, int(first.size_bytes / options.target_ratio))
        run.options = replace(options, target_bytes=min(wanted, options.target_bytes or wanted))
    if shrink is not None:
        run.shrink(shrink)
    if run.options.target_bytes is not None:
        check_overhead(run.model, subject=subject, ledger=run.ledger, target_bytes=run.options.target_bytes)
    return run.compress_within_limits()


class _Run:
    """One compression under way."""

    def __init__(
        self,
        model: nn.Module,
        out: Path,
        subject: CompressionSubject,
        options: CompressionOptions,
        finetuning: Finetuning | None,
        work: Work | None,
        progress: Progress,
        on_dropped: Callable[[StageRow], None],
    ) -> None:
        self.model = model
        self.subject = subject
        self.options = options
        self.finetuning = finetuning
        self.work = work
        self.progress = progress
        self.on_dropped = on_dropped
        # Before anything is written: a model without matrices is refused, and one that training has spoiled.
        for name, parameter in prunable_parameters(model).items():
            if bad := int((~torch.isfinite(parameter)).sum()):
                raise ModelError(
                    f"{subject.name}: {name}: expected finite weights, found {bad:,} of {parameter.numel():,} not"
                )
        self.ledger = Ledger(out=out, subject=subject, original=model)
        self.attempt = 0

    @property
    def tuner(self) -> WeightTuner:
        """For the model and the target as they are now."""
        return WeightTuner(
            self.model,
            subject=self.subject,
            finetuning=self.finetuning,
            target_bytes=self.options.target_bytes,
            work=self.work,
            progress=self.progress,
        )

    def shrink(self, shrink: Callable[[nn.Module], nn.Module]) -> None:
        """Remove channels, fine-tune what is left if wanted, and write that stage."""
        self.model = shrink(self.model)
        parameters = prunable_parameters(self.model)
        self.tuner.tune_pruned(STRUCTURED, dict.fromkeys(parameters, 0.0), attempt=self.attempt)
        self.ledger.add(STRUCTURED, self.model, dense_model(model_tensors(self.model).tensors))

    def compress_within_limits(self) -> list[StageRow]:
        """Plan and compress; without a target as far as the largest loss allows, if there is one.

        What has been quantized before, and reaches the target or is no larger than the plan without one, is kept: a
        second rounding would lose more for nothing.
        """
        target, max_loss = self.options.target_bytes, self.options.max_loss
        planner = Planner(
            self.model,
            subject=self.subject,
            ledger=self.ledger,
            finetuned=self.finetuning is not None,
            work=self.work,
            progress=self.progress,
        )
        stored = self.subject.stored
        kept_bytes = planner.size_of(self.model, stored) if holds_model(stored, self.model) else math.inf
        if target is not None and kept_bytes <= target:
            return self._keep_stored()
        planner.measure()
        done = len(self.ledger.rows)
        tolerance = self.options.tolerance

        # The search ends with a tolerance that it has planned for.
        @cache
        def choose(tolerance: float) -> Planned:
            return self._choose(planner, tolerance)

        if max_loss is not None and target is None and tolerance > 0:
            tolerance = self._tolerance_within(max_loss, planner, choose)
        missed: list[tuple[float, int]] = []
        tried = set()
        for factor in (1.0, *_BACKOFF):
            planned = choose(factor * tolerance)
            if planned.size_bytes >= kept_bytes:
                break
            # Where no plan is within them, smaller tolerances have the same one.
            if planned.key in tried:
                continue
            tried.add(planned.key)
            try:
                # Every attempt starts from the weights as they are now.
                with weights_restored(dict(self.model.named_parameters())):
                    last = self._compress(planned, planner)
            except UndefinedScoreError:
                # Weights too coarse for a score have lost more than any largest loss.
                if max_loss is None or target is not None:
                    raise
            else:
                lost = self.subject.metric.lost(self.ledger.rows[0].scores, last.scores)
                if max_loss is None or lost <= max_loss:
                    return self.ledger.rows
                missed.append((lost, last.size_bytes))
                if target is not None:
                    break
            self.attempt += 1
            self._drop_after(done)
        if target is None and kept_bytes < math.inf:
            return self._keep_stored()
        within = "" if target is None else f" within {target:,} bytes"
        unit = self.subject.metric.unit
        reached = "no file reached has a finite score"
        if missed:
            lost, size_bytes = min(missed)
            figure = f"{lost:.2f}" if lost >= _TWO_DECIMALS else f"{lost:.2g}"
            reached = f"the smallest loss reached is {figure} {unit} at {size_bytes:,} bytes"
        raise ModelError(
            f"{self.subject.name}: cannot be compressed{within} with a loss of at most {max_loss} {unit}; {reached}"
        )

    def _drop_after(self, done: int) -> None:
        """Forget the stages after so many, which lost too much."""
        for row in self.ledger.forget_after(done):
            self.on_dropped(row)

    def _keep_stored(self) -> list[StageRow]:
        """Write the tensors of the model's own file again: it has been quantized before, and that is small enough."""
        self.ledger.add(ENTROPY_CODED, self.model, self.subject.stored)
        return self.ledger.rows

    def _tolerance_within(self, max_loss: float, planner: Planner, choose: Callable[[float], Planned]) -> float:
        """The largest tolerance that loses no more than allowed after brief tuning."""
        before = self.ledger.rows[0].scores
        measured = {}

        def lost(tolerance: float) -> float:
            planned = choose(tolerance)

            def measure() -> float:
                with self.tuner.briefly_tuned(planner, planned):
                    scored = Scored.of(self.subject.score(self.model))
                    return self.subject.metric.lost(before, scored.scores)

            if planned.key not in measured:
                measured[planned.key] = self._keep(f"lost-{tolerance:g}", measure)
            return measured[planned.key]

        start = self.options.tolerance
        return largest_tolerance(lost, start=start, max_loss=max_loss) or start * _BACKOFF[-1]

    def _choose(self, planner: Planner, tolerance: float) -> Planned:
        """The plan of the quantizer that is asked for, or else of one that keeps what there is to keep."""
        if self.options.target_bytes is None:
            return self._choose_tolerated(planner, tolerance)
        return self._choose_within_bytes(planner, tolerance, self.options.target_bytes)

    def _choose_tolerated(self, planner: Planner, tolerance: float) -> Planned:
        """The plan of the first quantizer where its loss is tolerated, beyond that the smallest that is tolerated.

        Where a largest loss is the target, it is the smallest of all. Where none is tolerated, that of the least loss.
        """
        asked = self.options.quantizer
        first = (COMPARED[0] if asked is None else asked,)
        planned = planner.plans(first, target_bytes=None, tolerance=tolerance)
        if asked is None and (self.options.max_loss is not None or not planned[0].tolerated):
            planned += planner.plans(COMPARED[1:], target_bytes=None, tolerance=tolerance)
        losses = [planner.loss_of(plan) for plan in planned]
        _, _, place = min(
            (not plan.tolerated, plan.size_bytes if plan.tolerated else loss, place)
            for place, (plan, loss) in enumerate(zip(planned, losses, strict=True))
        )
        return self._explained(planner, planned[place], compared_quantizers(planner, planned, losses), tolerance)

    def _choose_within_bytes(self, planner: Planner, tolerance: float, target_bytes: int) -> Planned:
        """The plan of the first quantizer where its loss is tolerated, beyond that the preferred after brief tuning."""
        first = self.options.quantizer or COMPARED[0]
        planned = planner.plans((first,), target_bytes=target_bytes, tolerance=tolerance)
        losses = [planner.loss_of(plan) for plan in planned]
        enough = any(loss <= planner.original_loss + tolerance for loss in losses)
        if self.options.quantizer is None and not enough:
            others = planner.plans(COMPARED[1:], target_bytes=target_bytes, tolerance=tolerance)
            planned += others
            losses += [planner.loss_of(plan) for plan in others]
        if not planned:
            raise planner.out_of_reach(target_bytes)
        chosen, tuned = planned[0], None
        if len(planned) > 1:
            found = [self._loss_after_tuning(planner, plan) for plan in planned]
            chosen = planned[preferred(found, losses, base=planner.original_loss)]
            tuned = None if self.finetuning is None else found
        return self._explained(planner, chosen, compared_quantizers(planner, planned, losses, tuned), tolerance)

    def _explained(
        self, planner: Planner, chosen: Planned, compared: Sequence[ComparedQuantizer], tolerance: float
    ) -> Planned:
        """The plan chosen with its explanation, for the ledger."""
        target = self.options.target_bytes
        return replace(
            chosen,
            explained=explain_plan(planner, chosen, compared=compared, target_bytes=target, tolerance=tolerance),
        )

    def _loss_after_tuning(self, planner: Planner, planned: Planned) -> float:
        def measure() -> float:
            with self.tuner.briefly_tuned(planner, planned):
                return self.subject.evaluate(self.model)

        return self._keep(f"brief-{self.attempt}-{planned.quantizer.name}", measure)

    def _keep(self, name: str, measure: Callable[[], float]) -> float:
        return measure() if self.work is None else self.work.keep(name, measure)

    def _compress(self, planned: Planned, planner: Planner) -> StageRow:
        parameters = prunable_parameters(self.model)
        sparsities = {name: choice.sparsity for name, choice in planned.plan.items()}
        if planned.quantizer.prunes_first:
            with weights_restored(parameters):
                apply_masks(parameters, magnitude_masks(parameters, sparsities))
                self.ledger.add(PRUNED, self.model, pruned_model(model_tensors(self.model).tensors))
            if any(sparsities.values()) and self.tuner.tune_pruned(FINETUNED, sparsities, attempt=self.attempt):
                self.ledger.add(FINETUNED, self.model, pruned_model(model_tensors(self.model).tensors))
            else:
                apply_masks(parameters, magnitude_masks(parameters, sparsities))
        quantized = self.tuner.quantize(planner, planned, attempt=self.attempt)
        tensors = model_tensors(self.model).tensors
        fixed_width = quantized_model(tensors, quantized, vectors=planner.vectors(self.model))
        self.ledger.add(planned.quantizer.name, self.model, fixed_width)
        encoded = planner.encoded(self.model, quantized)
        last = self.ledger.add(ENTROPY_CODED, self.model, encoded, plan=planned.explained)
        target = self.options.target_bytes
        if target is not None and last.size_bytes > target:
            raise out_of_reach(
                self.subject.name,
                target_bytes=target,
                by_kind=last.bytes_by_kind,
                num_weights=sum(parameter.numel() for parameter in parameters.values()),
                smallest="the smallest file reached",
            )
        return last
