"""Packages whose names are imported when they are first used."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from inspect import isfunction
from typing import Any

from lite_nlp.core.extras import needs_extra

__all__ = ["lazy_names"]


def lazy_names(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package whose ``__all__`` has names that are defined elsewhere (PEP 562).

    A package of an extra that a function, or the import of its module, does not find is named with its extra.

    Args:
        package: ``__name__`` of the package.
        homes: By name, the module that defines it.
    """

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with needs_extra(name):
            value = getattr(import_module(homes[name]), name)
        if isfunction(value):
            value = needs_extra(name)(value)
            # Another process that is sent the function finds it under this name.
            value.__module__, value.__qualname__ = package, name
        # From now on the package has the name itself, and does not ask again.
        setattr(sys.modules[package], name, value)
        return value

    return get, lambda: sorted(vars(sys.modules[package])["__all__"])
