"""Bundles of language models and classifiers: what the manifest says of their graphs, and their runners. No torch.

Their graphs have names and are called by the names of their inputs: ``decode_step``, ``read`` and ``score`` of a
language model, ``classify`` of a classifier.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final, Literal, cast

from numpy.typing import NDArray
from pydantic import Field, field_validator

from lite_nlp.budget.traced.graphs import TASK_GRAPHS
from lite_nlp.core.errors import BundleError
from lite_nlp.decoding.continuation import READ_TOKENS
from lite_nlp.export.runtime.executorch_methods import MethodCalls
from lite_nlp.export.runtime.layout import Bounds, Layout, ManifestSection
from lite_nlp.export.runtime.limits import (
    MAX_GRAPHS,
    MAX_LABELS,
    MAX_OPERATORS,
    MAX_STATE_TENSORS,
    Text,
    at_most,
)
from lite_nlp.export.runtime.onnx import Release
from lite_nlp.export.runtime.onnx_session import OnnxGraph, check_version
from lite_nlp.export.runtime.program_runners import ExecuTorchProgramRunner, OnnxProgramRunner
from lite_nlp.export.runtime.signatures import (
    READ_IN_PLACE,
    ROWS_IN_PLACE,
    Signature,
    TensorForm,
    decode_step_signature,
    read_in_place_signature,
    rows_in_place_signature,
)

__all__ = [
    "CHANGED_PREFIX",
    "READING",
    "SENTENCE_SIZES",
    "TRANSLATION",
    "Classes",
    "ExecuTorchPrograms",
    "OnnxPrograms",
    "Programs",
    "Task",
    "classify_arguments",
    "graph_sizes",
    "kept_signatures",
    "least_tokens",
    "program_signatures",
]

#: What a bundle is for. A bundle that does not say is for translation, which is whatever turns a text into another.
Task = Literal["translation", "language-modelling", "classification"]
TRANSLATION: Final = "translation"

#: What precedes a changing state tensor's name among ``decode_step``'s outputs.
CHANGED_PREFIX: Final = "new."

#: Graphs by which a language model reads.
READING: Final = frozenset({"decode_step", "read"})

#: Names of the inputs of ``classify``, and of the number of their tokens, for each sentence.
SENTENCE_SIZES: Final = {"first": "source", "second": "capacity"}


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


class OnnxPrograms(ManifestSection):
    """The ONNX graphs of a language model or classifier. Inputs and outputs are bound by name.

    Attributes:
        graphs: File of each graph by the graph's name.
        weights: File with the weights of all, their external data under this very name.
        operators: Those of the graphs that are not of the ONNX standard, ``domain::name``, sorted.
        oldest_runtime: The oldest version of ONNX Runtime, ``major.minor``, that runs the graphs.
        caches: State tensors of a language model that ``read`` changes in the slots of its tokens alone, where they are
            if it is told to. It takes the place of ``decode_step`` then.
    """

    graphs: Annotated[dict[Text, Text], at_most(MAX_GRAPHS)]
    weights: Text = Field(min_length=1)
    operators: Annotated[tuple[Text, ...], at_most(MAX_OPERATORS)]
    oldest_runtime: Release
    caches: Annotated[tuple[Text, ...], at_most(MAX_STATE_TENSORS)] = ()

    @property
    def members(self) -> tuple[str, ...]:
        """Names of the bundle's members that the runtime needs."""
        return (*self.graphs.values(), self.weights)

    @property
    def names(self) -> frozenset[str]:
        """Names of the graphs, whichever does their work."""
        graphs = frozenset(self.graphs)
        return graphs | {"decode_step"} if self.caches and "read" in graphs else graphs

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

        return OnnxProgramRunner(load, self.caches)


class ExecuTorchPrograms(ManifestSection):
    """The ExecuTorch program of a language model or classifier, bound by position.

    It has a method for each graph, or ``read_in_place`` instead of both by which a language model reads, and then
    perhaps ``decode_rows_in_place`` for several texts at once.

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
        """Names of the graphs, whichever method does their work."""
        methods = frozenset(self.calls)
        return methods - {READ_IN_PLACE, ROWS_IN_PLACE} | READING if READ_IN_PLACE in methods else methods

    def open_runner(
        self, read: Callable[[str], bytes], signatures: Mapping[str, Signature], bounds: Bounds, *, threads: int
    ) -> "ExecuTorchProgramRunner":
        """Have the methods run by ExecuTorch; arguments as of :meth:`OnnxPrograms.open_runner`.

        Raises:
            MissingExtraError: If ExecuTorch is not installed.
            RuntimeUnavailableError: If its library for language models is missing, which the program needs.
            BundleError: If it does not accept the program, or its methods are not what the manifest says.
        """
        known = dict(signatures)
        if READ_IN_PLACE in self.calls:
            known |= kept_signatures(signatures, bounds)
        methods = {name: known[name] for name in self.calls}
        sizes = {name: graph_sizes(name, bounds) for name in methods}
        return ExecuTorchProgramRunner(read(self.program), methods, sizes, threads=threads)


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
    rows, and where caches come with them one row and fewer tokens. Where it keeps the state of several texts, these are
    shorter than the only one may be.
    """
    sizes = bounds.largest
    if name in ("read", READ_IN_PLACE):
        tokens = min(READ_TOKENS, bounds.source, bounds.capacity)
        return sizes | {"batch": 1, "source": tokens}
    if name == ROWS_IN_PLACE:
        return bounds.of_rows.largest
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


def kept_signatures(signatures: Mapping[str, Signature], bounds: Bounds) -> dict[str, Signature]:
    """What the manifest says of the methods that keep a language model's state, from what it says of its graphs."""
    types = cast(int, signatures["decode_step"].outputs["logits"].shape[1])
    # No state is passed.
    rows = rows_in_place_signature(Layout((), bounds, types))
    return {READ_IN_PLACE: read_in_place_signature(types), ROWS_IN_PLACE: rows}


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
