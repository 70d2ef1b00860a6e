"""Registry of exporters, one row for each runtime; ``export.runtime.registry`` has the rows that run their graphs."""

from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from typing import Final

from lite_nlp.core.errors import UsageError
from lite_nlp.core.suggestions import expected_one_of
from lite_nlp.core.version import __version__
from lite_nlp.export.executorch_program import executorch_runtime_graphs
from lite_nlp.export.exporter import Exporter
from lite_nlp.export.matrices import ProductCall
from lite_nlp.export.mixed.executorch_timing import executorch_product_call
from lite_nlp.export.mixed.onnx_timing import onnx_product_call
from lite_nlp.export.onnx_conversion import onnx_versions
from lite_nlp.export.onnx_graphs import onnx_runtime_graphs
from lite_nlp.export.runtime.layout import Precision

__all__ = ["EXPORTERS", "choose_runtimes", "package_versions", "product_calls"]

#: By the name of the runtime, in the order of ``RUNTIMES``.
EXPORTERS: Final[dict[str, Exporter]] = {
    "onnx": Exporter(
        task="converting to ONNX",
        export=onnx_runtime_graphs,
        precisions=("fp32", "int8", "mixed"),
        versions=onnx_versions,
        product_call=onnx_product_call,
    ),
    "executorch": Exporter(
        task="lowering to ExecuTorch with XNNPACK",
        export=executorch_runtime_graphs,
        precisions=("fp32", "int8", "mixed"),
        versions=lambda: {"executorch": version("executorch")},
        product_call=executorch_product_call,
    ),
}


def choose_runtimes(asked: Sequence[str] | None, precision: Precision, exporters: Mapping[str, Exporter]) -> list[str]:
    """The runtimes to export for.

    Args:
        asked: Names; None for all that have the precision.
        precision: Of the weights.
        exporters: By the name of the runtime.

    Raises:
        UsageError: If a name is unknown, its runtime does not have the precision, or there is none.
    """
    able = [name for name, exporter in exporters.items() if precision in exporter.precisions]
    chosen = able if asked is None else list(dict.fromkeys(asked))
    if not chosen:
        raise UsageError(f"runtimes: expected some of {', '.join(exporters)}, found none")
    for name in chosen:
        if name not in exporters:
            raise UsageError(f"runtimes: {expected_one_of(exporters, name)}")
    unable = next((name for name in chosen if name not in able), None)
    if unable is not None:
        raise UsageError(
            f"runtimes: expected some of {', '.join(able)}, which have {precision} weights, found {unable}"
        )
    return chosen


def product_calls(runtimes: Iterable[str]) -> list[ProductCall]:
    """What a mixed precision times in these runtimes."""
    return [call for runtime in runtimes if (call := EXPORTERS[runtime].product_call) is not None]


def package_versions(exporters: Iterable[Exporter]) -> dict[str, str]:
    """Name of a package, or of a version of a format, to the version that these make a bundle with."""
    versions = {"lite_nlp": __version__, "torch": version("torch")}
    for exporter in exporters:
        versions |= exporter.versions()
    return versions
