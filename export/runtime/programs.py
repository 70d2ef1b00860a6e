"""Bundles of language models and classifiers: what the manifest says of their graphs, and their runners. No torch.

Their graphs have names and are called by the names of their inputs: ``decode_step``, ``read`` and ``score`` of a
language model, ``classify`` of a classifier.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from threading import Lock
from typing import Annotated, Any, Final, Literal, Protocol

from numpy.typing import NDArray
from pydantic import Field, field_validator

from lite_nlp.budget.traced.graphs import TASK_GRAPHS
from lite_nlp.core.errors import BundleError
from lite_nlp.decoding.continuation import READ_TOKENS
from lite_nlp.export.runtime.executorch_methods import LoadedProgram, MethodCalls
from lite_nlp.export.runtime.layout import Bounds, Layout, ManifestSection
from lite_nlp.export.runtime.limits import MAX_GRAPHS, MAX_LABELS, MAX_OPERATORS, Text, at_most
from lite_nlp.export.runtime.onnx import Release
from lite_nlp.export.runtime.onnx_session import OnnxGraph, check_version
from lite_nlp.export.runtime.signatures import Signature, TensorForm, decode_step_signature

__all__ = [
    "CHANGED_PREFIX",
    "SENTENCE_SIZES",
    "TRANSLATION",
    "Classes",
    "ExecuTorchPrograms",
    "OnnxPrograms",
    "ProgramRunner",
    "Programs",
    "Task",
    "classify_arguments",
    "graph_sizes",
    "least_tokens",
    "program_signatures",
]

#: What a bundle is for. A bundle that does not say is for translation, which is whatever turns a text into another.
Task = Literal["translation", "language-modelling", "classification"]
TRANSLATION: Final = "translation"

#: What precedes a changing state tensor's name among ``decode_step``'s outputs.
CHANGED_PREFIX: Final = "new."

#: Names of the inputs of ``classify``, and of the number of their tokens, for each sentence.
SENTENCE_SIZES: Final = {"first": "source", "second": "capacity"}

_Arrays = Mapping[str, NDArray[Any]]


class Classes(ManifestSection):
    """What a classifier tells apart.

    Attributes:
        labels: Names of the classes, in the order of the logits; two at least, all different.
        sentences: Sentences of an example, 1 or 2.
    """

    labels: Annotated[tuple[Text, ...], at_most(MAX_LABELS)] = Field(min_length=2)
    sentences: Literal[1, 2]

    @field_validator("labels")
    @classmethod
    def _told_apart(cls, labels: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(labels)) != len(labels):
            raise ValueError("expected different names")
        return labels


class ProgramRunner(Protocol):
    """Calls the graphs of a bundle in one runtime."""

    def run(self, graph: str, arguments: _Arrays) -> dict[str, NDArray[Any]]:
        """The outputs of a graph by name."""
        ...


class OnnxPrograms(ManifestSection):
    """The ONNX graphs of a language model or classifier. Inputs and outputs are bound by name.

    Attributes:
        graphs: File of each graph by the graph's name.
        weights: File with the weights of all, their external data under this very name.
        operators: Those of the graphs that are not of the ONNX standard, ``domain::name``, sorted.
        oldest_runtime: The oldest version of ONNX Runtime, ``major.minor``, that runs the graphs.
    """

    graphs: Annotated[dict[Text, Text], at_most(MAX_GRAPHS)]
    weights: Text = Field(min_length=1)
    operators: Annotated[tuple[Text, ...], at_most(MAX_OPERATORS)]
    oldest_runtime: Release

    @property
    def members(self) -> tuple[str, ...]:
        """Names of the bundle's members that the runtime needs."""
        return (*self.graphs.values(), self.weights)

    @property
    def names(self) -> frozenset[str]:
        """Names of the graphs."""
        return frozenset(self.graphs)

    def open_runner(
        self, read: Callable[[str], bytes], signatures: Mapping[str, Signature], bounds: Bounds, *, threads: int
    ) -> "OnnxProgramRunner":
        """Have the graphs run by ONNX Runtime, for batches of any size.

        Args:
            read: Gives the content of a member by its name.
            signatures: Of the graphs, by the manifest.
            bounds: Largest sizes.
            threads: Threads of one operator.

        Raises:
            RuntimeUnavailableError: If ONNX Runtime is not installed, or too old.
        """
        check_version(self.oldest_runtime)

        def load(name: str) -> OnnxGraph:
            weights = self.weights, read(self.weights)
            return OnnxGraph(
                name, read(self.graphs[name]), weights=weights, signature=signatures[name], threads=threads
            )

        return OnnxProgramRunner(load)


class OnnxProgramRunner:
    """Runs graphs by name, each of which is loaded for its first call.

    Args:
        load: Loads a graph into ONNX Runtime.
    """

    def __init__(self, load: Callable[[str], OnnxGraph]) -> None:
        self._graph = cache(load)

    def run(self, graph: str, arguments: _Arrays) -> dict[str, NDArray[Any]]:
        """The outputs of a graph by name.

        Raises:
            BundleError: If ONNX Runtime does not accept the graph, it is not what the manifest says, or it fails.
        """
        return self._graph(graph).run(arguments)


