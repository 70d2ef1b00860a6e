"""A bundle's graphs in ONNX Runtime. Imports no torch."""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lite_nlp.core.errors import BundleError
from lite_nlp.core.extras import needs_extra
from lite_nlp.export.runtime.interface import Runtime, RuntimeEntry
from lite_nlp.export.runtime.layout import Layout

__all__ = ["ONNX", "OnnxEntry", "OnnxRunner"]

#: ONNX Runtime's severity of errors; what it says below that is about its own optimizer.
_ERRORS_ONLY = 3


class OnnxEntry(RuntimeEntry):
    """The ONNX graphs. Inputs and outputs are bound by name.

    Attributes:
        encode: File of the encoder: ``src_tokens``, ``src_mask`` to the state tensors of origin ``encode``.
        decode_step: File of the decoder step: ``tokens`` and every state tensor to ``logits`` and the changing ones.
        weights: File with the weights of both, their external data under this very name.
        new_prefix: What precedes a changing state tensor's name among ``decode_step``'s outputs.
    """

    encode: str
    decode_step: str
    weights: str
    new_prefix: str

    @property
    def members(self) -> tuple[str, ...]:
        """Both graphs and the weights."""
        return self.encode, self.decode_step, self.weights

    def open_runner(self, read: Callable[[str], bytes], layout: Layout, *, threads: int) -> "OnnxRunner":
        """Load both graphs into ONNX Runtime; see :class:`~lite_nlp.export.runtime.interface.RuntimeEntry`."""
        return OnnxRunner(
            self,
            encode=read(self.encode),
            decode_step=read(self.decode_step),
            weights=read(self.weights),
            threads=threads,
        )


class OnnxRunner:
    """Runs ``encode`` and ``decode_step`` from memory, on the CPU.

    Args:
        entry: Names in the bundle's manifest.
        encode: The encoder's graph.
        decode_step: The decoder step's graph.
        weights: Weights of both, their external data.
        threads: Threads of one operator.

    Raises:
        MissingExtraError: If ONNX Runtime is not installed.
        BundleError: If it does not accept the graphs.
    """

    def __init__(self, entry: OnnxEntry, *, encode: bytes, decode_step: bytes, weights: bytes, threads: int) -> None:
        self._prefix = entry.new_prefix
        self._encode = _create_session(encode, entry.weights, weights, threads)
        self._decode_step = _create_session(decode_step, entry.weights, weights, threads)
        self._encoded = [output.name for output in self._encode.get_outputs()]
        self._results = [output.name for output in self._decode_step.get_outputs()]
        # A tensor that the step has no use for is optimized away from its inputs.
        self._inputs = [graph_input.name for graph_input in self._decode_step.get_inputs()]

    def encode(self, src_tokens: NDArray[np.int64], src_mask: NDArray[np.bool_]) -> dict[str, NDArray[Any]]:
        """Encode sources, both (B, S); returns the state tensors of origin ``encode``."""
        outputs = self._encode.run(self._encoded, {"src_tokens": src_tokens, "src_mask": src_mask})
        return dict(zip(self._encoded, outputs, strict=True))

    def decode_step(
        self, tokens: NDArray[np.int64], state: dict[str, NDArray[Any]]
    ) -> tuple[NDArray[np.float32], dict[str, NDArray[Any]]]:
        """Feed tokens (B,); returns logits (B, V) and the new values of the changing state tensors."""
        given = {"tokens": tokens, **state}
        outputs = self._decode_step.run(self._results, {name: given[name] for name in self._inputs})
        results = dict(zip(self._results, outputs, strict=True))
        logits = results.pop("logits")
        return logits, {name.removeprefix(self._prefix): value for name, value in results.items()}


def _create_session(graph: bytes, weights_name: str, weights: bytes, threads: int) -> Any:
    with needs_extra("--runtime onnx", "runtime", whole=False):
        import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = _ERRORS_ONLY
    options.add_external_initializers_from_files_in_memory([weights_name], [weights], [len(weights)])
    try:
        return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    # The runtime's exceptions derive from Exception directly, one class per status code.
    except Exception as error:
        raise BundleError(f"ONNX Runtime does not accept a graph of the bundle: {error}") from error


ONNX: Final = Runtime(name="onnx", package="onnxruntime", graphs="ONNX graphs", entry=OnnxEntry)
