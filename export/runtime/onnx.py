"""A bundle's graphs in ONNX Runtime. Imports no torch."""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lite_nlp.core.errors import BundleError
from lite_nlp.core.extras import needs_extra
from lite_nlp.export.runtime.interface import Runtime, RuntimeEntry
from lite_nlp.export.runtime.layout import Layout
from lite_nlp.export.runtime.limits import Text
from lite_nlp.export.runtime.mapped_file import mapped_file
from lite_nlp.export.runtime.signatures import (
    Signature,
    TensorForm,
    check_form,
    check_names,
    decode_step_signature,
    encode_signature,
)

__all__ = ["ONNX", "OnnxEntry", "OnnxRunner"]

#: Severity of what ends the process: warnings are about ONNX Runtime's own optimizer, errors arrive as exceptions.
_FATAL_ONLY: Final = 4

#: Option of a session: where the files lie that a graph given as bytes names.
_WEIGHTS_FOLDER: Final = "session.model_external_initializers_file_folder_path"

#: Types of ONNX Runtime in the manifest's words.
_TYPES: Final = {"tensor(float)": "float32", "tensor(int64)": "int64", "tensor(bool)": "bool"}


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
    new_prefix: Text

    @property
    def members(self) -> tuple[str, ...]:
        """Both graphs and the weights."""
        return self.encode, self.decode_step, self.weights

    def open_runner(self, read: Callable[[str], bytes], layout: Layout, *, threads: int) -> "OnnxRunner":
        """Load both graphs into ONNX Runtime; see :class:`~lite_nlp.export.runtime.interface.RuntimeEntry`."""
        runner = OnnxRunner(
            self,
            encode=read(self.encode),
            decode_step=read(self.decode_step),
            weights=read(self.weights),
            threads=threads,
        )
        runner.check(layout)
        return runner


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
        self._sources = [graph_input.name for graph_input in self._encode.get_inputs()]
        self._results = [output.name for output in self._decode_step.get_outputs()]
        # A tensor that the step has no use for is optimized away from its inputs.
        self._inputs = [graph_input.name for graph_input in self._decode_step.get_inputs()]

    def check(self, layout: Layout) -> None:
        """Check that the graphs are those that the manifest describes.

        Raises:
            BundleError: If an input or output is missing, unknown, or of another type or shape.
        """
        _check_graph("encode", self._encode, encode_signature(layout))
        signature = decode_step_signature(layout)
        named = {name if name == "logits" else self._prefix + name: form for name, form in signature.outputs.items()}
        _check_graph("decode_step", self._decode_step, Signature(signature.inputs, named))

    def encode(self, src_tokens: NDArray[np.int64], src_mask: NDArray[np.bool_]) -> dict[str, NDArray[Any]]:
        """Encode sources, both (B, S); returns the state tensors of origin ``encode``."""
        given = {"src_tokens": src_tokens, "src_mask": src_mask}
        outputs = _run("encode", self._encode, self._encoded, {name: given[name] for name in self._sources})
        return dict(zip(self._encoded, outputs, strict=True))

    def decode_step(
        self, tokens: NDArray[np.int64], state: dict[str, NDArray[Any]]
    ) -> tuple[NDArray[np.float32], dict[str, NDArray[Any]]]:
        """Feed tokens (B,); returns logits (B, V) and the new values of the changing state tensors."""
        given = {"tokens": tokens, **state}
        arguments = {name: given[name] for name in self._inputs}
        outputs = _run("decode_step", self._decode_step, self._results, arguments)
        results = dict(zip(self._results, outputs, strict=True))
        logits = results.pop("logits")
        return logits, {name.removeprefix(self._prefix): value for name, value in results.items()}


def _check_graph(name: str, session: Any, signature: Signature) -> None:
    inputs, outputs = session.get_inputs(), session.get_outputs()
    check_names(f"inputs of {name}", list(signature.inputs), [one.name for one in inputs], all_of_them=False)
    check_names(f"outputs of {name}", list(signature.outputs), [one.name for one in outputs], all_of_them=True)
    known = {**signature.inputs, **signature.outputs}
    for one in (*inputs, *outputs):
        found = TensorForm(_TYPES.get(one.type, one.type), tuple(one.shape))
        check_form(f"{name}: {one.name}", known[one.name], found)


def _run(name: str, session: Any, outputs: list[str], arguments: dict[str, NDArray[Any]]) -> list[NDArray[Any]]:
    try:
        found: list[NDArray[Any]] = session.run(outputs, arguments)
    # The runtime's exceptions derive from Exception directly, one class per status code.
    except Exception as error:
        shapes = ", ".join(f"{key} {value.shape}" for key, value in arguments.items())
        raise BundleError(f"ONNX Runtime failed on {name} with arguments of shapes {shapes}: {error}") from error
    return found


def _load_library() -> Any:
    with needs_extra("--runtime onnx", "runtime", whole=False):
        import onnxruntime
    return onnxruntime


def _create_session(graph: bytes, weights_name: str, weights: bytes, threads: int) -> Any:
    onnxruntime = _load_library()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = _FATAL_ONLY
    # From a file the runtime maps the weights; of content in memory every session has a copy.
    with mapped_file(weights_name, weights) as path:
        options.add_session_config_entry(_WEIGHTS_FOLDER, str(path.parent))
        try:
            # Without the fallback, of which it tells on stdout: there is no other provider to fall back to.
            return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"], enable_fallback=0)
        # The runtime's exceptions derive from Exception directly, one class per status code.
        except Exception as error:
            raise BundleError(f"ONNX Runtime does not accept a graph of the bundle: {error}") from error


ONNX: Final = Runtime(
    name="onnx", package="onnxruntime", graphs="ONNX graphs", entry=OnnxEntry, load_library=_load_library
)
