"""How a language model's state goes from one call to the next: as tensors, or changed where it is. No torch.

In the runtime it stays by ``kept_texts``.

Shape letters: B rows, T tokens, V types.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from lite_nlp.export.runtime.interface import State
from lite_nlp.export.runtime.layout import Layout
from lite_nlp.export.runtime.program_runners import ProgramRunner, ReadBinder
from lite_nlp.export.runtime.programs import CHANGED_PREFIX
from lite_nlp.export.runtime.tensors import expect_tensor, zero_state

__all__ = ["PassedSteps", "TextRead", "TextSteps", "WrittenSteps"]

#: Tokens that tensors have place for at first, and by which that grows: what is passed goes whole into every call and
#: comes out of it, whatever of it is in use.
_ROOM: Final = 64

#: Logits (B, V) and the new state.
TextRead = tuple[NDArray[np.float32], Any]


class TextSteps(Protocol):
    """Reads the tokens of rows. What :meth:`read` or :meth:`reorder` was given must not be used again."""

    def most_rows(self, prompt: int, limit: int) -> int | None:
        """Most rows to take at once of ``prompt`` tokens that are continued by ``limit``; None for any number."""
        ...

    def start(self, rows: int, capacity: int) -> Any:
        """The state before the first token of so many rows, for at most ``capacity`` tokens."""
        ...

    def read(self, tokens: NDArray[np.int64], state: Any, before: int) -> TextRead:
        """Read tokens (B, T) after so many before; returns logits (B, V) and the new state."""
        ...

    def reorder(self, state: Any, rows: NDArray[np.int64]) -> Any:
        """The state whose row ``i`` is the present row ``rows[i]``."""
        ...

    def attended(self, state: Any, tokens: int, before: int) -> int:
        """Slots that attention goes over where so many tokens are read after so many before."""
        ...


class BoundRead(NamedTuple):
    """A call from arrays to arrays.

    Attributes:
        call: Makes it.
        tokens: (B, T) int64, read by it.
        logits: (B, V), written by it.
        kept: What of the state it reads, and what it writes instead.
    """

    call: Callable[[], None]
    tokens: NDArray[np.int64]
    logits: NDArray[np.float32]
    kept: Sequence[tuple[NDArray[Any], NDArray[Any]]]

    def read(self, tokens: NDArray[np.int64]) -> NDArray[np.float32]:
        """Read tokens (B, T); returns logits (B, V)."""
        self.tokens[:] = tokens
        self.call()
        for before, after in self.kept:
            before[:] = after
        return self.logits.copy()


@dataclass(frozen=True)
class PassedState:
    """A state as tensors.

    Attributes:
        tensors: By name; the batch is the first dimension of each.
        capacity: Most tokens.
        room: Tokens that the tensors have place for.
        step: The call that reads one token of each row and changes the tensors; None if there is none, or none yet.
    """

    tensors: State
    capacity: int
    room: int
    step: BoundRead | None = None


class PassedSteps:
    """The state goes into every call and comes out of it.

    Args:
        layout: Of the graphs.
        runner: Calls ``decode_step`` for one token, ``read`` for several.
    """

    def __init__(self, layout: Layout, runner: ProgramRunner) -> None:
        self._layout = layout
        self._run = runner.run

    def most_rows(self, prompt: int, limit: int) -> int | None:
        """Any number."""
        return None

    def start(self, rows: int, capacity: int) -> PassedState:
        """Zeros."""
        room = min(capacity, _ROOM)
        return PassedState(zero_state(self._layout.state, rows=rows, capacity=room), capacity, room)

    def read(self, tokens: NDArray[np.int64], state: PassedState, before: int) -> TextRead:
        """See :class:`TextSteps`.

        Raises:
            BundleError: If the graph gives other tensors than the layout says.
        """
        rows, count = tokens.shape
        state = self._widened(state, before + count)
        graph, given = ("decode_step", tokens[:, 0]) if count == 1 else ("read", tokens)
        found = self._run(graph, {"tokens": given, **state.tensors})
        logits = expect_tensor(f"{graph}: logits", found["logits"], "float32", (rows, self._layout.tgt_size))
        tensors = dict(state.tensors)
        for name in self._layout.changing:
            held = tensors[name]
            tensors[name] = expect_tensor(f"{graph}: {name}", found[CHANGED_PREFIX + name], held.dtype, held.shape)
        return logits, replace(state, tensors=tensors)

    def reorder(self, state: PassedState, rows: NDArray[np.int64]) -> PassedState:
        """Gather rows of every tensor."""
        return replace(state, tensors={name: value[rows] for name, value in state.tensors.items()}, step=None)

    def attended(self, state: PassedState, tokens: int, before: int) -> int:
        """All that there is room for."""
        return _room(state, before + tokens)

    def _widened(self, state: PassedState, tokens: int) -> PassedState:
        """The state with place for so many tokens, zeros in it as at first."""
        room = _room(state, tokens)
        if room == state.room:
            return state
        tensors = dict(state.tensors)
        for tensor in self._layout.state:
            if "capacity" in tensor.shape:
                ends = [(0, room - state.room if size == "capacity" else 0) for size in tensor.shape]
                tensors[tensor.name] = np.pad(tensors[tensor.name], ends)
        return replace(state, tensors=tensors, room=room, step=None)


class WrittenSteps(PassedSteps):
    """The state is changed where it is.

    Args:
        layout: Of the graphs.
        runner: Calls ``read`` for one token or several.
    """

    def __init__(self, layout: Layout, runner: ReadBinder) -> None:
        super().__init__(layout, runner)
        self._binder = runner

    def read(self, tokens: NDArray[np.int64], state: PassedState, before: int) -> TextRead:
        """See :class:`TextSteps`.

        Raises:
            BundleError: If the runtime fails.
        """
        rows, count = tokens.shape
        state = self._widened(state, before + count)
        if count == 1:
            step = state.step or self._bind(state.tensors, tokens.shape)
            return step.read(tokens), replace(state, step=step)
        # Attention takes several tokens of several rows only where none are before them.
        parts = [slice(rows)] if rows == 1 or not before else [slice(row, row + 1) for row in range(rows)]
        logits = []
        for part in parts:
            tensors = {name: value[part] for name, value in state.tensors.items()}
            logits.append(self._bind(tensors, tokens[part].shape).read(tokens[part]))
        return np.concatenate(logits), state

    def attended(self, state: PassedState, tokens: int, before: int) -> int:
        """Those so far."""
        return before + tokens

    def _bind(self, tensors: State, shape: tuple[int, ...]) -> BoundRead:
        """A call that reads tokens of this shape, (B, T), and changes the tensors."""
        caches = self._binder.caches
        after = {
            name: tensors[name] if name in caches else np.empty_like(tensors[name]) for name in self._layout.changing
        }
        tokens, logits = np.empty(shape, np.int64), np.empty((shape[0], self._layout.tgt_size), np.float32)
        results = {"logits": logits, **{CHANGED_PREFIX + name: value for name, value in after.items()}}
        call = self._binder.bind_read({"tokens": tokens, **tensors}, results)
        return BoundRead(call, tokens, logits, [(tensors[name], after[name]) for name in after if name not in caches])


def _room(state: PassedState, tokens: int) -> int:
    """Place for so many tokens, in blocks."""
    blocks = -(-tokens // _ROOM)
    return min(state.capacity, max(state.room, blocks * _ROOM))