class ExecuTorchPrograms(ManifestSection):
    """The ExecuTorch program of a language model or classifier, a method for each graph, bound by position.

    Attributes:
        program: The file.
        calls: What each method calls, which tells what was left to ExecuTorch's own kernels.
    """

    program: Text = Field(min_length=1)
    calls: Annotated[dict[Text, MethodCalls], at_most(MAX_GRAPHS)]

    @property
    def members(self) -> tuple[str, ...]:
        """The program, which holds its weights."""
        return (self.program,)

    @property
    def names(self) -> frozenset[str]:
        """Names of the methods."""
        return frozenset(self.calls)

    def open_runner(
        self, read: Callable[[str], bytes], signatures: Mapping[str, Signature], bounds: Bounds, *, threads: int
    ) -> "ExecuTorchProgramRunner":
        """Have the methods run by ExecuTorch; arguments as of :meth:`OnnxPrograms.open_runner`.

        Raises:
            MissingExtraError: If ExecuTorch is not installed.
            BundleError: If it does not accept the program, or its methods are not what the manifest says.
        """
        return ExecuTorchProgramRunner(read(self.program), signatures, bounds, threads=threads)


class ExecuTorchProgramRunner:
    """Runs methods by name, each of which gets its memory for its first call; threads that use it at once take turns.

    Args:
        content: The ``.pte`` file.
        signatures: Of the methods.
        bounds: Largest sizes; of a larger batch so many rows as fit are run at a time.
        threads: Threads of one operator.
    """

    def __init__(self, content: bytes, signatures: Mapping[str, Signature], bounds: Bounds, *, threads: int) -> None:
        self._program = LoadedProgram(content, threads=threads)
        self._signatures = signatures
        self._sizes = {name: graph_sizes(name, bounds) for name in signatures}
        for name, signature in signatures.items():
            self._program.check(name, signature, self._sizes[name])
        self._method = cache(lambda name: self._program.load(name, signatures[name], self._sizes[name]))
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


class Programs(ManifestSection):
    """What a bundle for another task than translation holds for each runtime."""

    onnx: OnnxPrograms | None = None
    executorch: ExecuTorchPrograms | None = None

    @property
    def entries(self) -> dict[str, OnnxPrograms | ExecuTorchPrograms]:
        """By the name of the runtime, those that the bundle has graphs for."""
        found = {"onnx": self.onnx, "executorch": self.executorch}
        return {name: entry for name, entry in found.items() if entry is not None}


def graph_sizes(name: str, bounds: Bounds) -> dict[str, int]:
    """The largest size of each symbol in a graph.

    An ExecuTorch method plans memory for its largest sizes: where it takes more than one token of a row these are fewer
    rows, and where caches come with them one row and fewer tokens.
    """
    sizes = bounds.largest
    if name == "read":
        tokens = min(READ_TOKENS, bounds.source, bounds.capacity)
        return sizes | {"batch": 1, "source": tokens}
    return sizes if name == "decode_step" else sizes | {"batch": bounds.executorch_sources}


def least_tokens(name: str) -> int:
    """The fewest source tokens that a graph is called with: a single one is read by ``decode_step``."""
    return 2 if name == "read" else 1


def program_signatures(task: str, layout: Layout, classes: Classes | None = None) -> dict[str, Signature]:
    """What the manifest says of the graphs of a language model or classifier.

    Args:
        task: Of the bundle.
        layout: State and vocabulary of a language model.
        classes: Of a classifier.

    Raises:
        BundleError: If the task has no such graphs.
    """
    if task not in TASK_GRAPHS:
        raise BundleError(f"expected a bundle of a language model or a classifier, found one for {task}")
    if classes is not None:
        return {"classify": _classify_signature(classes)}
    text = TensorForm("int64", ("batch", "source"))
    step = decode_step_signature(layout, new_prefix=CHANGED_PREFIX)
    return {
        "decode_step": step,
        "read": replace(step, inputs={**step.inputs, "tokens": text}),
        "score": Signature(
            inputs={"tokens": text, "labels": text},
            outputs={"log_probs": TensorForm("float32", ("batch", "source"))},
        ),
    }


def classify_arguments(sentences: Sequence[tuple[NDArray[Any], NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    """The inputs of ``classify``, of the tokens and mask of each sentence."""
    arguments: dict[str, NDArray[Any]] = {}
    for name, (tokens, mask) in zip(SENTENCE_SIZES, sentences, strict=False):
        arguments |= {f"{name}_tokens": tokens, f"{name}_mask": mask}
    return arguments


def _classify_signature(classes: Classes) -> Signature:
    inputs = {}
    for name, size in list(SENTENCE_SIZES.items())[: classes.sentences]:
        inputs[f"{name}_tokens"] = TensorForm("int64", ("batch", size))
        inputs[f"{name}_mask"] = TensorForm("bool", ("batch", size))
    return Signature(inputs=inputs, outputs={"logits": TensorForm("float32", ("batch", len(classes.labels)))})
