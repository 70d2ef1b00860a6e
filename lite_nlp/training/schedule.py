"""Learning rate schedules: a linear warm-up, then a decay."""

import math

from lite_nlp.config.preset import TrainingConfig

__all__ = ["learning_rate"]


def learning_rate(step: int, *, config: TrainingConfig, total_steps: int) -> float:
    """The learning rate of an optimizer step.

    The rate rises linearly to ``config.learning_rate`` over ``config.warmup_steps`` steps. Then it falls with the
    square root of the step (``inverse_sqrt``; Vaswani et al. 2017, section 5.3), along half a cosine that ends at
    ``total_steps`` (``cosine``; Loshchilov and Hutter 2017, equation 5), or stays (``constant``). After the warm-up
    it is never below ``config.min_learning_rate``.

    Args:
        step: The step, counted from 1.
        config: Peak, warm-up and schedule.
        total_steps: Steps of the whole training; only ``cosine`` depends on it.
    """
    peak, floor, warmup = config.learning_rate, config.min_learning_rate, config.warmup_steps
    if step < warmup:
        return peak * step / warmup
    if config.schedule == "inverse_sqrt":
        return max(floor, peak * math.sqrt(max(warmup, 1) / step))
    if config.schedule == "cosine":
        progress = min(1.0, (step - warmup) / max(total_steps - warmup, 1))
        return floor + max(peak - floor, 0.0) * 0.5 * (1.0 + math.cos(math.pi * progress))
    return max(floor, peak)
