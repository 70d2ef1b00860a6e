"""Packages whose names are imported when they are first used."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["lazy_names"]


def lazy_names(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package whose ``__all__`` has names that are defined elsewhere (PEP 562).

    Args:
        package: ``__name__`` of the package.
        homes: By name, the module that defines it.
    """

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(homes[name]), name)
        # From now on the package has the name itself, and does not ask again.
        setattr(sys.modules[package], name, value)
        return value

    return get, lambda: sorted(vars(sys.modules[package])["__all__"])
