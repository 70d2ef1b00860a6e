"""Training of a model while its weights become sparse and coarse: gradually, and held as they are at every moment.

Pruning and quantization tighten over the first part of the training and are held over the rest, so that the weights
can make up for each small loss (Zhu and Gupta 2017, arXiv 1710.01878; Han et al. 2016, section 3.3).
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final, TypeVar

import torch
from torch import Tensor, nn

from lite_nlp.compress.prune.magnitude import apply_masks, magnitude_masks
from lite_nlp.compress.quantize.protocol import HeldWeights
from lite_nlp.compress.work import Work
from lite_nlp.core.errors import ModelError

__all__ = ["PrunedWeights", "TuningOptions", "tune"]

Batch = TypeVar("Batch")

#: The learning rate falls along half a cosine to this fraction.
_LAST_RATE: Final = 0.04
#: Longer trainings have a rate that is lower in proportion, so that weights can move as far in all of them, and noise,
#: about the rate times the root of the steps, moves them less: the fall at the end does not bring them back. At 18.2x
#: a model of 4.6M weights diverges from the original by 0.14 nats after 1,000 steps and by 0.20 after 8,000 at the same
#: rate; at a third of it by 0.12 after 2,500 and by 0.145 after 10,000.
_FULL_RATE_STEPS: Final = 1_000
#: Steps, at the beginning of each cycle, over which the learning rate rises.
_WARM_UP: Final = 20
#: Steps between two states to go back to where a loss is no number, and how often that may happen.
_SAFE_EVERY: Final = 50
_MOST_RETREATS: Final = 8


@dataclass(frozen=True, kw_only=True)
class TuningOptions:
    """Length and speed of a tuning.

    Attributes:
        steps: Optimizer steps.
        learning_rate: Adam's highest learning rate for what quantized weights are computed from, in units of the
            distance of their values; beyond 1,000 steps lower in proportion to their number.
        free_learning_rate: That of all other parameters; the same holds for it.
        batches_per_step: Batches whose mean loss each step goes down.
        tightening: Fraction of the steps over which pruning and quantization tighten.
        tighten_every: Steps between two adjustments.
        cycles: How often the learning rate falls, each time over as many of the steps; the first time from its highest,
            then from that of the first cycle's middle. Weights tighten in the first, which counts as the training's
            length for rates and ``tightening``.
    """

    steps: int
    batches_per_step: int = 1
    learning_rate: float = 6e-3
    free_learning_rate: float = 2e-4
    tightening: float = 0.1
    tighten_every: int = 10
    cycles: int = 1

    def shortened(self, share: float, *, least: int) -> "TuningOptions":
        """One cycle with a fraction of the steps, but at least so many if there are as many."""
        return replace(self, steps=min(self.steps, max(least, round(share * self.steps))), cycles=1)

    def slowed(self, factor: float) -> "TuningOptions":
        """The same with all learning rates multiplied by a factor."""
        rates = factor * self.learning_rate, factor * self.free_learning_rate
        return replace(self, learning_rate=rates[0], free_learning_rate=rates[1])

    @property
    def cycle_steps(self) -> float:
        """Steps of a cycle."""
        return self.steps / self.cycles

    def rate(self, step: int) -> float:
        """Factor of the highest learning rates in a step, counted from 0.

        Half a cosine, after a warm-up in which Adam's averages fill, and its second half again in each further cycle.
        """
        cycle = min(int(step / self.cycle_steps), self.cycles - 1)
        within = step - cycle * self.cycle_steps
        progress = within / self.cycle_steps
        if cycle:
            progress = (1 + progress) / 2
        falling = _LAST_RATE + (1 - _LAST_RATE) * 0.5 * (1 + math.cos(math.pi * progress))
        return falling * min(1.0, (within + 1) / _WARM_UP)


def tune(
    model: nn.Module,
    batches: Iterator[Batch],
    loss: Callable[[nn.Module, Batch], Tensor],
    *,
    weights: HeldWeights,
    options: TuningOptions,
    scale: float = 1.0,
    work: Work | None = None,
    on_step: Callable[[float, float], None] = lambda loss, bits: None,
    on_resumed: Callable[[int], None] = lambda steps: None,
) -> None:
    """Train a model in place; interrupted at any moment, it leaves weights in the form that ``weights`` holds them in.

    The model's mode (training or evaluation) is left as it is; dropout is the caller's choice. Where a loss or a
    gradient is no number, training goes back to the last good state and on with half of the learning rate.

    Args:
        model: The model.
        batches: At least as many as all steps take; fewer end it early. The same at every call, if it is to be
            resumed.
        loss: Scalar loss of the model on a batch.
        weights: What holds the weights; it tightens from 0 to 1.
        options: Steps and learning rates.
        scale: Multiplies the bits that the weights tighten to.
        work: Keeps the state from time to time, and goes on from a former one.
        on_step: Called with the loss and the weights' present bits after each step.
        on_resumed: Called with the steps taken before, if it goes on from a kept state.

    Raises:
        ModelError: If losses are no numbers however small the steps are.
    """
    training = _Training(model, weights, options, scale)
    training.resume(work)
    if training.step:
        on_resumed(training.step)
    source = islice(batches, training.consumed, None)
    safe, retreats = training.state(), 0
    try:
        while training.step < options.steps:
            taken = list(islice(source, options.batches_per_step))
            if len(taken) < options.batches_per_step:
                break
            value = training.take(loss, taken)
            if value is None:
                retreats += 1
                if retreats > _MOST_RETREATS:
                    raise ModelError(
                        f"tuning: expected losses that are numbers, found one that is not at step {training.step + 1} "
                        f"also with a learning rate of {options.learning_rate * training.rate:.1e}"
                    )
                training.retreat(safe, 0.5**retreats)
                continue
            if training.step % _SAFE_EVERY == 0:
                safe = training.state()
            if work is not None and work.due():
                work.keep_state(training.state())
            on_step(value, training.bits)
    finally:
        weights.update_weights()
        model.zero_grad(set_to_none=True)


class _Training:
    """The state of a tuning: step, optimizer, held weights.

    Attributes:
        step: Steps taken.
        consumed: Batches taken, those of undone steps included.
        rate: Factor of the learning rates.
        bits: Present size of the held weights.
    """

    def __init__(self, model: nn.Module, weights: HeldWeights, options: TuningOptions, scale: float) -> None:
        self._weights, self._options, self._scale = weights, options, scale
        computed = {id(parameter) for parameter in (*weights.weights, *weights.trained)}
        self._free = [parameter for parameter in model.parameters() if id(parameter) not in computed]
        groups = [
            {"params": list(weights.trained), "lr": options.learning_rate * weights.rate},
            {"params": self._free, "lr": options.free_learning_rate},
        ]
        groups = [group for group in groups if group["params"]]
        self._optimizer = torch.optim.Adam(groups, betas=(0.9, 0.98), fused=True)
        length = min(1.0, _FULL_RATE_STEPS / options.cycle_steps)
        self._highest = [length * float(group["lr"]) for group in self._optimizer.param_groups]
        self._model = model
        self.step = self.consumed = 0
        self.rate = 1.0
        self.bits = weights.tighten(self._share(), scale)

    def take(self, loss: Callable[[nn.Module, Batch], Tensor], batches: Sequence[Batch]) -> float | None:
        """Take a step down the mean loss of batches; None, and nothing is changed, if it or a gradient is no number."""
        self.consumed += len(batches)
        self._model.zero_grad(set_to_none=True)
        shares = []
        # One after the other: each takes the memory of its own batch.
        for batch in batches:
            share = loss(self._model, batch) / len(batches)
            share.backward()  # type: ignore[no-untyped-call]
            shares.append(share.detach())
        self._weights.pass_gradients()
        gradients = [p.grad for p in (*self._weights.trained, *self._free) if p.grad is not None]
        # Read together, once for each step: an accelerator works ahead until a number is read.
        mean = torch.stack(shares).sum()
        read = [mean, *(gradient.sum() for gradient in gradients)]
        sums = torch.stack([number.to(mean.device, torch.float32) for number in read]).tolist()
        if not all(map(math.isfinite, sums)):
            return None
        rate = self.rate * self._options.rate(self.step)
        for group, highest in zip(self._optimizer.param_groups, self._highest, strict=True):
            group["lr"] = highest * rate
        self._optimizer.step()
        self.step += 1
        if self.step % self._options.tighten_every == 0 or self.step == self._options.steps:
            self.bits = self._weights.tighten(self._share(), self._scale)
        else:
            self._weights.update_weights()
        return float(sums[0])

    def retreat(self, state: Mapping[str, Any], rate: float) -> None:
        """Go back to a state, on with other batches and a smaller learning rate."""
        consumed = self.consumed
        self._restore(state)
        self.consumed, self.rate = consumed, rate

    def resume(self, work: Work | None) -> None:
        """Go on from a kept state, if there is one."""
        if work is not None and (state := work.state()) is not None:
            self._restore(state)

    def state(self) -> dict[str, Any]:
        """Everything that the next steps depend on."""
        optimizer = self._optimizer.state_dict()
        return {
            "step": self.step,
            "consumed": self.consumed,
            "rate": self.rate,
            "bits": self.bits,
            "trained": [parameter.detach().clone() for parameter in self._weights.trained],
            "free": [parameter.detach().clone() for parameter in self._free],
            "moments": {
                number: {key: value.clone() for key, value in moments.items()}
                for number, moments in optimizer["state"].items()
            },
            "held": self._weights.state(),
        }

    @torch.no_grad()
    def _restore(self, state: Mapping[str, Any]) -> None:
        for kept, parameters in ((state["trained"], self._weights.trained), (state["free"], self._free)):
            for value, parameter in zip(kept, parameters, strict=True):
                parameter.copy_(value)
        moments = {
            number: {key: value.clone() for key, value in found.items()} for number, found in state["moments"].items()
        }
        self._optimizer.load_state_dict({**self._optimizer.state_dict(), "state": moments})
        self.step, self.consumed = int(state["step"]), int(state["consumed"])
        self.rate, self.bits = float(state["rate"]), float(state["bits"])
        self._weights.restore(state["held"])

    def _share(self) -> float:
        steps = self._options.tightening * self._options.cycle_steps
        return min(1.0, self.step / steps) if steps else 1.0


class PrunedWeights:
    """Weights in training of which the smallest are zero, more and more of them.

    Args:
        parameters: The matrices of a model, by name.
        sparsities: The fraction of zeros at the end, under the same names.
    """

    #: Of the learning rate of quantized weights, in units of the root mean square of all: these have no steps.
    rate: Final = 1 / 30

    def __init__(self, parameters: Mapping[str, nn.Parameter], sparsities: Mapping[str, float]) -> None:
        self._parameters, self._sparsities = dict(parameters), dict(sparsities)
        self._masks: dict[str, Tensor] = {}

    @property
    def weights(self) -> Sequence[nn.Parameter]:
        """None: these weights are trained themselves."""
        return ()

    @property
    def trained(self) -> Sequence[nn.Parameter]:
        """The matrices."""
        return list(self._parameters.values())

    def pass_gradients(self) -> None:
        """Leave the gradients as they are: what they move of pruned weights is taken back."""

    def update_weights(self) -> None:
        """Set pruned weights to zero."""
        apply_masks(self._parameters, self._masks)

    def tighten(self, share: float, scale: float = 1.0) -> float:
        """Prune on, by a cubic law in ``share`` (Zhu and Gupta 2017, section 3); zeros stay zero."""
        done = 1 - (1 - min(share, 1.0)) ** 3
        present = {name: 1 - scale * (1 - done * sparsity) for name, sparsity in self._sparsities.items()}
        self._masks = magnitude_masks(self._parameters, present)
        self.update_weights()
        return 32.0 * sum(float(mask.sum()) for mask in self._masks.values())

    def state(self) -> dict[str, Any]:
        """The masks."""
        return {"masks": dict(self._masks)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on with those masks."""
        # A kept state is read on the processor.
        masks: Mapping[str, Tensor] = state["masks"]
        self._masks = {name: mask.to(self._parameters[name].device) for name, mask in masks.items()}
        self.update_weights()
