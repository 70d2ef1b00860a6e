"""The task's score on a part of the validation split, for the curves of a run whose loss decides."""

import time
from collections.abc import Callable
from typing import Any, Final

from torch import nn

from lite_nlp.training.objective import Objective

__all__ = ["ScoreSamples"]

#: Examples of a sample.
_EXAMPLES: Final = 100

#: Most time that samples may take, as a part of that of the optimizer steps, and what the first one is taken to cost.
_SHARE: Final = 0.05
_FIRST_SECONDS: Final = 3.0


class ScoreSamples:
    """Scores of a sample at validations, as long as they cost at most a twentieth of the training.

    A score such as BLEU needs whole translations. On the whole split that can take as long as the training between two
    validations, so without a sample a run that is watched by its loss would have no curve of it.

    Args:
        objective: Measures the scores.
        clock: Returns the seconds since some moment.
    """

    def __init__(self, objective: Objective[Any], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._objective = objective
        self._clock = clock
        self._spent = 0.0
        self._last = _FIRST_SECONDS

    def take(self, model: nn.Module, *, training_seconds: float) -> dict[str, float]:
        """Scores of a sample, each name after ``sample_``; empty where it would cost too much.

        Args:
            model: In training mode, in which it is left.
            training_seconds: Seconds that the run has spent in optimizer steps.
        """
        if not self._objective.measures or self._spent + self._last > _SHARE * training_seconds:
            return {}
        begin = self._clock()
        model.eval()
        scores = self._objective.measure(model, examples=_EXAMPLES)
        model.train()
        self._last = self._clock() - begin
        self._spent += self._last
        return {f"sample_{name}": score for name, score in scores.items()}
