"""Rows of a search over an ExecuTorch program that keeps their state: ``decode_rows_in_place``.

Shape letters: R rows, T tokens of each so far, V types.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lite_nlp.core.errors import BundleError
from lite_nlp.export.runtime.interface import State
from lite_nlp.export.runtime.layout import Layout
from lite_nlp.export.runtime.signatures import ROWS_IN_PLACE

__all__ = ["ResidentRows", "RowsState", "as_tensor", "check_logits", "check_tensor"]


class RowsState(NamedTuple):
    """Rows between two steps. It names what the program has of them.

    Attributes:
        given: The tensors that no step changes, of R rows.
        fed: (2, R, T) int64, the tokens fed so far and their slots.
        parents: (R,) int64, the rows of the latest step that these are or extend.
        used: Slots in use.
        moment: Of the latest step, by which it is known whether the program still has them.
    """

    given: tuple[Any, ...]
    fed: NDArray[np.int64]
    parents: NDArray[np.int64]
    used: int
    moment: int

    @property
    def tokens(self) -> NDArray[np.int64]:
        """(R, T) int64, fed so far."""
        tokens: NDArray[np.int64] = self.fed[0]
        return tokens


class ResidentRows:
    """Steps of rows whose state stays in a program.

    A program has the state of one search, until another of its methods runs, for they share the memory. Where that, or
    a step of another search, came in between, or a state is stepped from twice, the tokens of its rows are fed once
    more.

    Args:
        execute: Runs the program's ``decode_rows_in_place`` on torch tensors.
        layout: Of the program.

    Attributes:
        most_rows: That a step can take.
    """

    def __init__(self, execute: Callable[[list[Any]], list[Any]], layout: Layout) -> None:
        self._execute = execute
        self._layout = layout
        self.most_rows = layout.bounds.executorch_batch
        self._moment = 0

    def forget(self) -> None:
        """Another method of the program runs: what the program has of the rows is gone."""
        self._moment += 1

    def begin(self, state: State, rows: int) -> RowsState:
        """The rows before their first step.

        Args:
            state: The tensors of ``layout.given``, of R rows.
            rows: R, 1 to ``most_rows``.
        """
        return self._unfed(tuple(as_tensor(state[tensor.name]) for tensor in self._layout.given), rows)

    def step(self, tokens: NDArray[np.int64], state: RowsState) -> tuple[Any, RowsState]:
        """Feed a token of each row, (R,); returns logits (R, V), a torch tensor, and the new state.

        Raises:
            BundleError: If the program gives something else.
        """
        if state.moment != self._moment:
            state = self._fed_again(state)
        return self._step(tokens, state)

    def reorder(self, state: RowsState, rows: NDArray[np.int64], *, within: bool) -> RowsState:
        """The state whose row ``i`` is the present row ``rows[i]``.

        Args:
            state: The present rows.
            rows: (R',) int64, 1 to ``most_rows`` of them.
            within: Whether every row stays one of its sentence, so that what depends on the source stays too.
        """
        given = state.given if within else tuple(tensor[as_tensor(rows)] for tensor in state.given)
        return state._replace(given=given, fed=state.fed[:, rows], parents=state.parents[rows])

    def _unfed(self, given: tuple[Any, ...], rows: int) -> RowsState:
        nothing, parents = np.zeros((2, rows, 0), np.int64), np.full(rows, self.most_rows)
        return RowsState(given=given, fed=nothing, parents=parents, used=0, moment=self._moment)

    def _fed_again(self, state: RowsState) -> RowsState:
        fed = self._unfed(state.given, len(state.parents))
        for tokens in state.tokens.T:
            _, fed = self._step(tokens.copy(), fed)
        return fed

    def _step(self, tokens: NDArray[np.int64], state: RowsState) -> tuple[Any, RowsState]:
        import torch

        (_, rows, steps), used = state.fed.shape, state.used
        fed = np.empty((2, rows, steps + 1), np.int64)
        fed[..., :-1] = state.fed
        present = np.arange(rows)
        fed[0, :, -1] = tokens
        np.add(present, used, out=fed[1, :, -1])
        arrays = tokens, state.parents, fed[1], np.array([used])
        self._moment += 1
        (logits,) = self._execute([*map(torch.from_numpy, arrays), *state.given])
        check_logits(ROWS_IN_PLACE, logits, rows, self._layout)
        return logits, RowsState(state.given, fed, present, used + rows, self._moment)


def as_tensor(array: NDArray[Any]) -> Any:
    """An array as a torch tensor: the runtime takes the order of dimensions from the strides, which must be plain."""
    import torch

    return torch.from_numpy(np.ascontiguousarray(array))


def check_logits(method: str, found: Any, rows: int, layout: Layout) -> None:
    """Check the logits that a method gave.

    Raises:
        BundleError: If they are not what the manifest says.
    """
    import torch

    check_tensor(f"{method}: logits", found, torch.float32, (rows, layout.tgt_size))


def check_tensor(name: str, found: Any, dtype: Any, shape: Sequence[int]) -> None:
    """Check a tensor that a method gave; ``name`` is for the message.

    Raises:
        BundleError: If it is not what the manifest says.
    """
    if found.dtype != dtype or found.shape != tuple(shape):
        raise BundleError(
            f"{name}: expected {dtype} {tuple(shape)} as the manifest says, found {found.dtype} {tuple(found.shape)}"
        )
