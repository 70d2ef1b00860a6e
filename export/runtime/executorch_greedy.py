"""Greedy search over an ExecuTorch program, the state staying in the runtime's tensors from one step to the next.

The search of ``lite_nlp.decoding.search`` takes NumPy's tensors. Changing each of some twenty between both worlds, and
ranking in NumPy, took as long as half of a step.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lite_nlp.core.errors import BundleError
from lite_nlp.core.special_tokens import BOS_ID, EOS_ID, SPECIAL_TOKENS
from lite_nlp.export.runtime.interface import State
from lite_nlp.export.runtime.layout import Layout

__all__ = ["GreedyOutput", "as_tensor", "decode_row", "decode_rows"]

#: Words have the ids from here on.
_FIRST_WORD: Final = len(SPECIAL_TOKENS)


class GreedyOutput(NamedTuple):
    """Outputs of R rows.

    Attributes:
        tokens: Of each row, the end mark last.
        log_probs: Of each row.
    """

    tokens: list[list[int]]
    log_probs: list[float]


def decode_rows(
    step: Callable[[list[Any]], list[Any]],
    layout: Layout,
    state: State,
    limits: NDArray[np.int64],
    min_length: int,
) -> GreedyOutput:
    """Take greedy steps until every row has ended; a row that has ended leaves the batch.

    Args:
        step: Runs the program's ``decode_step`` on torch tensors: from tokens (R,) and the state to logits and what
            changes.
        layout: Of the program.
        state: Before the first step.
        limits: (R,) steps allowed.
        min_length: Words before an end mark that is not forced.

    Raises:
        BundleError: If a step gives other tensors than the layout says.
    """
    import torch

    tensors = [as_tensor(state[name]) for name in layout.names]
    changing = [place for place, tensor in enumerate(layout.state) if tensor.changes]
    output = GreedyOutput([[] for _ in limits], [0.0 for _ in limits])
    rows, count = list(range(len(limits))), 0
    latest = np.full(len(rows), BOS_ID)
    while rows:
        count += 1
        logits, *changed = step([torch.from_numpy(latest), *tensors])
        _check("logits", logits, torch.float32, (len(rows), layout.tgt_size))
        for place, value in zip(changing, changed, strict=True):
            before = tensors[place]
            _check(layout.state[place].name, value, before.dtype, before.shape)
            tensors[place] = value
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
        if len(staying) < len(rows):
            rows = [rows[place] for place in staying]
            kept = torch.tensor(staying, dtype=torch.int64)
            tensors = [tensor[kept] for tensor in tensors]
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
    import torch

    latest, position = np.array([BOS_ID]), np.zeros(1, np.int64)
    # The tensors share the memory of the arrays.
    arguments = [as_tensor(array) for array in (latest, position, *(given[tensor.name] for tensor in layout.given))]
    tokens: list[int] = []
    total = 0.0
    while latest[0] != EOS_ID:
        (logits,) = step(arguments)
        _check("logits", logits, torch.float32, (1, layout.tgt_size))
        (values,) = logits.numpy()
        best = int(values[_FIRST_WORD:].argmax()) + _FIRST_WORD
        ended = limit <= len(tokens) + 1 or _prefers_end(values[best], values[EOS_ID], len(tokens) >= min_length)
        token = EOS_ID if ended else best
        tokens.append(token)
        total += float(logits.log_softmax(dim=1).numpy()[0, token])
        latest[0], position[0] = token, len(tokens)
    return tokens, total


def as_tensor(array: NDArray[Any]) -> Any:
    """An array as a torch tensor: the runtime takes the order of dimensions from the strides, which must be plain."""
    import torch

    return torch.from_numpy(np.ascontiguousarray(array))


def _prefers_end(word: float, end: float, allowed: bool) -> bool:
    """Whether the end mark follows, by its logit and that of the best word: of equal ones, the end counts."""
    return word == -np.inf or (allowed and end >= word)


def _check(name: str, found: Any, dtype: Any, shape: tuple[int, ...]) -> None:
    if found.dtype != dtype or found.shape != shape:
        raise BundleError(
            f"decode_step: {name}: expected {dtype} {tuple(shape)} as the manifest says, found {found.dtype} "
            f"{tuple(found.shape)}"
        )
