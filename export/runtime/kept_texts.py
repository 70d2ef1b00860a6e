"""A language model's state that stays in the runtime, of one text or of several at once. No torch.

Shape letters: B rows, T tokens, V types.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite_nlp.core.errors import BundleError
from lite_nlp.export.runtime.executorch_rows import ResidentRows, RowsState
from lite_nlp.export.runtime.layout import Layout
from lite_nlp.export.runtime.program_runners import StateKeeper
from lite_nlp.export.runtime.signatures import READ_IN_PLACE
from lite_nlp.export.runtime.tensors import expect_tensor
from lite_nlp.export.runtime.text_steps import TextRead

__all__ = ["KeptSteps"]


@dataclass(frozen=True)
class KeptText:
    """A text whose state the runtime has.

    Attributes:
        fed: (1, T) int64, its tokens so far.
        moment: Of the latest call, by which it is known whether the runtime still has it.
    """

    fed: NDArray[np.int64]
    moment: int


class KeptSteps:
    """Texts whose state stays in the runtime, where caches are written in place.

    One text is read many tokens at a time, several one token of each. The runtime has the state of one text, or of one
    batch, until another method runs, for they share the memory. Where that, or a call for another text, came in
    between, the tokens so far are read once more.

    Args:
        layout: Of the graphs.
        runner: Calls the methods.
        max_read: Most tokens of one text that it takes.
    """

    def __init__(self, layout: Layout, runner: StateKeeper, max_read: int) -> None:
        self._layout = layout
        self._runner = runner
        self._max_read = max_read
        self._rows = ResidentRows(runner.step_rows, layout)
        self._moment = 0
        # What the runtime has is one for all threads.
        self._lock = Lock()

    def run(self, graph: str, arguments: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Run another method, after which the runtime has no text."""
        with self._lock:
            self._moment += 1
            self._rows.forget()
            return self._runner.run(graph, arguments)

    def most_rows(self, prompt: int, limit: int) -> int:
        """One, if they are longer than each of several may be, or take longer to read at once than one by one.

        For one, a token of a prompt costs a third of what it costs in a batch, and one that is chosen twice as much.
        """
        several = prompt <= limit and prompt + limit <= self._layout.bounds.row_tokens
        return self._runner.most_rows if several else 1

    def start(self, rows: int, capacity: int) -> KeptText | RowsState:
        """No tokens; the caches have their capacity."""
        return KeptText(np.zeros((1, 0), np.int64), self._moment) if rows == 1 else self._rows.begin({}, rows)

    def read(self, tokens: NDArray[np.int64], state: KeptText | RowsState, before: int) -> TextRead:
        """See :class:`~lite_nlp.export.runtime.text_steps.TextSteps`.

        Raises:
            BundleError: If the program gives other logits than the layout says.
        """
        with self._lock:
            if isinstance(state, RowsState):
                self._moment += 1
                for column in tokens.T:
                    logits, state = self._rows.step(np.ascontiguousarray(column), state)
                return logits.numpy(), state
            self._rows.forget()
            if before and state.moment != self._moment:
                for start in range(0, before, self._max_read):
                    self._call(state.fed[:, start : start + self._max_read], start)
            found = self._call(tokens, before)
            self._moment += 1
            return found, KeptText(np.concatenate([state.fed, tokens], axis=1), self._moment)

    def _call(self, tokens: NDArray[np.int64], position: int) -> NDArray[np.float32]:
        found = self._runner.run(READ_IN_PLACE, {"tokens": tokens, "position": np.array([position])})
        logits: NDArray[np.float32] = expect_tensor(
            f"{READ_IN_PLACE}: logits", found["logits"], "float32", (1, self._layout.tgt_size)
        )
        return logits

    def reorder(self, state: KeptText | RowsState, rows: NDArray[np.int64]) -> KeptText | RowsState:
        """See :class:`~lite_nlp.export.runtime.text_steps.TextSteps`.

        Raises:
            BundleError: If the only row is to become several, or there are to be more than at once.
        """
        if isinstance(state, KeptText):
            if rows.tolist() != [0]:
                raise BundleError(f"{READ_IN_PLACE}: expected the only row of the state, found rows {rows.tolist()}")
            return state
        if len(rows) > self._runner.most_rows:
            raise BundleError(f"rows: expected at most {self._runner.most_rows} at once, found {len(rows)}")
        return self._rows.reorder(state, rows, within=False)

    def attended(self, state: KeptText | RowsState, tokens: int, before: int) -> int:
        """The tokens themselves."""
        return before + tokens
