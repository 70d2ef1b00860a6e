"""Bundles of language models and classifiers: what the manifest says of their graphs, and their runner. No torch.

Their graphs have names and are called by the names of their inputs: ``decode_step`` and ``score`` of a language model,
``classify`` of a classifier.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, Literal, Protocol

from numpy.typing import NDArray
from pydantic import Field, field_validator

from lite_nlp.budget.traced.graphs import TASK_GRAPHS
from lite_nlp.core.errors import BundleError
from lite_nlp.export.runtime.layout import Layout, ManifestSection
from lite_nlp.export.runtime.limits import MAX_GRAPHS, MAX_LABELS, Text, at_most
from lite_nlp.export.runtime.onnx_session import OnnxGraph
from lite_nlp.export.runtime.signatures import Signature, TensorForm, decode_step_signature

__all__ = [
    "CHANGED_PREFIX",
    "SENTENCE_SIZES",
    "TRANSLATION",
    "Classes",
    "OnnxPrograms",
    "ProgramRunner",
    "Programs",
    "Task",
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
    """

    graphs: Annotated[dict[Text, Text], at_most(MAX_GRAPHS)]
    weights: Text = Field(min_length=1)

    @property
    def members(self) -> tuple[str, ...]:
        """Names of the bundle's members that the runtime needs."""
        return (*self.graphs.values(), self.weights)

    def open_runner(
        self, read: Callable[[str], bytes], signatures: Mapping[str, Signature], *, threads: int
    ) -> "OnnxProgramRunner":
        """Load the graphs into ONNX Runtime.

        Args:
            read: Gives the content of a member by its name.
            signatures: Of the graphs, by the manifest.
            threads: Threads of one operator.

        Raises:
            MissingExtraError: If ONNX Runtime is not installed.
            BundleError: If it does not accept the graphs, or they are not what the manifest says.
        """
        weights = self.weights, read(self.weights)
        return OnnxProgramRunner(
            {
                name: OnnxGraph(name, read(file), weights=weights, signature=signatures[name], threads=threads)
                for name, file in self.graphs.items()
            }
        )


class OnnxProgramRunner:
    """Runs graphs by name.

    Args:
        graphs: In ONNX Runtime.
    """

    def __init__(self, graphs: Mapping[str, OnnxGraph]) -> None:
        self._graphs = dict(graphs)

    def run(self, graph: str, arguments: _Arrays) -> dict[str, NDArray[Any]]:
        """The outputs of a graph by name.

        Raises:
            BundleError: If ONNX Runtime fails.
        """
        return self._graphs[graph].run(arguments)


class Programs(ManifestSection):
    """What a bundle for another task than translation holds for each runtime."""

    onnx: OnnxPrograms | None = None

    @property
    def members(self) -> tuple[str, ...]:
        """Names of the bundle's members that the runtimes need."""
        return () if self.onnx is None else self.onnx.members


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
    return {
        "decode_step": decode_step_signature(layout, new_prefix=CHANGED_PREFIX),
        "score": Signature(
            inputs={"tokens": text, "labels": text},
            outputs={"log_probs": TensorForm("float32", ("batch", "source"))},
        ),
    }


def _classify_signature(classes: Classes) -> Signature:
    inputs = {}
    for name, size in list(SENTENCE_SIZES.items())[: classes.sentences]:
        inputs[f"{name}_tokens"] = TensorForm("int64", ("batch", size))
        inputs[f"{name}_mask"] = TensorForm("bool", ("batch", size))
    return Signature(inputs=inputs, outputs={"logits": TensorForm("float32", ("batch", len(classes.labels)))})
