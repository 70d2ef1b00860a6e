"""The stages in order: each writes a file, and every figure of the ledger is measured on that file read back."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from torch import Tensor, nn

from lite_nlp.compress.finetune import FinetuneOptions, finetune_pruned, finetune_quantized
from lite_nlp.compress.ledger import CompressionSubject, Ledger, StageRow
from lite_nlp.compress.planning import Plan, plan_for_size
from lite_nlp.compress.prune.allocation import SensitivityCurve, allocate_sparsity
from lite_nlp.compress.prune.magnitude import (
    apply_masks,
    largest_sparsity,
    magnitude_masks,
    prunable_parameters,
    weights_restored,
)
from lite_nlp.compress.prune.sensitivity import DEFAULT_SPARSITIES, scan_sensitivity
from lite_nlp.compress.quantize.protocol import QuantizedWeights
from lite_nlp.compress.quantize.registry import DEFAULT_QUANTIZER, get_quantizer
from lite_nlp.compress.stages import (
    ENTROPY_CODED,
    FINETUNED,
    ORIGINAL,
    PRUNED,
    STRUCTURED,
    dense_model,
    entropy_coded_model,
    model_tensors,
    pruned_model,
    quantize_parameters,
    quantized_model,
    set_weights,
)
from lite_nlp.core.errors import ModelError, TargetSizeError, UsageError
from lite_nlp.core.progress import Progress, SilentProgress

__all__ = ["COMPRESSION_FILES", "CompressionOptions", "Finetuning", "run_pipeline"]

#: Patterns of the files that a compression writes, which may be lost where its directory is replaced.
COMPRESSION_FILES: Final = ("*.lnlp",)

#: Factors by which sparsity is backed off while too much quality is lost.
_BACKOFF: Final = (0.7, 0.4, 0.0)
#: How much sparsity is added when fine-tuning has pushed a file over its target, and how often.
_TARGET_STEP, _TARGET_TRIES = 0.01, 4


@dataclass(frozen=True, kw_only=True)
class Finetuning:
    """Data, loss and options of fine-tuning.

    Attributes:
        batches: Makes an endless iterator of batches.
        loss: Scalar loss of a model on a batch.
        pruned: Options for what is left after pruning.
        quantized: Options for the quantized weights.
    """

    batches: Callable[[], Iterator[Any]]
    loss: Callable[[nn.Module, Any], Tensor]
    pruned: FinetuneOptions
    quantized: FinetuneOptions


@dataclass(frozen=True, kw_only=True)
class CompressionOptions:
    """Targets and limits of a compression.

    Attributes:
        tolerance: Largest increase of the loss by pruning, before fine-tuning, where no target is given.
        quantizer: Name of a registered quantizer.
        num_levels: Number of different values in each matrix where no target is given; by default the quantizer's
            largest. 256 is 8-bit k-means.
        target_bytes: Largest size of the final file.
        target_ratio: Smallest ratio of the original's file to the final one.
        max_loss: Largest loss of quality, in the unit of the metric, from the original's file to the final one.
        sparsities: The sparsities at which the sensitivity of each matrix is measured.

    Raises:
        UsageError: If a number is out of range.
    """

    tolerance: float = 0.05
    quantizer: str = DEFAULT_QUANTIZER
    num_levels: int | None = None
    target_bytes: int | None = None
    target_ratio: float | None = None
    max_loss: float | None = None
    sparsities: tuple[float, ...] = DEFAULT_SPARSITIES

    def __post_init__(self) -> None:
        if self.target_ratio is not None and not 1 < self.target_ratio < math.inf:
            raise UsageError(f"target_ratio: expected more than 1, found {self.target_ratio}")
        for name, value in (("max_loss", self.max_loss), ("tolerance", self.tolerance)):
            if value is not None and not math.isfinite(value):
                raise UsageError(f"{name}: expected a finite number, found {value}")
        if self.target_bytes is not None and self.target_bytes < 1:
            raise UsageError(f"target_bytes: expected at least 1, found {self.target_bytes}")
        if self.num_levels is not None and self.num_levels < 2:
            raise UsageError(f"num_levels: expected at least 2, found {self.num_levels}")


def run_pipeline(
    model: nn.Module,
    *,
    out: Path,
    subject: CompressionSubject,
    options: CompressionOptions,
    shrink: Callable[[nn.Module], nn.Module] | None = None,
    finetuning: Finetuning | None = None,
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
        finetuning: If given, the model is fine-tuned after pruning and after quantization.
        progress: Receiver of progress reports.
        on_dropped: Receives the row of each file that is measured and then dropped, since an attempt was too large or
            lost too much.

    Returns:
        The ledger.

    Raises:
        ModelError: If there is nothing to prune, or a target or the largest loss cannot be met.
        UsageError: If there is no such quantizer.
        OutputError: If a file cannot be written.
    """
    run = _Run(model, out, subject, options, finetuning, progress or SilentProgress(), on_dropped)
    first = run.ledger.add(ORIGINAL, model, dense_model(model_tensors(model).tensors))
    if options.target_ratio is not None:
        wanted = max(1, int(first.size_bytes / options.target_ratio))
        run.options = replace(options, target_bytes=min(wanted, options.target_bytes or wanted))
    if shrink is not None:
        run.shrink(shrink)
    curves = run.scan()
    plan = run.plan(curves)
    return run.compress_within_limits(curves, plan)


