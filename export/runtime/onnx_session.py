"""Graphs in ONNX Runtime. Imports no torch."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lite_nlp.core.errors import BundleError, RuntimeUnavailableError
from lite_nlp.core.extras import needs_extra
from lite_nlp.export.runtime.mapped_file import mapped_file
from lite_nlp.export.runtime.signatures import Signature, TensorForm, check_form, check_names

__all__ = ["OnnxGraph", "Value", "check_version", "load_library"]

#: A tensor of ONNX Runtime, which a graph takes and gives without a copy.
Value: TypeAlias = Any

#: Severity of what ends the process: warnings are about ONNX Runtime's own optimizer, errors arrive as exceptions.
_FATAL_ONLY: Final = 4

#: Option of a session: where the files lie that a graph given as bytes names.
_WEIGHTS_FOLDER: Final = "session.model_external_initializers_file_folder_path"

#: Option of a session: optimizations to leave out. The fusion of a sum with the layer norm after it makes an operator
#: that takes five times as long as the two; versions before 1.31 do not know the option.
_LEFT_OUT: Final = ("optimization.disable_specified_optimizers", "SkipLayerNormFusion")

#: Types of ONNX Runtime in the manifest's words.
_TYPES: Final = {
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    "tensor(int64)": "int64",
    "tensor(bool)": "bool",
}


class OnnxGraph:
    """A graph in ONNX Runtime, on the CPU.

    Args:
        name: Its name, for messages.
        content: The graph.
        weights: Name and content of its external data.
        signature: What the manifest says of it.
        threads: Threads of one operator.

    Raises:
        MissingExtraError: If ONNX Runtime is not installed.
        BundleError: If it does not accept the graph, or the graph is not what the manifest says.

    Attributes:
        input_shapes: Sizes of the graph's inputs by name, strings where they are symbols.
    """

    def __init__(
        self, name: str, content: bytes, *, weights: tuple[str, bytes], signature: Signature, threads: int
    ) -> None:
        self._name = name
        self._session = _create_session(content, *weights, threads)
        self._as_value = load_library().OrtValue.ortvalue_from_numpy
        _check_graph(name, self._session, signature)
        # A tensor that the graph has no use for is optimized away from its inputs.
        self.input_shapes = {value.name: tuple(value.shape) for value in self._session.get_inputs()}
        self._outputs = [value.name for value in self._session.get_outputs()]

    def run(self, given: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """All outputs, from inputs of which the graph takes those that it has.

        Raises:
            BundleError: If the runtime fails.
        """
        arguments = {name: np.asarray(given[name], order="C") for name in self.input_shapes}
        try:
            found = self._session.run(self._outputs, arguments)
        # The runtime's exceptions derive from Exception directly, one class per status code.
        except Exception as error:
            raise self._failure(error, {name: value.shape for name, value in arguments.items()}) from error
        return dict(zip(self._outputs, found, strict=True))

    def run_values(self, given: Mapping[str, Value]) -> dict[str, Value]:
        """As ``run``, with tensors of the runtime, which is what the results of a step are for the next one."""
        arguments = {name: given[name] for name in self.input_shapes}
        try:
            found = self._session.run_with_ort_values(self._outputs, arguments)
        except Exception as error:
            raise self._failure(error, {name: value.shape() for name, value in arguments.items()}) from error
        return dict(zip(self._outputs, found, strict=True))

    def bind(self, given: Mapping[str, NDArray[Any]], results: Mapping[str, NDArray[Any]]) -> Callable[[], None]:
        """A call that always reads its inputs from the same arrays and writes its outputs to the same.

        Whoever makes it keeps the arrays, of which the runtime knows no more than their memory.

        Args:
            given: Inputs by name, of which the graph takes those that it has.
            results: All outputs by name. One may be an input too, for operators that read nothing where they wrote.

        Returns:
            Makes the call; raises a ``BundleError`` if the runtime fails.
        """
        binding = self._session.io_binding()
        for name in self.input_shapes:
            binding.bind_ortvalue_input(name, self._as_value(given[name]))
        for name in self._outputs:
            binding.bind_ortvalue_output(name, self._as_value(results[name]))

        def call() -> None:
            try:
                self._session.run_with_iobinding(binding)
            except Exception as error:
                shapes = {name: given[name].shape for name in self.input_shapes}
                raise self._failure(error, shapes) from error

        return call

    def as_values(self, tensors: Mapping[str, NDArray[Any]]) -> dict[str, Value]:
        """Arrays as tensors of the runtime, which keeps them and shares their memory where they lie in order."""
        return {name: self._as_value(np.asarray(tensor, order="C")) for name, tensor in tensors.items()}

    def _failure(self, error: Exception, shapes: Mapping[str, Sequence[int]]) -> BundleError:
        told = ", ".join(f"{name} {tuple(shape)}" for name, shape in shapes.items())
        return BundleError(f"ONNX Runtime failed on {self._name} with arguments of shapes {told}: {error}")


def check_version(oldest: str) -> None:
    """Compare the installed version with the one that a bundle needs.

    Raises:
        RuntimeUnavailableError: If it is older.
    """
    found = load_library().__version__
    if _release(found) < _release(oldest):
        raise RuntimeUnavailableError(
            f"--runtime onnx: expected ONNX Runtime {oldest} or newer, which the bundle's operators need, found "
            f"{found}; lite-nlp export --portable makes a bundle for older ones"
        )


def _release(version: str) -> tuple[int, ...]:
    """Major and minor number."""
    return tuple(int(part) for part in version.split(".")[:2])


def load_library() -> Any:
    """Import ONNX Runtime.

    Raises:
        MissingExtraError: If it is not installed.
    """
    with needs_extra("--runtime onnx", "runtime", whole=False):
        import onnxruntime
    return onnxruntime


def _create_session(graph: bytes, weights_name: str, weights: bytes, threads: int) -> Any:
    onnxruntime = load_library()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = _FATAL_ONLY
    options.add_session_config_entry(*_LEFT_OUT)
    # From a file the runtime maps the weights; of content in memory every session has a copy.
    with mapped_file(weights_name, weights) as path:
        options.add_session_config_entry(_WEIGHTS_FOLDER, str(path.parent))
        try:
            # Without the fallback, of which it tells on stdout: there is no other provider to fall back to.
            return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"], enable_fallback=0)
        # The runtime's exceptions derive from Exception directly, one class per status code.
        except Exception as error:
            raise BundleError(f"ONNX Runtime does not accept a graph of the bundle: {error}") from error


def _check_graph(name: str, session: Any, signature: Signature) -> None:
    inputs, outputs = session.get_inputs(), session.get_outputs()
    check_names(f"inputs of {name}", list(signature.inputs), [one.name for one in inputs], all_of_them=False)
    check_names(f"outputs of {name}", list(signature.outputs), [one.name for one in outputs], all_of_them=True)
    known = {**signature.inputs, **signature.outputs}
    for one in (*inputs, *outputs):
        found = TensorForm(_TYPES.get(one.type, one.type), tuple(one.shape))
        check_form(f"{name}: {one.name}", known[one.name], found)
