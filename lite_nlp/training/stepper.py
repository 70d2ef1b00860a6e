"""One optimizer step over all processes; its result does not depend on their number."""

import math
from collections.abc import Sequence
from typing import Final, Generic, NamedTuple, TypeVar

import torch
from accelerate import Accelerator
from torch import nn

from lite_nlp.config.preset import TrainingConfig
from lite_nlp.core.errors import TrainingError
from lite_nlp.training.batching import Work
from lite_nlp.training.device import seed_for
from lite_nlp.training.objective import Objective
from lite_nlp.training.optimizer import build_optimizer, scale_gradients
from lite_nlp.training.processes import sum_gradients
from lite_nlp.training.schedule import learning_rate

__all__ = ["DIVERGED", "StepFigures", "Stepper"]

#: What to do about a training whose figures are not finite any more.
DIVERGED: Final = (
    "start again with a lower training.learning_rate, a longer training.warmup_steps or training.precision=fp32"
)

B = TypeVar("B")


class StepFigures(NamedTuple):
    """Figures of a step, over all processes.

    Attributes:
        loss: The task's loss per target, in nats.
        nll: Negative log-likelihood per target, in nats.
        src_tokens: Source tokens, with end marks, without padding.
        tgt_tokens: Target tokens, with end marks, without padding.
        gradient_norm: Norm of the gradient per target, before clipping.
        learning_rate: Learning rate of the step.
        stopping: Whether any process received a stop signal.
        out_of_time: Whether the time is up for any process.
    """

    loss: float
    nll: float
    src_tokens: int
    tgt_tokens: int
    gradient_norm: float
    learning_rate: float
    stopping: bool
    out_of_time: bool


class Stepper(Generic[B]):
    """The model's optimizer and its steps.

    Args:
        model: The model, on the accelerator's device.
        objective: The loss.
        config: Optimizer and schedule.
        accelerator: The processes.
        total_steps: Steps of the whole training, for the schedule.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        objective: Objective[B],
        config: TrainingConfig,
        accelerator: Accelerator,
        total_steps: int,
    ) -> None:
        self.model = model
        self._objective = objective
        self.optimizer = build_optimizer(model, config)
        self._parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self._config = config
        self._accelerator = accelerator
        self._total_steps = total_steps

    def take(
        self, step: int, batches: Sequence[tuple[Work, B]], *, stopping: bool, out_of_time: bool = False
    ) -> StepFigures:
        """Take one optimizer step on the batches of all processes; every process calls this at every step.

        Args:
            step: The step, counted from 1.
            batches: This process's share of the step, possibly empty.
            stopping: Whether this process received a stop signal; the others are informed.
            out_of_time: Whether the time is up for this process; likewise.

        Raises:
            TrainingError: If the loss or the gradient is not finite; the weights are then as before.
        """
        self.optimizer.zero_grad(set_to_none=True)
        sums = torch.zeros(6, device=self._accelerator.device)
        sums[4], sums[5] = float(stopping), float(out_of_time)
        for work, batch in batches:
            # Dropout depends only on the step and the batch's position in it, not on earlier steps or the process.
            torch.manual_seed(seed_for(self._config.seed, step, work.slot))
            sums[:4] += self._objective.batch_sums(self.model, batch, self._accelerator.device)
        totals = sum_gradients(self._accelerator, self._parameters, sums).tolist()
        loss, nll, src_tokens, tgt_tokens, stops, late = totals
        norm = scale_gradients(self._parameters, count=tgt_tokens, clip_norm=self._config.clip_norm)
        if not (math.isfinite(loss) and math.isfinite(norm)):
            raise TrainingError(
                f"step {step}: expected a finite loss and gradient, found loss {loss / tgt_tokens:g} and gradient norm"
                f" {norm:g}; {DIVERGED}"
            )
        rate = learning_rate(step, config=self._config, total_steps=self._total_steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        return StepFigures(
            loss=loss / tgt_tokens,
            nll=nll / tgt_tokens,
            src_tokens=int(src_tokens),
            tgt_tokens=int(tgt_tokens),
            gradient_norm=norm,
            learning_rate=rate,
            stopping=stops > 0.0,
            out_of_time=late > 0.0,
        )

    def rehearse(self, batch: B) -> int:
        """Run the model on a batch, forward and backward, and leave no trace but the time it took.

        Returns:
            The tokens of the batch.
        """
        buffers = [(buffer, buffer.clone()) for buffer in self.model.buffers()]
        with torch.random.fork_rng(devices=[]):
            _, _, src_tokens, tgt_tokens = self._objective.batch_sums(
                self.model, batch, self._accelerator.device
            ).tolist()
        self.optimizer.zero_grad(set_to_none=True)
        for buffer, before in buffers:
            buffer.copy_(before)
        return int(src_tokens + tgt_tokens)