class _Run:
    """One compression under way."""

    def __init__(
        self,
        model: nn.Module,
        out: Path,
        subject: CompressionSubject,
        options: CompressionOptions,
        finetuning: Finetuning | None,
        progress: Progress,
        on_dropped: Callable[[StageRow], None],
    ) -> None:
        self.model = model
        self.on_dropped = on_dropped
        self.subject = subject
        self.options = options
        self.finetuning = finetuning
        self.progress = progress
        self.quantizer = get_quantizer(options.quantizer)
        self.parameters = prunable_parameters(model)
        self.ledger = Ledger(out=out, subject=subject, original=model)

    def shrink(self, shrink: Callable[[nn.Module], nn.Module]) -> None:
        """Remove channels, fine-tune what is left if wanted, and write that stage."""
        self.model = shrink(self.model)
        self.parameters = prunable_parameters(self.model)
        self._finetune_pruned({})
        self.ledger.add(STRUCTURED, self.model, dense_model(model_tensors(self.model).tensors))

    def scan(self) -> dict[str, SensitivityCurve]:
        """The sensitivity of every matrix."""
        self.progress.start("sensitivity scan", len(self.parameters) * len(self.options.sparsities))
        return scan_sensitivity(
            self.model,
            self.subject.evaluate,
            parameters=self.parameters,
            sparsities=self.options.sparsities,
            on_evaluation=self.progress.advance,
        )

    def plan(self, curves: Mapping[str, SensitivityCurve]) -> Plan:
        """The plan that reaches the target size or, without one, the strongest within the tolerance."""
        if self.options.target_bytes is not None:
            self.progress.start(f"search for {self.options.target_bytes:,} bytes", None)
            return plan_for_size(
                self.model,
                subject=self.subject,
                ledger=self.ledger,
                quantizer=self.quantizer,
                parameters=self.parameters,
                curves=curves,
                target_bytes=self.options.target_bytes,
                on_trial=lambda size, loss: self.progress.advance(figures=f"{size:,} bytes, loss {loss:.3f}"),
            )
        self.progress.start("search for the largest sparsity", 6)
        sparsity = largest_sparsity(
            self.model,
            self.subject.evaluate,
            parameters=self.parameters,
            curves=curves,
            tolerance=self.options.tolerance,
            on_evaluation=self.progress.advance,
        )
        return Plan(sparsity, dict.fromkeys(self.parameters, self.options.num_levels or self.quantizer.ladder[0]))

    def compress_within_limits(self, curves: Mapping[str, SensitivityCurve], plan: Plan) -> list[StageRow]:
        """Compress as planned; adjust the sparsity and try again while the size or the quality is out of bounds."""
        target, max_loss = self.options.target_bytes, self.options.max_loss
        done = len(self.ledger.rows)
        backoff = iter(_BACKOFF)
        tries, sparsity = 0, plan.sparsity
        while True:
            for row in self.ledger.forget_after(done):
                self.on_dropped(row)
            # Every attempt starts from the unpruned weights.
            with weights_restored(dict(self.model.named_parameters())):
                last = self._compress(allocate_sparsity(curves, sparsity), plan.num_levels)
            if target is not None and last.size_bytes > target:
                tries += 1
                if tries > _TARGET_TRIES:
                    raise TargetSizeError(
                        f"{self.subject.name}: cannot be compressed to {target:,} bytes; the smallest file reached has "
                        f"{last.size_bytes:,} bytes",
                        smallest_bytes=last.size_bytes,
                    )
                sparsity = min(0.95, sparsity + _TARGET_STEP * tries)
                continue
            lost = self.subject.metric.lost(self.ledger.rows[0].scores, last.scores)
            if max_loss is None or lost <= max_loss:
                return self.ledger.rows
            factor = next(backoff, None)
            if target is not None or factor is None:
                within = "" if target is None else f" within {target:,} bytes"
                unit = self.subject.metric.unit
                raise ModelError(
                    f"{self.subject.name}: cannot be compressed{within} with a loss of at most {max_loss} {unit}; "
                    f"the smallest loss reached is {lost:.2f} {unit} at {last.size_bytes:,} bytes"
                )
            sparsity = plan.sparsity * factor

    def _compress(self, sparsities: Mapping[str, float], num_levels: Mapping[str, int]) -> StageRow:
        masks = magnitude_masks(self.parameters, sparsities)
        apply_masks(self.parameters, masks)
        self.ledger.add(PRUNED, self.model, pruned_model(model_tensors(self.model).tensors))
        if self._finetune_pruned(masks):
            self.ledger.add(FINETUNED, self.model, pruned_model(model_tensors(self.model).tensors))
        self.progress.start(f"quantization ({self.quantizer.name})", None)
        quantized = quantize_parameters(self.quantizer, self.parameters, num_levels)
        quantized = self._finetune_quantized(quantized)
        tensors = model_tensors(self.model).tensors
        self.ledger.add(self.quantizer.name, self.model, quantized_model(tensors, quantized))
        return self.ledger.add(ENTROPY_CODED, self.model, entropy_coded_model(tensors, quantized))

    def _finetune_pruned(self, masks: Mapping[str, Tensor]) -> bool:
        """Fine-tune, and go back if that did harm; returns whether fine-tuning is wanted at all."""
        if self.finetuning is None:
            return False
        options = self.finetuning.pruned
        before = _Snapshot(self.model, self.subject.evaluate)
        self.progress.start("fine-tuning the remaining weights", options.steps)
        finetune_pruned(
            self.model,
            self.finetuning.batches(),
            self.finetuning.loss,
            masks=masks,
            options=options,
            on_step=lambda loss: self.progress.advance(figures=f"loss {loss:.3f}"),
        )
        before.restore_if_better()
        return True

    def _finetune_quantized(self, quantized: QuantizedWeights) -> QuantizedWeights:
        """The weights fine-tuned if wanted, or as they were if that did harm; the model has them."""
        set_weights(self.parameters, quantized)
        if self.finetuning is None:
            return quantized
        options = self.finetuning.quantized
        before = _Snapshot(self.model, self.subject.evaluate)
        self.progress.start("fine-tuning the quantized weights", options.steps)
        weights = quantized.trainable(self.parameters)
        finetune_quantized(
            self.model,
            self.finetuning.batches(),
            self.finetuning.loss,
            weights=weights,
            options=options,
            on_step=lambda loss: self.progress.advance(figures=f"loss {loss:.3f}"),
        )
        tuned = weights.quantized()
        set_weights(self.parameters, tuned)
        return quantized if before.restore_if_better() else tuned


class _Snapshot:
    """A model's weights and loss at one moment, to go back to."""

    def __init__(self, model: nn.Module, evaluate: Callable[[nn.Module], float]) -> None:
        self._model = model
        self._evaluate = evaluate
        self._state = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
        self._loss = evaluate(model)

    def restore_if_better(self) -> bool:
        """Go back if the loss was smaller then; returns whether it was."""
        if self._evaluate(self._model) <= self._loss:
            return False
        self._model.load_state_dict(self._state)
        return True
