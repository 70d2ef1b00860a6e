"""Bundles of language models and classifiers behind the interfaces of continuation and classification. No torch."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite_nlp.core.errors import BundleError, RuntimeUnavailableError
from lite_nlp.export.runtime.bundle import Bundle
from lite_nlp.export.runtime.kept_texts import KeptSteps
from lite_nlp.export.runtime.manifest import Manifest
from lite_nlp.export.runtime.program_runners import ProgramRunner, ReadBinder, StateKeeper
from lite_nlp.export.runtime.programs import Classes, classify_arguments, graph_sizes
from lite_nlp.export.runtime.registry import find_runtime
from lite_nlp.export.runtime.tensors import check_ids, expect_tensor
from lite_nlp.export.runtime.text_steps import PassedSteps, TextSteps, WrittenSteps

__all__ = ["ClassifierEngine", "TextEngine", "TextState", "create_classifier_engine", "create_text_engine"]


@dataclass(frozen=True)
class TextState:
    """Texts between calls; used up by the next one.

    Attributes:
        steps: What those of the engine need.
        rows: Texts.
        capacity: Most tokens.
        tokens: Those so far.
    """

    steps: Any
    rows: int
    capacity: int
    tokens: int = 0


class TextEngine:
    """A bundle of a language model in a runtime: a ``lite_nlp.decoding.continuation.TextStepModel``.

    Args:
        manifest: Of the bundle.
        runner: Calls its graphs.

    Attributes:
        max_steps: Largest capacity.
        max_read: Most tokens that are read at once.
        max_tokens: Longest text that is scored at once.
    """

    def __init__(self, manifest: Manifest, runner: ProgramRunner) -> None:
        self._run = runner.run
        self._types = manifest.vocabulary.tgt_size
        self.max_steps = manifest.bounds.capacity
        self.max_read = graph_sizes("read", manifest.bounds)["source"]
        self.max_tokens = manifest.bounds.source
        self._steps: TextSteps
        if isinstance(runner, StateKeeper) and runner.keeps_state:
            self._steps = kept = KeptSteps(manifest.layout, runner, self.max_read)
            self._run = kept.run
        elif isinstance(runner, ReadBinder) and runner.caches:
            self._steps = WrittenSteps(manifest.layout, runner)
        else:
            self._steps = PassedSteps(manifest.layout, runner)

    def most_rows(self, prompt: int, limit: int) -> int | None:
        """Most texts to read at once of ``prompt`` tokens that are continued by ``limit``; None for any number."""
        return self._steps.most_rows(prompt, limit)

    def start(self, rows: int, capacity: int) -> TextState:
        """The state before the first token of so many texts, for at most ``capacity`` tokens.

        Raises:
            BundleError: If the bundle was exported for fewer steps, or runs fewer texts at once.
        """
        if rows < 1 or not 1 <= capacity <= self.max_steps:
            raise BundleError(
                f"capacity: the bundle was exported for 1 to {self.max_steps} steps, found {capacity} of {rows} rows; "
                "expected fewer or an export with a larger --max-tgt-tokens"
            )
        most = self.most_rows(0, capacity)
        if most is not None and rows > most:
            raise BundleError(f"rows: expected at most {most} of {capacity} steps at once, found {rows}")
        return TextState(self._steps.start(rows, capacity), rows=rows, capacity=capacity)

    def read(self, tokens: NDArray[np.int64], state: TextState) -> tuple[NDArray[np.float32], TextState]:
        """Feed the next tokens of each row, (B, T); return the last one's logits (B, V) and the new state.

        Raises:
            BundleError: If there are more than the capacity has left or the bundle takes, one is outside the
                vocabulary, or the graph gives other tensors than the manifest says.
        """
        most = min(self.max_read, state.capacity - state.tokens)
        if tokens.ndim != 2 or len(tokens) != state.rows or not 0 < tokens.shape[1] <= most:
            raise BundleError(
                f"read: expected tokens of {state.rows} rows, 1 to {most} of each, as many as are read at once and the "
                f"state's capacity of {state.capacity} has left, found {tokens.shape}"
            )
        check_ids("read", tokens, self._types)
        logits, steps = self._steps.read(tokens, state.steps, state.tokens)
        return logits, replace(state, steps=steps, tokens=state.tokens + tokens.shape[1])

    def attended(self, state: TextState, tokens: int) -> int:
        """Slots that the attention of so many next tokens goes over."""
        return self._steps.attended(state.steps, tokens, state.tokens)

    def reorder(self, state: TextState, rows: NDArray[np.int64]) -> TextState:
        """Gather rows of the state."""
        return replace(state, steps=self._steps.reorder(state.steps, rows), rows=len(rows))

    def score(self, tokens: NDArray[np.int64], labels: NDArray[np.int64]) -> NDArray[np.float32]:
        """Log-probabilities (B, T) of ``labels`` (B, T), each given ``tokens`` (B, T) up to its position.

        Raises:
            BundleError: If the text is longer than the bundle takes, or a token is outside the vocabulary.
        """
        if tokens.ndim != 2 or tokens.shape != labels.shape or not 0 < tokens.shape[1] <= self.max_tokens:
            raise BundleError(
                f"score: the bundle was exported for texts of 1 to {self.max_tokens} tokens, found tokens and labels "
                f"of shapes {tokens.shape} and {labels.shape}; expected shorter ones or an export with a larger "
                "--max-src-tokens"
            )
        for given in (tokens, labels):
            check_ids("score", given, self._types)
        found = self._run("score", {"tokens": tokens, "labels": labels})
        scores: NDArray[np.float32] = expect_tensor("score: log_probs", found["log_probs"], "float32", tokens.shape)
        return scores


class ClassifierEngine:
    """A bundle of a classifier in a runtime: a ``lite_nlp.decoding.classify.ClassifierModel``.

    Args:
        manifest: Of the bundle.
        classes: Its classes.
        runner: Calls its graph.

    Attributes:
        classes: Labels and sentences.
        max_tokens: Longest sentence, end mark included.
    """

    def __init__(self, manifest: Manifest, classes: Classes, runner: ProgramRunner) -> None:
        self._manifest = manifest
        self._runner = runner
        self.classes = classes
        self.max_tokens = manifest.bounds.source

    def classify(self, sentences: Sequence[tuple[NDArray[np.int64], NDArray[np.bool_]]]) -> NDArray[np.float32]:
        """The logits (B, C) for the tokens and mask, both (B, T), of each sentence.

        Raises:
            BundleError: If there is another number of sentences, one is longer than the bundle takes, or a token is
                outside the vocabulary.
        """
        if len(sentences) != self.classes.sentences:
            raise BundleError(f"classify: expected {self.classes.sentences} sentences, found {len(sentences)}")
        for tokens, mask in sentences:
            if tokens.ndim != 2 or tokens.shape != mask.shape or not 0 < tokens.shape[1] <= self.max_tokens:
                raise BundleError(
                    f"classify: the bundle was exported for sentences of 1 to {self.max_tokens} tokens, end mark "
                    f"included, found tokens and mask of shapes {tokens.shape} and {mask.shape}; expected shorter ones "
                    "or an export with a larger --max-src-tokens"
                )
            check_ids("classify", tokens, self._manifest.vocabulary.src_size)
        rows = len(sentences[0][0])
        logits = self._runner.run("classify", classify_arguments(sentences))["logits"]
        found: NDArray[np.float32] = expect_tensor(
            "classify: logits", logits, "float32", (rows, len(self.classes.labels))
        )
        return found


def create_text_engine(bundle: Bundle, *, runtime: str, threads: int) -> TextEngine:
    """Have the graphs of a language model run by a runtime, which loads each for its first call.

    Args:
        bundle: From ``open_bundle``.
        runtime: Name of a runtime that the bundle has graphs for.
        threads: Threads of one operator.

    Raises:
        RuntimeUnavailableError: If the runtime is unknown, not installed or not in the bundle.
        BundleError: If the bundle is for another task, the runtime does not accept the step, or it is not what the
            manifest says.
    """
    engine = TextEngine(bundle.manifest, _open(bundle, "language-modelling", runtime=runtime, threads=threads))
    # The last token of the vocabulary: what a graph does not state of itself shows here.
    engine.read(np.full((1, 1), bundle.manifest.vocabulary.tgt_size - 1), engine.start(1, 1))
    return engine


def create_classifier_engine(bundle: Bundle, *, runtime: str, threads: int) -> ClassifierEngine:
    """Load the graph of a classifier into a runtime; arguments and errors as of :func:`create_text_engine`."""
    runner = _open(bundle, "classification", runtime=runtime, threads=threads)
    if bundle.manifest.classes is None:
        raise BundleError(f"{bundle.path}: expected the classes of a classifier, found none")
    engine = ClassifierEngine(bundle.manifest, bundle.manifest.classes, runner)
    last = np.full((1, 1), bundle.manifest.vocabulary.src_size - 1)
    engine.classify([(last, np.ones((1, 1), np.bool_))] * engine.classes.sentences)
    return engine


def _open(bundle: Bundle, task: str, *, runtime: str, threads: int) -> ProgramRunner:
    row, manifest = find_runtime(runtime), bundle.manifest
    if manifest.task != task:
        raise BundleError(f"{bundle.path}: expected a bundle for {task}, found one for {manifest.task}")
    entry = manifest.programs.entries.get(runtime)
    if entry is None:
        raise RuntimeUnavailableError(f"{bundle.path}: expected {row.graphs} for --runtime {runtime}, found none")
    return entry.open_runner(bundle.read, manifest.signatures, manifest.bounds, threads=threads)
