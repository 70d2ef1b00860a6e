"""A bundle's graphs behind the search's step interface, whatever runtime runs them. Imports no torch."""

from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lite_nlp.core.errors import BundleError, RuntimeUnavailableError
from lite_nlp.core.special_tokens import EOS_ID, SPECIAL_TOKENS
from lite_nlp.decoding.hypotheses import damaged_model
from lite_nlp.decoding.step_models import BeamCall, BeamSteps
from lite_nlp.export.runtime.beam_checks import check_call, check_steps
from lite_nlp.export.runtime.bundle import Bundle
from lite_nlp.export.runtime.interface import (
    BeamState,
    GraphRunner,
    GreedyRunner,
    RowsRunner,
    RowsState,
    SearchRunner,
    State,
)
from lite_nlp.export.runtime.manifest import Manifest
from lite_nlp.export.runtime.registry import find_runtime
from lite_nlp.export.runtime.tensors import check_ids, expect_tensor, first_state

__all__ = ["Engine", "EngineState", "GreedyEngine", "RowsEngine", "SearchEngine", "create_engine"]

#: Types that are no candidates.
_SPECIALS: Final = len(SPECIAL_TOKENS)


@dataclass(frozen=True)
class EngineState:
    """State between steps.

    Attributes:
        tensors: By name; the batch is the first dimension of each.
        sentences: (B,), of which source each row is.
        source: Tokens of the longest source.
        capacity: Steps that it has place for.
        steps: Steps so far.
    """

    tensors: State
    sentences: NDArray[np.int64]
    source: int
    capacity: int
    steps: int = 0


@dataclass(frozen=True)
class _Beams:
    """State between steps of a beam search.

    Attributes:
        state: The runner's.
        sentences: That are in it.
        rows: Hypotheses of all of them.
        capacity: Steps that it has place for.
    """

    state: BeamState
    sentences: int
    rows: int
    capacity: int


class Engine:
    """A bundle in a runtime: a ``lite_nlp.decoding.step_models.StepModel``.

    Args:
        manifest: Of the bundle.
        runner: Calls its graphs.

    Attributes:
        max_source_tokens: Longest source, end mark included.
        max_steps: Largest capacity.
    """

    def __init__(self, manifest: Manifest, runner: GraphRunner) -> None:
        self._manifest = manifest
        self._runner = runner
        self._changing = manifest.layout.changing
        self.max_source_tokens = manifest.bounds.source
        self.max_steps = manifest.bounds.capacity

    def start(self, src_tokens: NDArray[np.int64], src_mask: NDArray[np.bool_], capacity: int) -> EngineState:
        """Encode the sources, both (B, S), and make the state for ``capacity`` steps.

        Raises:
            BundleError: If the sources or the capacity exceed the bundle's bounds, or a token its vocabulary, or the
                graph gives other tensors than the manifest says.
        """
        self._check(src_tokens, src_mask, capacity)
        encoded = self._runner.encode(src_tokens, src_mask)
        tensors = first_state(self._manifest.state, encoded, src_mask, capacity)
        sentences = np.arange(len(src_tokens))
        return EngineState(tensors, sentences=sentences, source=src_tokens.shape[1], capacity=capacity)

    def step(self, tokens: NDArray[np.int64], state: EngineState) -> tuple[NDArray[np.float32], EngineState]:
        """Feed one token per row, (B,); return logits (B, V) and the new state.

        Raises:
            BundleError: If the capacity is used up, a token is outside the vocabulary, or the graph gives other tensors
                than the manifest says.
        """
        size, rows = self._manifest.vocabulary.tgt_size, len(state.sentences)
        self._check_step(tokens, state)
        logits, changed = self._runner.decode_step(np.ascontiguousarray(tokens, np.int64), state.tensors)
        expect_tensor("decode_step: logits", logits, "float32", (rows, size))
        tensors = dict(state.tensors)
        for name in self._changing:
            before = tensors[name]
            tensors[name] = expect_tensor(f"decode_step: {name}", changed.get(name), before.dtype, before.shape)
        return logits, replace(state, tensors=tensors, steps=state.steps + 1)

    def reorder(self, state: EngineState, rows: NDArray[np.int64]) -> EngineState:
        """Gather rows of the state: only what steps change, as long as every row stays one of its sentence."""
        sentences = state.sentences[rows]
        within = np.array_equal(sentences, state.sentences)
        moved = self._changing if within else state.tensors
        gathered = {name: state.tensors[name][rows] for name in moved}
        return replace(state, tensors={**state.tensors, **gathered}, sentences=sentences)

    def try_out(self) -> None:
        """One step for one token, the last ones of the vocabularies: what graphs do not say of themselves shows here.

        Raises:
            BundleError: If it fails.
        """
        vocabulary = self._manifest.vocabulary
        # The graphs that every bundle has, whatever the engine of this one has besides.
        state = Engine.start(self, np.full((1, 1), vocabulary.src_size - 1), np.ones((1, 1), np.bool_), 1)
        Engine.step(self, np.full(1, vocabulary.tgt_size - 1), state)

    def _check_step(self, tokens: NDArray[np.int64], state: "EngineState | _Rows") -> None:
        if state.steps >= state.capacity:
            raise BundleError(
                f"step: expected at most {state.capacity} steps, the capacity of the state, found one more"
            )
        rows = len(state.sentences)
        if tokens.shape != (rows,) or rows == 0:
            raise BundleError(f"step: expected a token for each of {rows} rows, found {tokens.shape}")
        check_ids("step", tokens, self._manifest.vocabulary.tgt_size)

    def _check(self, src_tokens: NDArray[np.int64], src_mask: NDArray[np.bool_], capacity: int) -> None:
        if src_tokens.ndim != 2 or src_tokens.shape != src_mask.shape or 0 in src_tokens.shape:
            raise BundleError(
                "source: expected tokens and mask of one shape (rows, tokens), found "
                f"{src_tokens.shape} and {src_mask.shape}"
            )
        if src_tokens.shape[1] > self.max_source_tokens:
            raise BundleError(
                f"source: the bundle was exported for at most {self.max_source_tokens} tokens, end mark included, "
                f"found {src_tokens.shape[1]}; expected a shorter source or an export with a larger --max-src-tokens"
            )
        if not 1 <= capacity <= self.max_steps:
            raise BundleError(
                f"capacity: the bundle was exported for 1 to {self.max_steps} decoder steps, found {capacity}; "
                "expected fewer or an export with a larger --max-tgt-tokens"
            )
        check_ids("source", src_tokens, self._manifest.vocabulary.src_size)


