"""A translator's program in the ExecuTorch runtime."""

import math
from collections.abc import Callable
from functools import cached_property, partial
from threading import RLock
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from lite_nlp.core.special_tokens import EOS_ID
from lite_nlp.export.runtime.executorch_greedy import KeptRows, PassedRows, RowSteps, decode_row, decode_rows
from lite_nlp.export.runtime.executorch_methods import (
    LoadedProgram,
    MethodCalls,
    execute,
    load_library,
    load_operators,
)
from lite_nlp.export.runtime.executorch_rows import ResidentRows, RowsState
from lite_nlp.export.runtime.interface import Runtime, RuntimeEntry, State
from lite_nlp.export.runtime.layout import Layout
from lite_nlp.export.runtime.limits import Text
from lite_nlp.export.runtime.signatures import (
    IN_PLACE,
    ROWS_IN_PLACE,
    Signature,
    decode_step_signature,
    encode_signature,
    in_place_signature,
    rows_in_place_signature,
)
from lite_nlp.export.runtime.tensors import first_state

__all__ = [
    "EXECUTORCH",
    "ExecuTorchEntry",
    "ExecuTorchRunner",
]


class ExecuTorchEntry(RuntimeEntry):
    """The ExecuTorch program, with methods ``encode`` and ``decode_step``.

    Arguments and results are bound by position: those of ``encode`` are ``src_tokens``, ``src_mask`` and the state
    tensors of origin ``encode``; those of ``decode_step`` are ``tokens`` and all state tensors, ``logits`` and the
    changing state tensors; state tensors in the manifest's order.

    Attributes:
        program: The file.
        in_place: Whether there is a method ``decode_in_place`` too, a step of one row whose changing state stays in the
            program: from ``tokens``, ``position`` (from 0, where it begins anew) and the state tensors that do not
            change to ``logits``. It takes operators of ExecuTorch's library for language models.
        rows_in_place: Whether there is a method ``decode_rows_in_place`` too, such a step of several rows: from
            ``tokens``, ``parents``, ``ancestors``, ``place`` and the state tensors that do not change to ``logits``.
        calls: What each method calls, which tells what was left to ExecuTorch's own kernels. Empty in bundles made
            before it was recorded.
    """

    program: str
    in_place: bool = False
    rows_in_place: bool = False
    calls: dict[Text, MethodCalls] = Field(default_factory=dict)

    @property
    def members(self) -> tuple[str, ...]:
        """The program, which holds its weights."""
        return (self.program,)

    def open_runner(self, read: Callable[[str], bytes], layout: Layout, *, threads: int) -> "ExecuTorchRunner":
        """Load the program into ExecuTorch; see :class:`~lite_nlp.export.runtime.interface.RuntimeEntry`."""
        program = read(self.program)
        return ExecuTorchRunner(
            layout, program, threads=threads, in_place=self.in_place, rows_in_place=self.rows_in_place
        )


