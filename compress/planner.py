"""From a model and a target to plans: importance, measured sensitivity, the quantizers' choices, real file sizes."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from lite_nlp.budget.reporting.plan import PlanRecord
from lite_nlp.compress.importance import diagonal_fisher
from lite_nlp.compress.ledger import CompressionSubject, Ledger
from lite_nlp.compress.lnlp.composition import bytes_by_kind
from lite_nlp.compress.lnlp.container import container_bytes, parse_container
from lite_nlp.compress.lnlp.encodings import EncodedTensor, GridTensor
from lite_nlp.compress.planning import Plan, plan_within, total_bits, total_distortion
from lite_nlp.compress.prune.magnitude import prunable_parameters, weights_restored
from lite_nlp.compress.quantize.protocol import Choice, QuantizedWeights, Quantizer
from lite_nlp.compress.quantizers import get_quantizer
from lite_nlp.compress.sensitivity import Probe, Sensitivity, correct_choices, measure_sensitivity
from lite_nlp.compress.shortfall import out_of_reach
from lite_nlp.compress.stages import (
    ENTROPY_CODED,
    FINETUNED,
    PRUNED,
    VECTOR_BITS,
    entropy_coded_model,
    model_tensors,
    quantized_vectors,
    set_weights,
)
from lite_nlp.compress.work import Work
from lite_nlp.core.errors import TargetSizeError
from lite_nlp.core.progress import Progress

__all__ = ["Planned", "Planner"]

FloatArray = NDArray[np.float32]

#: Files are planned this much below the target, and need not be nearer to it than that.
_MARGIN, _NEAR = 0.998, 0.985
#: Added to the size of a file: its ledger is not known to the byte.
_UNKNOWN_BYTES: Final = 24
_SIZE_ROUNDS: Final = 6
#: Rounds of the search for the strongest plan within a tolerance.
_TOLERANCE_ROUNDS: Final = 8
_WIDE: Final = 4.0
#: Increase of the loss that is harmless.
_HARMLESS: Final = 1e-3


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A plan for a quantizer, with a file as large as stated.

    Attributes:
        quantizer: The quantizer.
        plan: A choice for each matrix.
        size_bytes: Size of the file without fine-tuning.
        predicted: Expected divergence, as if those of the matrices added up.
        tolerated: Whether the loss with all matrices stored so is within the tolerance; None where a target decides.
        explained: Why it was chosen, once it is.
    """

    quantizer: Quantizer
    plan: Plan
    size_bytes: int
    predicted: float
    tolerated: bool | None = None
    explained: PlanRecord | None = None

    @property
    def key(self) -> tuple[str, frozenset[tuple[str, Choice]]]:
        """Equal for plans that store every matrix alike."""
        return self.quantizer.name, frozenset(self.plan.items())

    def fit(self, parameters: Mapping[str, nn.Parameter], importance: Mapping[str, FloatArray]) -> QuantizedWeights:
        """The present weights as planned, without fine-tuning; the parameters are left as they are."""
        return self.quantizer.fit(_arrays(parameters), self.plan, importance)


