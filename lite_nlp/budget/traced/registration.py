"""Formulas for operators that the counter does not know, such as those of a ``torch.library`` of one's own.

An operator of one's own reaches the counter as a whole, so that only its author can say how many Mult-Adds it takes::

    @torch.library.custom_op("mylib::scan", mutates_args=())
    def scan(x: Tensor, decay: Tensor) -> Tensor: ...

    scan.register_fake(lambda x, decay: torch.empty_like(x))

    @register_operator("mylib::scan")
    def count_scan(call: Call) -> int:
        return call.result_size()  # one multiply-accumulate for each element
"""

import re
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self, overload

from lite_nlp.budget.traced.contractions import ProductTracker
from lite_nlp.budget.traced.operators import FORMULAS, Call, Formula, is_free_name
from lite_nlp.budget.traced.work import WORK_KINDS, WorkKind
from lite_nlp.core.errors import CountError, UsageError
from lite_nlp.core.suggestions import expected_one_of

__all__ = ["Registration", "register_operator"]

_QUALIFIED: Final = re.compile(r"(?P<library>\w+)::(?P<name>\w+)")


class Registration:
    """A registered formula. As a context manager it ends with the block; otherwise it lasts as long as the process.

    Args:
        operator: The operator, as the counter names it.
        work: Its kind of work and formula.
    """

    def __init__(self, operator: str, work: tuple[tuple[WorkKind, Formula], ...]) -> None:
        self._operator = operator
        self._before = FORMULAS.get(operator)
        FORMULAS[operator] = work

    def undo(self) -> None:
        """Restore the formula of before, or none."""
        if self._before is None:
            FORMULAS.pop(self._operator, None)
        else:
            FORMULAS[self._operator] = self._before

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.undo()


@overload
def register_operator(
    name: str, formula: Formula, *, kind: WorkKind = "matmul", replace: bool = False
) -> Registration: ...


@overload
def register_operator(
    name: str, formula: None = None, *, kind: WorkKind = "matmul", replace: bool = False
) -> Callable[[Formula], Formula]: ...


def register_operator(
    name: str, formula: Formula | None = None, *, kind: WorkKind = "matmul", replace: bool = False
) -> Registration | Callable[[Formula], Formula]:
    """Register the number of Mult-Adds of an operator with the counter.

    The formula holds for all overloads of the operator and for its variant in place. An operator that torch itself
    takes apart before it dispatches it (CompositeImplicitAutograd) is counted by its parts and needs no formula.

    Args:
        name: The operator as torch names it, ``library::operator``.
        formula: From a :class:`~lite_nlp.budget.traced.operators.Call`, which has the arguments by name, their shapes
            and the result, to the Mult-Adds; 0 for an operator that only moves numbers. Left out, the call is a
            decorator of the formula.
        kind: The kind of work; the norms are columns of their own, one for each normalised element.
        replace: Whether a formula that is there already may be replaced.

    Returns:
        The registration, usable as a context manager that undoes it; the decorator if ``formula`` is left out.

    Raises:
        UsageError: If ``name`` or ``kind`` is malformed, the operator has a formula or is known to be free and
            ``replace`` is not set, or it is one of the products and sums that are counted together.
    """
    operator = _base_name(name)
    if kind not in WORK_KINDS:
        raise UsageError(f"kind of operator {name}: {expected_one_of(WORK_KINDS, kind)}")
    if ProductTracker.knows(operator):
        raise UsageError(f"operator {name}: expected one that is counted by itself, found one of a product and its sum")
    if not replace and (operator in FORMULAS or is_free_name(operator)):
        raise UsageError(
            f"operator {name}: expected one whose cost is not known, found one that is; replace=True replaces it"
        )
    if formula is not None:
        return Registration(operator, ((kind, _checked(name, formula)),))

    def decorate(given: Formula) -> Formula:
        register_operator(name, given, kind=kind, replace=replace)
        return given

    return decorate


def _base_name(name: str) -> str:
    """The name under which the counter looks an operator up, as :func:`~.operators.base_name` forms it."""
    match = _QUALIFIED.fullmatch(name)
    if match is None:
        raise UsageError(f"name of an operator: expected library::operator, found {name!r}")
    operator = match["name"] if match["name"].startswith("__") else match["name"].removesuffix("_")
    return f"{match['library']}.{operator}"


def _checked(name: str, formula: Formula) -> Formula:
    """``formula``, held to what a count is made of."""

    def count(call: Call) -> int:
        macs = formula(call)
        if isinstance(macs, bool) or not isinstance(macs, int) or macs < 0:
            raise CountError(f"formula of operator {name}: expected an integer of at least 0, found {macs!r}")
        return macs

    return count