class GreedyEngine(Engine):
    """An engine that decodes greedily in one call: a greedy model of ``lite_nlp.decoding.step_models``.

    Args:
        manifest: Of the bundle.
        runner: Calls its graphs.
    """

    def __init__(self, manifest: Manifest, runner: GreedyRunner) -> None:
        super().__init__(manifest, runner)
        self._greedy_runner = runner

    def decode_greedily(
        self, src_tokens: NDArray[np.int64], src_mask: NDArray[np.bool_], limits: NDArray[np.int64], min_length: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Decode sources, both (B, S), within ``limits`` (B,) steps; returns tokens (T, B) and log-probabilities.

        Raises:
            BundleError: If the sources or a limit exceed the bundle's bounds, or a token its vocabulary, or the graph
                gives other tensors than it should.
            ModelError: If the model's logits are no numbers.
        """
        self._check(src_tokens, src_mask, int(limits.max()))
        tokens, log_probs = self._greedy_runner.decode_greedily(src_tokens, src_mask, limits, min_length)
        rows = len(src_tokens)
        steps = min(len(tokens), int(limits.max())) if tokens.ndim else 0
        expect_tensor("greedy: tokens", tokens, "int64", (max(steps, 1), rows))
        expect_tensor("greedy: log_probs", log_probs, "float32", (rows,))
        # Before the tokens: the largest of such logits may be any type.
        if np.isnan(log_probs).any():
            raise damaged_model()
        check_ids("greedy", tokens, self._manifest.vocabulary.tgt_size, least=EOS_ID)
        if not (tokens == EOS_ID).any(axis=0).all():
            raise BundleError(f"greedy: expected an end mark in every row, found none in {steps} steps")
        return tokens, log_probs

    def greedy_slots(self, tokens: NDArray[np.int64], limits: NDArray[np.int64]) -> list[int]:
        """Slots of the caches in each step of each row that gave ``tokens`` (T, B)."""
        return self._greedy_runner.greedy_slots(tokens, limits)


class _Rows(NamedTuple):
    """State between steps whose tensors the runner keeps.

    Attributes:
        state: The runner's.
        encoded: What the encoder gave.
        src_mask: (B, S), of its sources.
        sentences: (R,), of which source each row is.
        capacity: Steps that it has place for.
    """

    state: RowsState
    encoded: State
    src_mask: NDArray[np.bool_]
    sentences: NDArray[np.int64]
    capacity: int

    @property
    def steps(self) -> int:
        """Steps so far."""
        return int(self.state.tokens.shape[1])


class RowsEngine(GreedyEngine):
    """An engine whose runner keeps the state of some rows: a ``lite_nlp.decoding.step_models.RowsModel``.

    Args:
        manifest: Of the bundle.
        runner: Calls its graphs.

    Attributes:
        most_rows: That it keeps the state of; the state of more goes into every step and comes out of it.
    """

    def __init__(self, manifest: Manifest, runner: RowsRunner) -> None:
        super().__init__(manifest, runner)
        self._rows_runner = runner
        self.most_rows = manifest.bounds.executorch_batch

    def start(self, src_tokens: NDArray[np.int64], src_mask: NDArray[np.bool_], capacity: int) -> Any:
        """As of ``Engine``."""
        if len(src_tokens) > self.most_rows:
            return super().start(src_tokens, src_mask, capacity)
        self._check(src_tokens, src_mask, capacity)
        encoded = self._runner.encode(src_tokens, src_mask)
        given = first_state(self._manifest.layout.given, encoded, src_mask, capacity)
        sentences = np.arange(len(src_tokens))
        return _Rows(self._rows_runner.begin_rows(given, len(src_tokens)), encoded, src_mask, sentences, capacity)

    def step(self, tokens: NDArray[np.int64], state: EngineState | _Rows) -> tuple[NDArray[np.float32], Any]:
        """As of ``Engine``."""
        if isinstance(state, EngineState):
            return super().step(tokens, state)
        self._check_step(tokens, state)
        logits, kept = self._rows_runner.step_rows(np.ascontiguousarray(tokens, np.int64), state.state)
        return logits, state._replace(state=kept)

    def reorder(self, state: EngineState | _Rows, rows: NDArray[np.int64]) -> Any:
        """As of ``Engine``."""
        if isinstance(state, EngineState):
            return super().reorder(state, rows)
        sentences = state.sentences[rows]
        if len(rows) > self.most_rows:
            return self._passed(state, sentences, state.state.tokens[rows])
        within = np.array_equal(sentences, state.sentences)
        kept = self._rows_runner.reorder_rows(state.state, rows, within=within)
        return state._replace(state=kept, sentences=sentences)

    def step_slots(self, state: EngineState | _Rows) -> int:
        """Slots that attention has in the next step."""
        return state.capacity if isinstance(state, EngineState) else state.steps + 1

    def _passed(self, state: _Rows, sentences: NDArray[np.int64], tokens: NDArray[np.int64]) -> EngineState:
        """The same state for steps that it goes into, its tokens fed once more."""
        tensors = first_state(self._manifest.state, state.encoded, state.src_mask, state.capacity)
        gathered = {name: value[sentences] for name, value in tensors.items()}
        source = state.src_mask.shape[1]
        passed = EngineState(gathered, sentences=sentences, source=source, capacity=state.capacity)
        for fed in tokens.T:
            _, passed = super().step(fed, passed)
        return passed


class SearchEngine(GreedyEngine):
    """An engine with graphs for steps of beam search too: a beam model of ``lite_nlp.decoding.step_models``.

    Args:
        manifest: Of the bundle.
        runner: Calls its graphs.
    """

    def __init__(self, manifest: Manifest, runner: SearchRunner) -> None:
        super().__init__(manifest, runner)
        self._search_runner = runner

    def search_beams(self, call: BeamCall, state: EngineState | _Beams) -> tuple[BeamSteps, _Beams]:
        """Take steps of a beam search; see ``lite_nlp.decoding.step_models.BeamModel``.

        Raises:
            BundleError: If a limit is beyond the capacity, a token outside the vocabulary, an index outside the state,
                or the graph gives other tensors than it should.
        """
        if isinstance(state, EngineState):
            sentences = rows = next((len(value) for value in state.tensors.values()), len(call.tokens))
            begun = self._search_runner.begin_beams(state.tensors, capacity=state.capacity)
            state = _Beams(begun, sentences, rows, state.capacity)
        check_call(call, sentences=state.sentences, rows=state.rows, capacity=state.capacity)
        size = self._manifest.vocabulary.tgt_size
        check_ids("beam: tokens", call.tokens, size)
        call = replace(call, count=min(call.count, size - _SPECIALS))
        made, beams = self._search_runner.search_beams(call, state.state)
        check_steps(made, call)
        check_ids("beam: tokens made", made.tokens, size)
        return made, _Beams(beams, len(call.tokens), call.tokens.size, state.capacity)

    def try_out(self) -> None:
        """A search of one step, as of ``Engine``."""
        token = np.full((1, 1), self._manifest.vocabulary.src_size - 1)
        self.decode_greedily(token, np.ones((1, 1), np.bool_), np.ones(1, np.int64), 0)


def create_engine(bundle: Bundle, *, runtime: str, threads: int) -> Engine:
    """Load a bundle's graphs into a runtime.

    Args:
        bundle: From ``open_bundle``.
        runtime: Name of one of ``lite_nlp.export.runtime.registry.RUNTIMES``.
        threads: Threads of one operator. ExecuTorch has one pool for the whole process: the last call counts.

    Raises:
        RuntimeUnavailableError: If the runtime is unknown, not installed or not in the bundle.
        BundleError: If the runtime does not accept the graphs, or they are not what the manifest says.
    """
    row, manifest = find_runtime(runtime), bundle.manifest
    entry = manifest.runtimes.get(runtime)
    if entry is None:
        raise RuntimeUnavailableError(f"{bundle.path}: expected {row.graphs} for --runtime {runtime}, found none")
    runner = entry.open_runner(bundle.read, manifest.layout, threads=threads)
    engine = _make_engine(manifest, runner)
    try:
        engine.try_out()
    except BundleError as error:
        raise BundleError(f"{bundle.path}: the graphs for --runtime {runtime} do not run: {error}") from error
    return engine


def _make_engine(manifest: Manifest, runner: GraphRunner) -> Engine:
    if isinstance(runner, SearchRunner):
        return SearchEngine(manifest, runner)
    if isinstance(runner, RowsRunner) and runner.keeps_rows:
        return RowsEngine(manifest, runner)
    return GreedyEngine(manifest, runner) if isinstance(runner, GreedyRunner) else Engine(manifest, runner)