class Planner:
    """Plans of one model.

    Args:
        model: Evaluated; its weights are as before afterwards.
        subject: How to evaluate, and what to embed.
        ledger: Source of the metadata.
        finetuned: Whether the model is to be fine-tuned, which may add a stage.
        work: Keeps what is measured.
        progress: Receiver of progress reports.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        subject: CompressionSubject,
        ledger: Ledger,
        finetuned: bool,
        work: Work | None,
        progress: Progress,
    ) -> None:
        self._model = model
        self._subject = subject
        self._ledger = ledger
        self._finetuned = finetuned
        self._work = work
        self._progress = progress
        self._parameters = prunable_parameters(model)
        self._choices: dict[str, dict[str, list[Choice]]] = {}
        self.importance: dict[str, FloatArray] = {}
        self.sensitivities: dict[str, Sensitivity] = {}
        self.vector_bits: int | None = None
        self.original_loss = 0.0
        #: Of the quantizers that cannot reach the target, the smallest plan.
        self.too_large: dict[str, Planned] = {}

    def measure(self) -> None:
        """Measure importance, sensitivity, and how few bits the vectors need."""
        self.original_loss = self._subject.evaluate(self._model)
        found = self._keep("importance", self._measure_importance)
        self.importance = {name: tensor.numpy() for name, tensor in found.items()}
        self.vector_bits = self._keep("vectors", self._measure_vectors) or None
        probes = self._keep("sensitivity", self._measure_sensitivity)
        self.sensitivities = {
            name: Sensitivity(parameter.numel(), tuple(Probe(**probe) for probe in probes[name]))
            for name, parameter in self._parameters.items()
        }

    def plans(self, quantizers: Sequence[str], *, target_bytes: int | None, tolerance: float) -> list[Planned]:
        """The best plan of each quantizer that can reach the target; without one, the smallest within the tolerance.

        Where no plan of a quantizer is within the tolerance, that is its finest.

        Args:
            quantizers: Names, in the order of preference.
            target_bytes: Largest size of the file.
            tolerance: Largest increase of the loss with all matrices stored as planned, where there is no target.
        """
        found = []
        for name in quantizers:
            self.too_large.pop(name, None)
            quantizer = get_quantizer(name)
            choices = self.choices(quantizer)
            self._progress.start(f"planning ({name})", None)
            if target_bytes is None:
                found.append(self._within_tolerance(quantizer, choices, tolerance))
                continue
            planned = self._within_bytes(quantizer, choices, target_bytes)
            if planned.size_bytes <= target_bytes:
                found.append(planned)
            else:
                self.too_large[name] = planned
        return found

    def out_of_reach(self, target_bytes: int) -> TargetSizeError:
        """The error that no plan is small enough, with the figures of the smallest file."""
        smallest = min(self.too_large.values(), key=lambda planned: planned.size_bytes)
        quantized = smallest.fit(self._parameters, self.importance)
        encoded = self.encoded(self._model, quantized)
        content = self._content(self._model, encoded, self._stages_before(smallest.quantizer))
        by_kind = bytes_by_kind(parse_container(content), size_bytes=len(content))
        by_kind["header"] += smallest.size_bytes - len(content)
        return out_of_reach(
            self._subject.name,
            target_bytes=target_bytes,
            by_kind=by_kind,
            num_weights=sum(parameter.numel() for parameter in self._parameters.values()),
            smallest="the smallest file, with every matrix as coarse as it can be,",
        )

    def choices(self, quantizer: Quantizer) -> dict[str, list[Choice]]:
        """What a quantizer can choose from, corrected by what was measured."""
        return correct_choices(self._choices_of(quantizer), self.sensitivities)

    def loss_of(self, planned: Planned) -> float:
        """The loss with all matrices stored as planned, without fine-tuning."""
        return self._loss_of(planned.quantizer, planned.plan)

    def encoded(self, model: nn.Module, quantized: QuantizedWeights) -> dict[str, EncodedTensor]:
        """The tensors of the final file."""
        return entropy_coded_model(model_tensors(model).tensors, quantized, vectors=self.vectors(model))

    def vectors(self, model: nn.Module) -> dict[str, GridTensor]:
        """The vectors of the final file that are on grids."""
        return {} if self.vector_bits is None else quantized_vectors(model, self.vector_bits)

    def file_size(self, model: nn.Module, quantized: QuantizedWeights, quantizer: Quantizer) -> int:
        """The size of the final file in bytes, or a little more: its ledger is not known yet."""
        return self.size_of(model, self.encoded(model, quantized), self._stages_before(quantizer))

    def size_of(self, model: nn.Module, encoded: Mapping[str, EncodedTensor], stages: Sequence[str] = ()) -> int:
        """``file_size`` of tensors that are encoded already, after some more stages."""
        return _UNKNOWN_BYTES + len(self._content(model, encoded, stages))

    def scale_to(self, target_bytes: int, size_bytes: int, quantized: QuantizedWeights) -> float:
        """The factor of the bits of the matrices by which a file becomes as small as its target."""
        matrices = sum(len(tensor.payload) for tensor in quantized.encode_entropy().values())
        return max(0.5, (matrices - (size_bytes - _MARGIN * target_bytes)) / matrices)

    def _content(self, model: nn.Module, encoded: Mapping[str, EncodedTensor], stages: Sequence[str]) -> bytes:
        """The final file, as far as its ledger is known."""
        return container_bytes(
            tensors=encoded,
            aliases=model_tensors(model).aliases,
            files=self._subject.files(model),
            metadata=self._ledger.metadata(ENTROPY_CODED, expected=stages),
        )

    def _stages_before(self, quantizer: Quantizer) -> tuple[str, ...]:
        """The stages that are to come before the last; that of fine-tuning may be left out."""
        pruned = (PRUNED, FINETUNED) if self._finetuned else (PRUNED,)
        return (*(pruned if quantizer.prunes_first else ()), quantizer.name)

    def _keep(self, name: str, make: Any) -> Any:
        return make() if self._work is None else self._work.keep(name, make)

    def _measure_importance(self) -> dict[str, torch.Tensor]:
        batches = self._subject.informing()
        self._progress.start("importance of the weights", len(batches))
        found = diagonal_fisher(
            self._model,
            batches,
            self._subject.information,
            parameters=self._parameters,
            on_batch=self._progress.advance,
        )
        return {name: torch.from_numpy(array) for name, array in found.items()}

    def _measure_vectors(self) -> int:
        """The fewest bits of vectors that are harmless; 0 if none are."""
        parameters = {name: parameter for name, parameter in self._model.named_parameters() if parameter.ndim == 1}
        harmless = _HARMLESS * max(1.0, abs(self.original_loss))
        for bits in VECTOR_BITS if parameters else ():
            with weights_restored(parameters), torch.no_grad():
                for name, tensor in quantized_vectors(self._model, bits).items():
                    parameters[name].copy_(torch.from_numpy(tensor.values()))
                if self._subject.evaluate(self._model) - self.original_loss <= harmless:
                    return bits
        return 0

    def _measure_sensitivity(self) -> dict[str, list[dict[str, float]]]:
        quantizer = get_quantizer("grid")
        self._progress.start("sensitivity", 2 * len(self._parameters))
        found = measure_sensitivity(
            self._model,
            self._subject.evaluate,
            quantizer=quantizer,
            parameters=self._parameters,
            importance=self.importance,
            choices=self._choices_of(quantizer),
            on_evaluation=self._progress.advance,
        )
        return {name: [asdict(probe) for probe in sensitivity.probes] for name, sensitivity in found.items()}

    def _choices_of(self, quantizer: Quantizer) -> dict[str, list[Choice]]:
        if quantizer.name not in self._choices:
            arrays = _arrays(self._parameters)
            self._choices[quantizer.name] = {
                name: list(quantizer.choices(array, self.importance[name])) for name, array in arrays.items()
            }
        return self._choices[quantizer.name]

    def _planned(self, quantizer: Quantizer, plan: Plan) -> Planned:
        quantized = quantizer.fit(_arrays(self._parameters), plan, self.importance)
        size = self.file_size(self._model, quantized, quantizer)
        self._progress.advance(figures=f"{size:,} bytes")
        return Planned(quantizer=quantizer, plan=plan, size_bytes=size, predicted=total_distortion(plan))

    def _within_bytes(self, quantizer: Quantizer, choices: Mapping[str, list[Choice]], target_bytes: int) -> Planned:
        """The plan whose file is as large as the target allows; if there is none, the smallest seen."""
        wanted = _MARGIN * target_bytes
        bits = 8.0 * target_bytes
        finest = plan_within(choices, bits=math.inf)
        best: Planned | None = None
        smallest: Planned | None = None
        for _ in range(_SIZE_ROUNDS):
            plan = plan_within(choices, bits=bits)
            if plan is None:
                coarsest = {name: min(found, key=lambda choice: choice.bits) for name, found in choices.items()}
                planned = self._planned(quantizer, coarsest)
            else:
                planned = self._planned(quantizer, plan)
            if smallest is None or planned.size_bytes < smallest.size_bytes:
                smallest = planned
            if planned.size_bytes <= wanted and (best is None or planned.predicted < best.predicted):
                best = planned
            if plan is None or _NEAR * wanted <= planned.size_bytes <= wanted:
                break
            if planned.size_bytes <= wanted and plan == finest:
                break
            bits = max(1.0, total_bits(planned.plan) + 8.0 * (0.997 * wanted - planned.size_bytes))
        if smallest is None:
            raise AssertionError("no round")
        return best or smallest

    def _within_tolerance(self, quantizer: Quantizer, choices: Mapping[str, list[Choice]], tolerance: float) -> Planned:
        """The strongest plan whose loss, measured with all matrices stored as planned, is within the tolerance.

        If there is none, the finest. The losses of single matrices do not add up, so that the sum allowed is searched.
        """
        limit = self.original_loss + tolerance
        finest = {name: max(found, key=lambda choice: choice.bits) for name, found in choices.items()}
        best: Plan = finest
        allowed = max(tolerance, 2 * total_distortion(finest))
        low: float | None = None
        high: float | None = None
        for _ in range(_TOLERANCE_ROUNDS):
            plan = plan_within(choices, distortion=allowed)
            if plan is not None and self._loss_of(quantizer, plan) <= limit:
                best, low = plan, allowed
            else:
                high = allowed
            self._progress.advance()
            if low is None or high is None:
                # The first rounds find two bounds.
                allowed = allowed * _WIDE if high is None else allowed / _WIDE
            else:
                allowed = math.sqrt(low * high)
        tolerated = low is not None or self._loss_of(quantizer, finest) <= limit
        return replace(self._planned(quantizer, best), tolerated=tolerated)

    def _loss_of(self, quantizer: Quantizer, plan: Plan) -> float:
        quantized = quantizer.fit(_arrays(self._parameters), plan, self.importance)
        with weights_restored(self._parameters):
            set_weights(self._parameters, quantized)
            return self._subject.evaluate(self._model)


def _arrays(parameters: Mapping[str, nn.Parameter]) -> dict[str, FloatArray]:
    return {name: parameter.detach().float().cpu().numpy() for name, parameter in parameters.items()}
