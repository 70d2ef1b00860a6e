"""Registry of exporters, one row for each runtime; ``export.runtime.registry`` has the rows that run their graphs."""

from importlib.metadata import version
from typing import Final

from lite_nlp.export.executorch_program import executorch_runtime_graphs
from lite_nlp.export.exporter import Exporter
from lite_nlp.export.mixed.executorch_timing import executorch_product_call
from lite_nlp.export.mixed.onnx_timing import onnx_product_call
from lite_nlp.export.onnx_conversion import onnx_versions
from lite_nlp.export.onnx_graphs import onnx_runtime_graphs

__all__ = ["EXPORTERS"]

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
