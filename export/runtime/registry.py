"""The runtimes that run bundles, one row each. ``export.exporters`` says how their graphs are made."""

from typing import Final

from lite_nlp.core.errors import RuntimeUnavailableError
from lite_nlp.export.runtime.executorch import EXECUTORCH
from lite_nlp.export.runtime.interface import Runtime
from lite_nlp.export.runtime.onnx import ONNX

__all__ = ["RUNTIMES", "find_runtime"]

#: By name, in the order in which they are exported, tried and listed. A bundle opened later knows a row added here.
RUNTIMES: Final[dict[str, Runtime]] = {row.name: row for row in (ONNX, EXECUTORCH)}


def find_runtime(name: str) -> Runtime:
    """The runtime of that name.

    Raises:
        RuntimeUnavailableError: If there is none.
    """
    if name not in RUNTIMES:
        raise RuntimeUnavailableError(f"runtime: expected one of {', '.join(RUNTIMES)}, found {name!r}")
    return RUNTIMES[name]