class ExecuTorchRunner:
    """Runs the methods of a program, and greedy search over them; threads that use it at once take turns.

    Args:
        layout: Order of the state tensors, and the largest batch of a call.
        program: The ``.pte`` file.
        threads: Threads of the process-wide pools, ExecuTorch's and torch's.
        in_place: Whether the program has ``decode_in_place``, by which one row alone is decoded.
        rows_in_place: Whether it has ``decode_rows_in_place``, for beams and batches.

    Attributes:
        keeps_rows: Whether there are steps whose state stays in the program.

    Raises:
        MissingExtraError: If ExecuTorch is not installed.
        BundleError: If the runtime does not accept the program.
    """

    def __init__(
        self, layout: Layout, program: bytes, *, threads: int, in_place: bool = False, rows_in_place: bool = False
    ) -> None:
        self._layout = layout
        self._names = layout.names
        self._encoded = layout.encoded
        self._changing = layout.changing
        self._largest = layout.bounds.largest
        self._max_batch = layout.bounds.executorch_batch
        # The methods share the program's memory, and some keep a search's state there: of several threads one runs, for
        # a whole greedy search or a step of another. No generator holds it between its steps.
        self._lock = RLock()
        self._program = LoadedProgram(program, threads=threads)
        self._sources = layout.bounds.executorch_sources
        self._encode = self._program.load("encode", encode_signature(layout), self._largest | {"batch": self._sources})
        self._program.check("decode_step", decode_step_signature(layout), self._largest)
        able = (in_place or rows_in_place) and load_operators()
        self._in_place = self._load(IN_PLACE, in_place_signature) if in_place and able else None
        self.keeps_rows = rows_in_place and able
        self._rows = ResidentRows(self._execute_rows, layout)

    def begin_rows(self, state: State, rows: int) -> RowsState:
        """Rows before their first step, from the state tensors that do not change; see ``ResidentRows``."""
        return self._rows.begin(state, rows)

    def step_rows(self, tokens: NDArray[np.int64], state: RowsState) -> tuple[NDArray[np.float32], RowsState]:
        """Feed a token of each row, (R,); returns logits (R, V) and the new state."""
        with self._lock:
            logits, state = self._rows.step(tokens, state)
        return logits.numpy(), state

    def reorder_rows(self, state: RowsState, rows: NDArray[np.int64], *, within: bool) -> RowsState:
        """The state whose row ``i`` is the present row ``rows[i]``; see ``ResidentRows``."""
        return self._rows.reorder(state, rows, within=within)

    def encode(self, src_tokens: NDArray[np.int64], src_mask: NDArray[np.bool_]) -> dict[str, NDArray[Any]]:
        """Encode sources, both (B, S); returns the state tensors of origin ``encode``."""
        outputs = self._run_split(self._encode, [src_tokens, src_mask], rows=self._sources)
        return dict(zip(self._encoded, outputs, strict=True))

    def decode_step(
        self, tokens: NDArray[np.int64], state: dict[str, NDArray[Any]]
    ) -> tuple[NDArray[np.float32], dict[str, NDArray[Any]]]:
        """Feed tokens (B,); returns logits (B, V) and the new values of the changing state tensors."""
        outputs = self._run_split(
            self._decode_step, [tokens, *(state[name] for name in self._names)], rows=self._max_batch
        )
        return outputs[0], dict(zip(self._changing, outputs[1:], strict=True))

    def decode_greedily(
        self, src_tokens: NDArray[np.int64], src_mask: NDArray[np.bool_], limits: NDArray[np.int64], min_length: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Decode sources, both (B, S), within ``limits`` (B,) steps; returns tokens and log-probabilities."""
        if self._in_place is not None and len(limits) == 1:
            return self._decode_alone(src_tokens, src_mask, int(limits[0]), min_length)
        found: list[list[int]] = []
        log_probs: list[float] = []
        for start in range(0, len(src_tokens), self._max_batch):
            part = slice(start, start + self._max_batch)
            with self._lock:
                steps = self._begin(src_tokens[part], src_mask[part], limits[part])
                output = decode_rows(steps, limits[part], min_length)
            found += output.tokens
            log_probs += output.log_probs
        tokens = np.full((max(map(len, found)), len(found)), EOS_ID, np.int64)
        for row, made in enumerate(found):
            tokens[: len(made), row] = made
        return tokens, np.array(log_probs, np.float32)

    @cached_property
    def _decode_step(self) -> Any:
        """Loaded for the first step whose state is passed: with the others no search takes one."""
        return self._load("decode_step", decode_step_signature)

    @cached_property
    def _rows_method(self) -> Any:
        """Loaded for the first beam or batch: one sentence after the other, decoded greedily, does without."""
        return self._load(ROWS_IN_PLACE, rows_in_place_signature)

    def _load(self, name: str, signature: Callable[[Layout], Signature]) -> Any:
        return self._program.load(name, signature(self._layout), self._largest)

    def _execute_rows(self, tensors: list[Any]) -> list[Any]:
        return execute(self._rows_method, tensors)

    def _begin(self, src_tokens: NDArray[np.int64], src_mask: NDArray[np.bool_], limits: NDArray[np.int64]) -> RowSteps:
        """Rows of a greedy search, at most ``executorch_batch``."""
        encoded, capacity = self.encode(src_tokens, src_mask), int(limits.max())
        if self.keeps_rows:
            given = first_state(self._layout.given, encoded, src_mask, capacity)
            return KeptRows(self._rows, given, len(limits))
        state = first_state(self._layout.state, encoded, src_mask, capacity)
        return PassedRows(partial(execute, self._decode_step), self._layout, state)

    def _decode_alone(
        self, src_tokens: NDArray[np.int64], src_mask: NDArray[np.bool_], limit: int, min_length: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """``decode_greedily`` of one row (1, S)."""
        with self._lock:
            given = first_state(self._layout.given, self.encode(src_tokens, src_mask), src_mask, limit)
            for _ in range(2):
                tokens, log_prob = decode_row(partial(execute, self._in_place), self._layout, given, limit, min_length)
                if math.isfinite(log_prob):
                    break
                # The state begins as what was there times 0: what is no number stays, be it this sentence's or that of
                # a method with which the memory is shared.
                self._in_place = self._load(IN_PLACE, in_place_signature)
        return np.array(tokens, np.int64)[:, None], np.array([log_prob], np.float32)

    def greedy_slots(self, tokens: NDArray[np.int64], limits: NDArray[np.int64]) -> list[int]:
        """Slots that attention has in each step of each row that gave ``tokens`` (T, B), until the row ends.

        Where the state stays in the program, as many as tokens so far; else all that the caches have.
        """
        steps = (tokens == EOS_ID).argmax(axis=0) + 1
        if self.keeps_rows or (self._in_place is not None and len(limits) == 1):
            return [slot for taken in steps.tolist() for slot in range(1, taken + 1)]
        slots: list[int] = []
        for start in range(0, len(limits), self._max_batch):
            part = slice(start, start + self._max_batch)
            slots += [int(limits[part].max())] * int(steps[part].sum())
        return slots

    def _run_split(self, method: Any, arguments: list[NDArray[Any]], *, rows: int) -> list[NDArray[Any]]:
        """Run a method on at most ``rows`` rows at a time."""
        with self._lock:
            self._rows.forget()
            return self._program.run(method, arguments, rows=rows)


EXECUTORCH: Final = Runtime(
    name="executorch",
    package="executorch",
    graphs="an ExecuTorch program",
    entry=ExecuTorchEntry,
    load_library=load_library,
)
