"""Greedy choice of what to remove: always the least loss for what it saves."""

from collections.abc import Callable, Iterable
from typing import TypeVar

__all__ = ["remove_greedily"]

S = TypeVar("S")


def remove_greedily(
    start: S,
    *,
    moves: Callable[[S], Iterable[S]],
    loss: Callable[[S], float],
    cost: Callable[[S], float],
    limit: float,
) -> S:
    """Remove step by step until the cost is within its limit.

    Each step is the one of the least additional loss per cost saved; what a step saves beyond the limit counts nothing,
    so that the last steps are small ones.

    Args:
        start: Of what something is removed.
        moves: What one step can make of it.
        loss: Expected loss of what is left.
        cost: Its cost.
        limit: Largest cost.

    Returns:
        What is left, within the limit, or beyond it where no step saves anything.
    """
    state, now, lost = start, cost(start), loss(start)
    while now > limit:
        rated: list[tuple[float, float, int, S]] = []
        for after in moves(state):
            saved = min(now - cost(after), now - limit)
            if saved > 0:
                rated.append((max(0.0, loss(after) - lost) / saved, -saved, len(rated), after))
        if not rated:
            break
        # Of equal ones what saves most, then the first.
        state = min(rated, key=lambda item: item[:3])[3]
        now, lost = cost(state), loss(state)
    return state
