"""Mult-Adds of any ``nn.Module``, counted operator by operator while it runs; the work of exported graphs.

The names below need torch and are imported when first used. The records of counts (``graphs``, ``reconciliation`` and
``work``) need none.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lite_nlp.budget.traced.counter import count_parameters, count_stepped_model, count_work
    from lite_nlp.budget.traced.operators import Call
    from lite_nlp.budget.traced.registration import register_operator

__all__ = ["Call", "count_parameters", "count_stepped_model", "count_work", "register_operator"]

_HOMES = {
    "Call": "operators",
    "count_parameters": "counter",
    "count_stepped_model": "counter",
    "count_work": "counter",
    "register_operator": "registration",
}


def __getattr__(name: str) -> Any:
    """Import ``name`` from the module that defines it.

    Raises:
        AttributeError: If this package has no such name.
    """
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
