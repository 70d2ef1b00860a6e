"""The Mult-Adds of a single call of an operator, whose result is known."""

from collections.abc import Callable

import torch
from torch._ops import OpOverload

from lite_nlp.budget.traced.contractions import ProductTracker
from lite_nlp.budget.traced.operators import FORMULAS, Call, base_name, is_free
from lite_nlp.budget.traced.work import WorkKind
from lite_nlp.core.errors import UnknownOperatorError

__all__ = ["call_work", "is_counted", "refusal"]


def is_counted(operator: OpOverload) -> bool:
    """Whether an operator is counted as it is, instead of by what torch defines it by."""
    name = base_name(operator)
    return name in FORMULAS or ProductTracker.knows(name) or is_free(operator)


def call_work(
    operator: OpOverload, call: Call, products: ProductTracker, *, whereabouts: Callable[[], str] = str
) -> list[tuple[WorkKind, int]]:
    """The Mult-Adds of one call, by kind.

    Args:
        operator: One that :func:`is_counted`.
        call: Its arguments and result.
        products: Has seen the calls before.
        whereabouts: Says where it is called, for the message of an error.

    Raises:
        UnknownOperatorError: If it works on complex numbers.
    """
    name = base_name(operator)
    work = [(kind, formula(call)) for kind, formula in FORMULAS.get(name, ())]
    is_view = operator.is_view or torch.Tag.view_copy in operator.tags
    if contracted := products.observe(name, call.arguments, call.result, is_view=is_view):
        work.append(("contraction", contracted))
    if work and call.is_complex():
        raise UnknownOperatorError(refusal(f"{name} of complex numbers{whereabouts()}"))
    return work


def refusal(operator: str) -> str:
    """What is said of an operator that cannot be counted, given with where it is called."""
    return (
        f"operator {operator}: expected one whose Mult-Adds are known, found no formula for it"
        " (lite_nlp.budget.traced.register_operator gives it one)"
    )
