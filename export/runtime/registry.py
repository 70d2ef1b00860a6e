"""Registry of the runtimes that run bundles. ``export.exporters`` has the rows that make their graphs."""

from typing import Final

from lite_nlp.core.errors import ConfigError, RuntimeUnavailableError
from lite_nlp.core.suggestions import expected_one_of
from lite_nlp.export.runtime.executorch import EXECUTORCH
from lite_nlp.export.runtime.interface import Runtime
from lite_nlp.export.runtime.onnx import ONNX

__all__ = ["RUNTIMES", "find_runtime", "register_runtime"]

#: By name, in the order in which they are tried and listed.
RUNTIMES: Final[dict[str, Runtime]] = {row.name: row for row in (ONNX, EXECUTORCH)}


#: Keys of a manifest, and the runtime that needs no bundle.
_RESERVED: Final = (
    *(
        "schema_version",
        "task",
        "classes",
        "programs",
        "name",
        "versions",
        "precision",
        "languages",
        "vocabulary",
        "bounds",
        "decoding",
        "state",
    ),
    *("parity", "budget", "graphs", "scores", "files", "packed", "runtimes", "merged", "torch"),
)


def register_runtime(runtime: Runtime) -> None:
    """Add a runtime: bundles opened from then on know its entry.

    Raises:
        ConfigError: If the name is taken.
    """
    if runtime.name in RUNTIMES or runtime.name in _RESERVED:
        raise ConfigError(f"runtime {runtime.name}: expected a new name, found one that is taken")
    RUNTIMES[runtime.name] = runtime


def find_runtime(name: str) -> Runtime:
    """The runtime of that name.

    Raises:
        RuntimeUnavailableError: If there is none.
    """
    if name not in RUNTIMES:
        raise RuntimeUnavailableError(f"runtime: {expected_one_of(RUNTIMES, name)}")
    return RUNTIMES[name]
