"""Registry of exporters, one row for each runtime; ``export.runtime.registry`` has the rows that run their graphs."""

from typing import Final

from lite_nlp.export.executorch_program import EXECUTORCH_EXPORTER
from lite_nlp.export.exporter import Exporter
from lite_nlp.export.onnx_graphs import ONNX_EXPORTER

__all__ = ["EXPORTERS"]

#: By the name of the runtime, in the order of ``RUNTIMES``.
EXPORTERS: Final[dict[str, Exporter]] = {"onnx": ONNX_EXPORTER, "executorch": EXECUTORCH_EXPORTER}
