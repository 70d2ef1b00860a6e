"""Rate-distortion planning: the way to store each matrix, chosen for all of them together. NumPy only.

For one price of a bit each matrix takes the choice with the smallest distortion plus price times bits; this is the
smallest sum of distortions for the bits that it takes (Shoham and Gersho 1988, "Efficient bit allocation for an
arbitrary set of quantizers").
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from lite_nlp.compress.quantize.protocol import Choice

__all__ = ["Plan", "plan_within", "total_bits", "total_distortion"]

#: The choice for each matrix, by name.
Plan = Mapping[str, Choice]


def total_bits(plan: Plan) -> float:
    """Expected size of all matrices, in bits."""
    return sum(choice.bits for choice in plan.values())


def total_distortion(plan: Plan) -> float:
    """Expected divergence by all matrices, in nats per prediction, as if they added up."""
    return sum(choice.distortion for choice in plan.values())


def plan_within(
    choices: Mapping[str, Sequence[Choice]], *, bits: float | None = None, distortion: float | None = None
) -> dict[str, Choice] | None:
    """The plan with the least distortion within so many bits, or the least bits within so much distortion.

    Starts from the finest choices; then the steps to coarser ones are taken in the order of what they cost, in
    distortion for each bit saved, until the size is reached or the next one would be too much.

    Args:
        choices: The ways to store each matrix, at least one.
        bits: Most bits of all matrices.
        distortion: Most distortion, where no bits are given.

    Returns:
        The plan; None if even the coarsest choices take more bits, or the finest have more distortion.

    Raises:
        ValueError: If neither or both of the limits are given.
    """
    if (bits is None) == (distortion is None):
        raise ValueError("expected bits or distortion, found neither or both")
    hulls = {name: lower_hull(found) for name, found in choices.items()}
    plan = {name: hull[0] for name, hull in hulls.items()}
    steps = sorted(
        (
            ((coarse.distortion - fine.distortion) / (fine.bits - coarse.bits), name, place)
            for name, hull in hulls.items()
            for place, (fine, coarse) in enumerate(pairwise(hull))
        ),
    )
    size, cost = total_bits(plan), total_distortion(plan)
    if distortion is not None and cost > distortion:
        return None
    for _, name, place in steps:
        fine, coarse = hulls[name][place], hulls[name][place + 1]
        if bits is not None and size <= bits:
            break
        if distortion is not None and cost + coarse.distortion - fine.distortion > distortion:
            break
        plan[name] = coarse
        size += coarse.bits - fine.bits
        cost += coarse.distortion - fine.distortion
    return plan if bits is None or size <= bits else None


def lower_hull(choices: Sequence[Choice]) -> list[Choice]:
    """The choices that are best for some price of a bit, from the most bits to the fewest: a convex curve."""
    hull: list[Choice] = []
    for choice in sorted(choices, key=lambda choice: (choice.bits, choice.distortion)):
        if hull and choice.distortion >= hull[-1].distortion:
            continue
        while len(hull) >= 2:
            low, middle = hull[-2:]
            # The middle one is above the line from the one before it to this one.
            if (middle.distortion - choice.distortion) * (choice.bits - low.bits) < (
                low.distortion - choice.distortion
            ) * (choice.bits - middle.bits):
                break
            hull.pop()
        hull.append(choice)
    return hull[::-1]
