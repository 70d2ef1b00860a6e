"""Why a plan is as it is, for the ledger: what was predicted, measured and weighed up for each matrix."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from lite_nlp.budget.reporting.plan import MAX_FIGURE, ComparedQuantizer, MatrixPlan, MatrixProbe, PlanRecord
from lite_nlp.compress.planning import lower_hull
from lite_nlp.compress.quantize.protocol import Choice
from lite_nlp.compress.sensitivity import Sensitivity

if TYPE_CHECKING:
    from lite_nlp.compress.planner import Planned, Planner

__all__ = ["compared_quantizers", "explain_plan", "preferred", "price_of"]

_MILLION: Final = 1e6


def explain_plan(
    planner: "Planner",
    planned: "Planned",
    *,
    compared: Sequence[ComparedQuantizer],
    target_bytes: int | None,
    tolerance: float,
) -> PlanRecord:
    """The record of a plan.

    Args:
        planner: What planned it.
        planned: The plan chosen.
        compared: The quantizers planned with.
        target_bytes: Largest size of the file; None without one.
        tolerance: Largest increase of the loss by the plan, where there is no target.
    """
    choices = planner.choices(planned.quantizer)
    return PlanRecord(
        quantizer=planned.quantizer.name,
        target_bytes=target_bytes,
        tolerance=_rounded(tolerance) if target_bytes is None else None,
        vector_bits=planner.vector_bits,
        compared=tuple(compared),
        matrices=tuple(
            _explain(name, choice, choices[name], planner.sensitivities[name]) for name, choice in planned.plan.items()
        ),
    )


#: Increases of the loss that are as good as the same after brief training, as a share of the least.
_TIE: Final = 0.05


def preferred(tuned: Sequence[float], untuned: Sequence[float], *, base: float) -> int:
    """Which of several plans to train for long: that of the least loss after brief training.

    Where others are as good, the one that lost least without training: its weights are closer to the model's, and what
    brief training has brought back elsewhere is less than what long training brings back here.

    Args:
        tuned: The loss with each after brief training.
        untuned: The same without.
        base: The model's own.
    """
    least = min(tuned)
    bound = least + _TIE * max(0.0, least - base)
    return min((place for place, loss in enumerate(tuned) if loss <= bound), key=lambda place: untuned[place])


def compared_quantizers(
    planner: "Planner",
    planned: Sequence["Planned"],
    losses: Sequence[float],
    tuned_losses: Sequence[float] | None = None,
) -> tuple[ComparedQuantizer, ...]:
    """The quantizers planned with: those that fit, then those that are too large.

    Args:
        planner: What planned.
        planned: The plans that fit.
        losses: The loss of each without training.
        tuned_losses: The loss of each after brief training; None where that did not decide.
    """
    base = planner.original_loss
    fitting = [
        ComparedQuantizer(
            quantizer=plan.quantizer.name,
            size_bytes=plan.size_bytes,
            fits=True,
            predicted=_rounded(plan.predicted),
            loss=_rounded(loss - base),
            tuned_loss=None if tuned_losses is None else _rounded(tuned_losses[place] - base),
        )
        for place, (plan, loss) in enumerate(zip(planned, losses, strict=True))
    ]
    too_large = [
        ComparedQuantizer(quantizer=name, size_bytes=plan.size_bytes, fits=False)
        for name, plan in planner.too_large.items()
    ]
    return (*fitting, *too_large)


def price_of(choice: Choice, choices: Sequence[Choice]) -> float | None:
    """Nats that one byte more would save: the slope of the lower hull from a choice to the next finer one.

    The matrices of a plan have about the same price where they have choices on both sides: else bytes moved from one
    to another would lower the sum (Shoham and Gersho 1988).

    Returns:
        The price; None for the finest choice of the hull, and for one that is not on it.
    """
    hull = lower_hull(choices)
    place = hull.index(choice) if choice in hull else 0
    if not place:
        return None
    finer = hull[place - 1]
    return 8 * (choice.distortion - finer.distortion) / (finer.bits - choice.bits)


def _explain(name: str, choice: Choice, choices: Sequence[Choice], sensitivity: Sensitivity) -> MatrixPlan:
    weights = sensitivity.num_weights
    bits_per_weight = choice.bits / weights
    coarsest = sensitivity.probes[-1]
    price = price_of(choice, choices)
    return MatrixPlan(
        name=name,
        weights=weights,
        values=choice.levels,
        step=_rounded(choice.step),
        sparsity=_rounded(choice.sparsity),
        bits_per_weight=_rounded(bits_per_weight),
        size_bytes=round(choice.bits / 8),
        fisher=_rounded(choice.distortion / sensitivity.factor(bits_per_weight)),
        predicted=_rounded(choice.distortion),
        price=None if price is None else _rounded(price),
        sensitivity=_rounded(_MILLION * coarsest.predicted * coarsest.factor / weights),
        probes=tuple(
            MatrixProbe(**{key: _rounded(value) for key, value in asdict(probe).items()})
            for probe in sensitivity.probes
        ),
    )


def _rounded(value: float) -> float:
    """Six significant digits: a measurement has no more, and a ledger has thousands of these.

    What is beyond the bounds of a record, such as the infinite loss of weights that are too coarse, is put on them.
    """
    return float(f"{min(max(float(value), -MAX_FIGURE), MAX_FIGURE):.6g}")
