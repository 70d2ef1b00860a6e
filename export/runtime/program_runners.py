"""Runners of the graphs of language models and classifiers, which are called by name. No torch."""

from collections.abc import Callable, Collection, Mapping
from functools import cache
from threading import Lock
from typing import Any, Protocol, runtime_checkable

from numpy.typing import NDArray

from lite_nlp.core.errors import RuntimeUnavailableError
from lite_nlp.export.runtime.executorch_methods import LoadedProgram, execute, load_operators
from lite_nlp.export.runtime.onnx_session import OnnxGraph
from lite_nlp.export.runtime.signatures import READ_IN_PLACE, ROWS_IN_PLACE, Signature

__all__ = ["ExecuTorchProgramRunner", "OnnxProgramRunner", "ProgramRunner", "ReadBinder", "StateKeeper"]

_Arrays = Mapping[str, NDArray[Any]]


class ProgramRunner(Protocol):
    """Calls the graphs of a bundle in one runtime."""

    def run(self, graph: str, arguments: _Arrays) -> dict[str, NDArray[Any]]:
        """The outputs of a graph by name."""
        ...


@runtime_checkable
class StateKeeper(ProgramRunner, Protocol):
    """A runner whose runtime may keep a language model's state itself.

    Attributes:
        keeps_state: Whether this one's does: it has ``read_in_place``, which reads one text.
        most_rows: Texts at once that it steps by ``decode_rows_in_place``; 1 if it has no such method.
    """

    keeps_state: bool
    most_rows: int

    def step_rows(self, tensors: list[Any]) -> list[Any]:
        """Call ``decode_rows_in_place`` with torch tensors."""
        ...


@runtime_checkable
class ReadBinder(ProgramRunner, Protocol):
    """A runner that can write a language model's caches where they are.

    Attributes:
        caches: Their names; none if its graphs give new ones.
    """

    caches: Collection[str]

    def bind_read(self, given: _Arrays, results: _Arrays) -> Callable[[], None]:
        """A call of ``read`` that reads and writes always the same arrays.

        Args:
            given: Inputs by name.
            results: Outputs by name; of a cache the input itself.
        """
        ...


class OnnxProgramRunner:
    """Runs graphs by name, each of which is loaded for its first call.

    Args:
        load: Loads a graph into ONNX Runtime.
        caches: State tensors that ``read`` may write where they are.
    """

    def __init__(self, load: Callable[[str], OnnxGraph], caches: Collection[str]) -> None:
        self._graph = cache(load)
        self.caches = caches

    def run(self, graph: str, arguments: _Arrays) -> dict[str, NDArray[Any]]:
        """The outputs of a graph by name.

        Raises:
            BundleError: If ONNX Runtime does not accept the graph, it is not what the manifest says, or it fails.
        """
        return self._graph(graph).run(arguments)

    def bind_read(self, given: _Arrays, results: _Arrays) -> Callable[[], None]:
        """See :class:`ReadBinder`.

        Raises:
            BundleError: As by :meth:`run`.
        """
        return self._graph("read").bind(given, results)


class ExecuTorchProgramRunner:
    """Runs methods by name, each of which gets its memory for its first call; threads that use it at once take turns.

    Args:
        content: The ``.pte`` file.
        signatures: Of the methods.
        sizes: By method, the largest size of each symbol; of a larger batch so many rows as fit are run at a time.
        threads: Threads of one operator.

    Raises:
        RuntimeUnavailableError: If a method needs ExecuTorch's library for language models, and it is not there.
        BundleError: If ExecuTorch does not accept the program, or its methods are not what the signatures say.
    """

    def __init__(
        self,
        content: bytes,
        signatures: Mapping[str, Signature],
        sizes: Mapping[str, Mapping[str, int]],
        *,
        threads: int,
    ) -> None:
        self.keeps_state = READ_IN_PLACE in signatures
        self.most_rows = sizes[ROWS_IN_PLACE]["batch"] if ROWS_IN_PLACE in signatures else 1
        self._program = LoadedProgram(content, threads=threads)
        self._signatures, self._sizes = signatures, sizes
        for name, signature in signatures.items():
            self._program.check(name, signature, sizes[name])
        if self.keeps_state and not load_operators():
            raise RuntimeUnavailableError(
                "--runtime executorch: expected ExecuTorch with its library for language models (llama::custom_sdpa), "
                "found one without it"
            )
        self._method = cache(lambda name: self._program.load(name, signatures[name], sizes[name]))
        # The methods share the program's memory.
        self._lock = Lock()

    def run(self, graph: str, arguments: _Arrays) -> dict[str, NDArray[Any]]:
        """The outputs of a method by name.

        Raises:
            BundleError: If ExecuTorch does not accept the method, or fails.
        """
        signature = self._signatures[graph]
        given = [arguments[name] for name in signature.inputs]
        with self._lock:
            found = self._program.run(self._method(graph), given, rows=self._sizes[graph]["batch"])
        return dict(zip(signature.outputs, found, strict=True))

    def step_rows(self, tensors: list[Any]) -> list[Any]:
        """See :class:`StateKeeper`.

        Raises:
            BundleError: As by :meth:`run`.
        """
        with self._lock:
            return execute(self._method(ROWS_IN_PLACE), tensors)
