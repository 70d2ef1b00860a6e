"""Greedy search over an ExecuTorch program, the state staying in the runtime's tensors from one step to the next.

The search of ``lite_nlp.decoding.search`` takes NumPy's tensors. Changing each of some twenty between both worlds, and
ranking in NumPy, took as long as half of a step.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from lite_nlp.core.special_tokens import BOS_ID, EOS_ID, SPECIAL_TOKENS
from lite_nlp.export.runtime.executorch_rows import ResidentRows, as_tensor, check_logits, check_tensor
from lite_nlp.export.runtime.interface import State
from lite_nlp.export.runtime.layout import Layout
from lite_nlp.export.runtime.signatures import IN_PLACE

__all__ = ["GreedyOutput", "KeptRows", "PassedRows", "RowSteps", "decode_row", "decode_rows"]

#: Words have the ids from here on.
_FIRST_WORD: Final = len(SPECIAL_TOKENS)

#: The method whose steps take the state and give it back.
_STEP: Final = "decode_step"


class GreedyOutput(NamedTuple):
    """Outputs of R rows.

    Attributes:
        tokens: Of each row, the end mark last.
        log_probs: Of each row.
    """

    tokens: list[list[int]]
    log_probs: list[float]


class RowSteps(Protocol):
    """Steps of the rows of a search; a row may leave between two of them."""

    def step(self, tokens: NDArray[np.int64]) -> Any:
        """Feed a token of each row, (R,); returns logits (R, V), a torch tensor."""
        ...

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Go on with these of the rows."""
        ...


class PassedRows:
    """Rows whose state goes into every step and comes out of it.

    Args:
        execute: Runs the program's ``decode_step`` on torch tensors.
        layout: Of the program.
        state: Before the first step.
    """

    def __init__(self, execute: Callable[[list[Any]], list[Any]], layout: Layout, state: State) -> None:
        self._execute, self._layout = execute, layout
        self._tensors = [as_tensor(state[name]) for name in layout.names]
        self._changing = [place for place, tensor in enumerate(layout.state) if tensor.changes]

    def step(self, tokens: NDArray[np.int64]) -> Any:
        """Feed a token of each row.

        Raises:
            BundleError: If the step gives other tensors than the layout says.
        """
        logits, *changed = self._execute([as_tensor(tokens), *self._tensors])
        check_logits(_STEP, logits, len(tokens), self._layout)
        for place, value in zip(self._changing, changed, strict=True):
            before = self._tensors[place]
            check_tensor(f"{_STEP}: {self._layout.state[place].name}", value, before.dtype, before.shape)
            self._tensors[place] = value
        return logits

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Go on with these of the rows."""
        kept = as_tensor(rows)
        self._tensors = [tensor[kept] for tensor in self._tensors]


class KeptRows:
    """Rows whose state stays in the program.

    Args:
        resident: Takes the steps.
        given: The state tensors that do not change.
        rows: How many.
    """

    def __init__(self, resident: ResidentRows, given: State, rows: int) -> None:
        self._resident, self._state = resident, resident.begin(given, rows)

    def step(self, tokens: NDArray[np.int64]) -> Any:
        """Feed a token of each row.

        Raises:
            BundleError: If the step gives other tensors than the layout says.
        """
        logits, self._state = self._resident.step(tokens, self._state)
        return logits

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Go on with these of the rows."""
        self._state = self._resident.reorder(self._state, rows, within=False)


def decode_rows(steps: RowSteps, limits: NDArray[np.int64], min_length: int) -> GreedyOutput:
    """Take greedy steps until every row has ended; a row that has ended leaves the batch.

    Args:
        steps: Of the rows.
        limits: (R,) steps allowed.
        min_length: Words before an end mark that is not forced.

    Raises:
        BundleError: If a step gives other tensors than the layout says.
    """
    output = GreedyOutput([[] for _ in limits], [0.0 for _ in limits])
    rows, count = list(range(len(limits))), 0
    latest = np.full(len(rows), BOS_ID)
    while rows:
        count += 1
        logits = steps.step(latest)
        log_probs, values = logits.log_softmax(dim=1).numpy(), logits.numpy()
        best = values[:, _FIRST_WORD:].argmax(axis=1) + _FIRST_WORD
        words, ends = values[np.arange(len(rows)), best].tolist(), values[:, EOS_ID].tolist()
        staying = []
        for place, (row, word, end) in enumerate(zip(rows, words, ends, strict=True)):
            ended = limits[row] <= count or _prefers_end(word, end, count > min_length)
            token = EOS_ID if ended else int(best[place])
            output.tokens[row].append(token)
            output.log_probs[row] += float(log_probs[place, token])
            if not ended:
                staying.append(place)
        latest = best[staying]
        if 0 < len(staying) < len(rows):
            steps.keep(np.array(staying))
        rows = [rows[place] for place in staying]
    return output


def decode_row(
    step: Callable[[list[Any]], list[Any]], layout: Layout, given: State, limit: int, min_length: int
) -> tuple[list[int], float]:
    """Take greedy steps of one row until it has ended.

    Args:
        step: Runs the program's ``decode_in_place`` on torch tensors.
        layout: Of the program.
        given: The state tensors that do not change, of this row.
        limit: Steps allowed.
        min_length: As of ``decode_rows``.

    Returns:
        The tokens, the end mark last, and their log-probability.

    Raises:
        BundleError: If a step gives other tensors than the layout says.
    """
    latest, position = np.array([BOS_ID]), np.zeros(1, np.int64)
    # The tensors share the memory of the arrays.
    arguments = [as_tensor(array) for array in (latest, position, *(given[tensor.name] for tensor in layout.given))]
    tokens: list[int] = []
    total = 0.0
    while latest[0] != EOS_ID:
        (logits,) = step(arguments)
        check_logits(IN_PLACE, logits, 1, layout)
        (values,) = logits.numpy()
        best = int(values[_FIRST_WORD:].argmax()) + _FIRST_WORD
        ended = limit <= len(tokens) + 1 or _prefers_end(values[best], values[EOS_ID], len(tokens) >= min_length)
        token = EOS_ID if ended else best
        tokens.append(token)
        total += float(logits.log_softmax(dim=1).numpy()[0, token])
        latest[0], position[0] = token, len(tokens)
    return tokens, total


def _prefers_end(word: float, end: float, allowed: bool) -> bool:
    """Whether the end mark follows, by its logit and that of the best word: of equal ones, the end counts."""
    return word == -np.inf or (allowed and end >= word)
