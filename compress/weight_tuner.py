"""Tuning of a model's weights while they are pruned and quantized, within the size that they are to have."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from torch import Tensor, nn

from lite_nlp.compress.ledger import CompressionSubject
from lite_nlp.compress.planner import Planned, Planner
from lite_nlp.compress.prune.magnitude import apply_masks, magnitude_masks, prunable_parameters, weights_restored
from lite_nlp.compress.quantize.protocol import HeldWeights, QuantizedWeights, TrainableWeights
from lite_nlp.compress.snapshot import Snapshot
from lite_nlp.compress.stages import set_weights
from lite_nlp.compress.tuning import PrunedWeights, TuningOptions, tune
from lite_nlp.compress.work import Work
from lite_nlp.core.progress import Progress

__all__ = ["Finetuning", "WeightTuner"]

#: Share of the steps for each candidate before they are compared, at least so many.
_BRIEF, _BRIEF_STEPS = 0.05, 20
#: Of the steps, what goes to the pruned weights before they are clustered.
_PRUNED_SHARE: Final = 0.5
#: Of the steps, what a file that training has left over its target is given to shrink, and how often; and of the
#: learning rates, since at their full height so few steps would undo what the many before have settled.
_SHRINKING_SHARE, _SHRINKING_TRIES = 0.05, 4
_SHRINKING_RATE: Final = 0.1


@dataclass(frozen=True, kw_only=True)
class Finetuning:
    """Data, loss and options of fine-tuning.

    Attributes:
        batches: Makes an endless iterator of batches, the same at every call.
        loss: Scalar loss of a model on a batch.
        options: Length and speed.
    """

    batches: Callable[[], Iterator[Any]]
    loss: Callable[[nn.Module, Any], Tensor]
    options: TuningOptions


class WeightTuner:
    """Tunes one model as planned, or only quantizes it where there is nothing to tune it by.

    Args:
        model: Changed in place.
        subject: How to evaluate it.
        finetuning: Data, loss and options; None leaves the weights as they are rounded.
        target_bytes: Size of the file that tuning may use up and must not exceed.
        work: Keeps what is worked out, so that an interrupted compression goes on from there.
        progress: Receiver of progress reports.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        subject: CompressionSubject,
        finetuning: Finetuning | None,
        target_bytes: int | None,
        work: Work | None,
        progress: Progress,
    ) -> None:
        self._model = model
        self._subject = subject
        self._finetuning = finetuning
        self._target_bytes = target_bytes
        self._work = work
        self._progress = progress

    @contextmanager
    def briefly_tuned(self, planner: Planner, planned: Planned) -> Iterator[None]:
        """The model with its weights as planned, after brief tuning if it is to be tuned; then as before."""
        with weights_restored(dict(self._model.named_parameters())):
            if self._finetuning is None:
                parameters = prunable_parameters(self._model)
                set_weights(parameters, planned.fit(parameters, planner.importance))
            else:
                options = self._finetuning.options.shortened(_BRIEF, least=_BRIEF_STEPS)
                self._tune_quantized(planner, planned, self._finetuning, options)
            yield

    def quantize(self, planner: Planner, planned: Planned, *, attempt: int) -> QuantizedWeights:
        """The weights as planned, tuned if wanted, or without tuning if that did harm; the model has them."""
        parameters = prunable_parameters(self._model)
        untuned = planned.fit(parameters, planner.importance)
        if self._finetuning is None:
            set_weights(parameters, untuned)
            return untuned
        before = Snapshot(self._model)
        limit = planner.loss_of(planned)
        phase = f"{planned.quantizer.name}-{attempt}"
        work = None if self._work is None else self._work.phase(phase)
        options = self._finetuning.options
        weights, scale = self._tune_quantized(planner, planned, self._finetuning, options, work)
        tuned = weights.quantized()
        target = self._target_bytes
        for _ in range(_SHRINKING_TRIES):
            if target is None or (size := planner.file_size(self._model, tuned, planned.quantizer)) <= target:
                break
            scale *= planner.scale_to(target, size, tuned)
            short = options.shortened(_SHRINKING_SHARE, least=_BRIEF_STEPS).slowed(_SHRINKING_RATE)
            again = f"{planned.quantizer.name}, {size - target:,} bytes too large"
            self._tune(again, weights, self._finetuning, replace(short, tightening=0.0), None, scale)
            tuned = weights.quantized()
        set_weights(parameters, tuned)
        fits = target is None or planner.file_size(self._model, untuned, planned.quantizer) <= target
        if not fits or self._subject.evaluate(self._model) <= limit:
            return tuned
        before.restore()
        set_weights(parameters, untuned)
        return untuned

    def tune_pruned(self, stage: str, sparsities: Mapping[str, float], *, attempt: int) -> bool:
        """Fine-tune while pruning, and go back if that did harm; returns whether it was done."""
        if self._finetuning is None:
            return False
        parameters = prunable_parameters(self._model)
        before = Snapshot(self._model)
        with weights_restored(parameters):
            apply_masks(parameters, magnitude_masks(parameters, sparsities))
            limit = self._subject.evaluate(self._model)
        options = self._finetuning.options.shortened(_PRUNED_SHARE, least=_BRIEF_STEPS)
        work = None if self._work is None else self._work.phase(f"{stage}-{attempt}")
        self._tune("remaining weights", PrunedWeights(parameters, sparsities), self._finetuning, options, work)
        if self._subject.evaluate(self._model) <= limit:
            return True
        before.restore()
        return False

    def _tune_quantized(
        self,
        planner: Planner,
        planned: Planned,
        finetuning: Finetuning,
        options: TuningOptions,
        work: Work | None = None,
    ) -> tuple[TrainableWeights, float]:
        """The tuned weights, and the factor of the planned bits that they were held at."""
        parameters = prunable_parameters(self._model)
        fitted = planned.fit(parameters, planner.importance)
        weights = fitted.trainable(parameters)
        target = self._target_bytes
        # A plan is made of whole choices; what it leaves of the target is used by those who can.
        scale = 1.0 if target is None else max(1.0, planner.scale_to(target, planned.size_bytes, fitted))
        self._tune(planned.quantizer.name, weights, finetuning, options, work, scale)
        return weights, scale

    def _tune(
        self,
        what: str,
        weights: HeldWeights,
        finetuning: Finetuning,
        options: TuningOptions,
        work: Work | None,
        scale: float = 1.0,
    ) -> None:
        def go_on(steps: int) -> None:
            self._progress.start(f"tuning ({what}), from step {steps:,} on", options.steps - steps)

        # Making them may be work that is shown by itself.
        batches = finetuning.batches()
        self._progress.start(f"tuning ({what})", options.steps)
        tune(
            self._model,
            batches,
            finetuning.loss,
            weights=weights,
            options=options,
            scale=scale,
            work=work,
            on_step=lambda loss, bits: self._progress.advance(figures=f"loss {loss:.3f}, {bits / 8:,.0f} bytes"),
            on_resumed=go_on,
        )
