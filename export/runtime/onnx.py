"""A bundle's graphs in ONNX Runtime. Imports no torch."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Annotated, Any, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from lite_nlp.core.errors import BundleError, RuntimeUnavailableError
from lite_nlp.core.extras import needs_extra
from lite_nlp.export.runtime.interface import Runtime, RuntimeEntry
from lite_nlp.export.runtime.layout import Layout
from lite_nlp.export.runtime.limits import MAX_OPERATORS, Text, at_most
from lite_nlp.export.runtime.mapped_file import mapped_file
from lite_nlp.export.runtime.signatures import (
    LOG_PROBS,
    TOKENS,
    Signature,
    TensorForm,
    check_form,
    check_names,
    decode_step_signature,
    encode_signature,
    greedy_signature,
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
        greedy: File of a whole greedy search: ``src_tokens``, ``src_mask`` and ``limits`` to ``TOKENS`` and
            ``LOG_PROBS``.
        weights: File with the weights of all, their external data under this very name.
        new_prefix: What precedes a changing state tensor's name among ``decode_step``'s outputs.
        operators: Those of the graphs that are not of the ONNX standard, ``domain::name``, sorted.
        oldest_runtime: The oldest version of ONNX Runtime, ``major.minor``, that runs the graphs.
    """

    encode: str
    decode_step: str
    greedy: str
    weights: str
    new_prefix: Text
    operators: Annotated[tuple[Text, ...], at_most(MAX_OPERATORS)]
    oldest_runtime: Annotated[str, Field(pattern=r"^[0-9]{1,4}\.[0-9]{1,4}$")]

    @property
    def members(self) -> tuple[str, ...]:
        """The graphs and the weights."""
        return self.encode, self.decode_step, self.greedy, self.weights

    def open_runner(self, read: Callable[[str], bytes], layout: Layout, *, threads: int) -> "OnnxRunner":
        """Load the graph that is used most; see :class:`~lite_nlp.export.runtime.interface.RuntimeEntry`."""
        _check_version(self.oldest_runtime)
        runner = OnnxRunner(self, read, layout, threads=threads)
        runner.load_greedy()
        return runner


class OnnxRunner:
    """Runs the graphs on the CPU, each loaded when it is first needed: two searches' graphs hold the weights twice.

    Args:
        entry: Names in the bundle's manifest.
        read: Gives the content of a member by its name.
        layout: Of the graphs.
        threads: Threads of one operator.

    Raises:
        MissingExtraError: By every method, if ONNX Runtime is not installed.
        BundleError: By every method, if it does not accept a graph, or the graph is not what the manifest says.
    """

    def __init__(self, entry: OnnxEntry, read: Callable[[str], bytes], layout: Layout, *, threads: int) -> None:
        self._entry = entry
        self._read = read
        self._layout = layout
        self._threads = threads

    def load_greedy(self) -> None:
        """Load the graph of the greedy search."""
        _ = self._greedy

    def decode_greedily(
        self, src_tokens: NDArray[np.int64], src_mask: NDArray[np.bool_], limits: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Decode sources, both (B, S), in at most ``limits`` (B,) steps; returns tokens and log-probabilities."""
        found = self._greedy.run({"src_tokens": src_tokens, "src_mask": src_mask, "limits": limits})
        return found[TOKENS], found[LOG_PROBS]

    def encode(self, src_tokens: NDArray[np.int64], src_mask: NDArray[np.bool_]) -> dict[str, NDArray[Any]]:
        """Encode sources, both (B, S); returns the state tensors of origin ``encode``."""
        return self._encode.run({"src_tokens": src_tokens, "src_mask": src_mask})

    def decode_step(
        self, tokens: NDArray[np.int64], state: dict[str, NDArray[Any]]
    ) -> tuple[NDArray[np.float32], dict[str, NDArray[Any]]]:
        """Feed tokens (B,); returns logits (B, V) and the new values of the changing state tensors."""
        results = self._decode_step.run({"tokens": tokens, **state})
        logits = results.pop("logits")
        return logits, {name.removeprefix(self._entry.new_prefix): value for name, value in results.items()}

    @cached_property
    def _greedy(self) -> "_Graph":
        return self._load("greedy", self._entry.greedy, greedy_signature())

    @cached_property
    def _encode(self) -> "_Graph":
        return self._load("encode", self._entry.encode, encode_signature(self._layout))

    @cached_property
    def _decode_step(self) -> "_Graph":
        signature, prefix = decode_step_signature(self._layout), self._entry.new_prefix
        named = {name if name == "logits" else prefix + name: form for name, form in signature.outputs.items()}
        return self._load("decode_step", self._entry.decode_step, Signature(signature.inputs, named))

    def _load(self, name: str, member: str, signature: Signature) -> "_Graph":
        entry = self._entry
        session = _create_session(self._read(member), entry.weights, self._read(entry.weights), self._threads)
        _check_graph(name, session, signature)
        return _Graph(name, session)


class _Graph:
    """A graph in ONNX Runtime."""

    def __init__(self, name: str, session: Any) -> None:
        self._name = name
        self._session = session
        # A tensor that the graph has no use for is optimized away from its inputs.
        self._inputs = [value.name for value in session.get_inputs()]
        self._outputs = [value.name for value in session.get_outputs()]

    def run(self, given: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """All outputs, from inputs of which the graph takes those that it has.

        Raises:
            BundleError: If the runtime fails.
        """
        arguments = {name: given[name] for name in self._inputs}
        try:
            found = self._session.run(self._outputs, arguments)
        # The runtime's exceptions derive from Exception directly, one class per status code.
        except Exception as error:
            shapes = ", ".join(f"{key} {value.shape}" for key, value in arguments.items())
            raise BundleError(
                f"ONNX Runtime failed on {self._name} with arguments of shapes {shapes}: {error}"
            ) from error
        return dict(zip(self._outputs, found, strict=True))


def _check_graph(name: str, session: Any, signature: Signature) -> None:
    inputs, outputs = session.get_inputs(), session.get_outputs()
    check_names(f"inputs of {name}", list(signature.inputs), [one.name for one in inputs], all_of_them=False)
    check_names(f"outputs of {name}", list(signature.outputs), [one.name for one in outputs], all_of_them=True)
    known = {**signature.inputs, **signature.outputs}
    for one in (*inputs, *outputs):
        found = TensorForm(_TYPES.get(one.type, one.type), tuple(one.shape))
        check_form(f"{name}: {one.name}", known[one.name], found)


def _check_version(oldest: str) -> None:
    """Compare the installed version with the one that a bundle needs.

    Raises:
        RuntimeUnavailableError: If it is older.
    """
    found = _load_library().__version__
    if _release(found) < _release(oldest):
        raise RuntimeUnavailableError(
            f"--runtime onnx: expected ONNX Runtime {oldest} or newer, which the bundle's operators need, found "
            f"{found}; lite-nlp export --portable makes a bundle for older ones"
        )


def _release(version: str) -> tuple[int, ...]:
    """Major and minor number."""
    return tuple(int(part) for part in version.split(".")[:2])


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
