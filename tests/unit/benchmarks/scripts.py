"""The files of ``benchmarks/``, which are no package: they import each other by their bare names."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).parents[3] / "benchmarks"


@contextmanager
def loaded(*names: str) -> Iterator[dict[str, ModuleType]]:
    """Some of them by name, for as long as this lasts."""
    before = set(sys.modules)
    sys.path.insert(0, str(FOLDER))
    try:
        yield {name: importlib.import_module(name) for name in names}
    finally:
        sys.path.remove(str(FOLDER))
        for name in set(sys.modules) - before:
            if Path(str(getattr(sys.modules[name], "__file__", None))).parent == FOLDER:
                del sys.modules[name]
