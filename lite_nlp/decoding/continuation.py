"""Continuation of token rows by a language model, greedy or sampled, one implementation for every engine, in NumPy.

The model is behind a small interface, ``TextStepModel``. All rows of a batch are at the same position: a row is given
its own tokens while it has some, many at once where all rows have as many, then those that were chosen for it, so that
no token is ever computed twice.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from lite_nlp.core.bounds import (
    MAX_SEED,
    MAX_TEMPERATURE,
    MAX_TOKENS,
    MAX_VOCAB_SIZE,
    MIN_TEMPERATURE,
    check_range,
)
from lite_nlp.core.special_tokens import EOS_ID
from lite_nlp.decoding.hypotheses import log_sum_exp
from lite_nlp.decoding.step_models import State

__all__ = ["READ_TOKENS", "GenerationOptions", "TextStepModel", "TokenRun", "continue_rows", "continue_steps"]

#: Most tokens that a model is given at once: its attention takes memory for every pair of these and of all before.
READ_TOKENS: Final = 64

#: The end mark is the last special token: a view of the logits leaves pad and bos, which are never produced, out.
_FIRST: Final = EOS_ID


class TextStepModel(Protocol):
    """A language model that reads the next tokens of every row. B: rows, T: tokens, V: vocabulary."""

    @property
    def max_read(self) -> int:
        """Most tokens T that it is given at once."""
        ...

    def most_rows(self, prompt: int, limit: int) -> int | None:
        """Most rows B to take at once of ``prompt`` tokens that are continued by ``limit``; None for any number."""
        ...

    def start(self, rows: int, capacity: int) -> State:
        """The state before the first token of so many rows, for at most ``capacity`` tokens."""
        ...

    def read(self, tokens: NDArray[np.int64], state: State) -> tuple[NDArray[np.float32], State]:
        """Consume tokens (B, T); return the logits (B, V) of the one after the last, and the new state.

        The old one must not be used again: what it consists of may have become the new one.
        """
        ...

    def reorder(self, state: State, rows: NDArray[np.int64]) -> State:
        """The state whose row ``i`` is the present row ``rows[i]``; rows may repeat or be left out."""
        ...


@dataclass(frozen=True, kw_only=True)
class GenerationOptions:
    """How a text is continued: by its likeliest next token, or sampled if a temperature or ``top_k`` is given.

    Attributes:
        max_tokens: Most tokens, the end mark not counted.
        temperature: Divisor of the logits before one is drawn, 0.1 to 100: below 1 likely tokens become likelier. None
            is 1 where ``top_k`` is given.
        top_k: Only so many likeliest tokens may be drawn; None for all.
        seed: Of the random numbers; every line has its own.

    Raises:
        UsageError: If a value is out of range.
    """

    max_tokens: int = 100
    temperature: float | None = None
    top_k: int | None = None
    seed: int = 1

    def __post_init__(self) -> None:
        check_range("--max-tokens", self.max_tokens, 1, MAX_TOKENS)
        check_range("--temperature", self.temperature, MIN_TEMPERATURE, MAX_TEMPERATURE)
        check_range("--top-k", self.top_k, 1, MAX_VOCAB_SIZE)
        check_range("--seed", self.seed, 0, MAX_SEED)

    @property
    def samples(self) -> bool:
        """Whether tokens are drawn; else the likeliest is taken."""
        return self.temperature is not None or self.top_k is not None


@dataclass
class TokenRun:
    """What a row was continued by.

    Attributes:
        tokens: Without the end mark.
        log_prob: Logarithm of their probability, and that of the end mark if it was reached, by the model itself
            (nats): without temperature or ``top_k``.
        ended: Whether the end mark was reached.
    """

    tokens: list[int] = field(default_factory=list)
    log_prob: float = 0.0
    ended: bool = False


def continue_rows(
    model: TextStepModel,
    prompts: Sequence[Sequence[int]],
    options: GenerationOptions,
    *,
    max_positions: int,
    numbers: Sequence[int],
) -> list[TokenRun]:
    """Continue every row, as many at once as the model takes; the result for a row does not depend on the others.

    Args:
        model: The engine.
        prompts: Token ids of each row; the end mark before a text's first token is added here. At most
            ``max_positions - 1`` each.
        options: How tokens are chosen.
        max_positions: Most steps that the model takes, 2 at least.
        numbers: A number for each row, which tells its random numbers from those of other rows.

    Raises:
        ModelError: If the model produces logits that are not finite.
    """
    runs = [TokenRun() for _ in prompts]
    most = [model.most_rows(len(prompt), _limit(prompt, options, max_positions)) for prompt in prompts]
    for rows in _batches(most):
        for _ in continue_steps(
            model, prompts[rows], runs[rows], options, max_positions=max_positions, numbers=numbers[rows]
        ):
            pass
    return runs


def continue_steps(
    model: TextStepModel,
    prompts: Sequence[Sequence[int]],
    runs: Sequence[TokenRun],
    options: GenerationOptions,
    *,
    max_positions: int,
    numbers: Sequence[int],
) -> Iterator[None]:
    """Continue rows in one batch, step by step, into ``runs``; arguments as of :func:`continue_rows`.

    Stop iterating to cancel.
    """
    if not prompts:
        return
    given = [[EOS_ID, *prompt] for prompt in prompts]
    limits = [_limit(prompt, options, max_positions) for prompt in prompts]
    generators = [np.random.default_rng([options.seed, number]) for number in numbers]
    # Lists: of the few numbers of a step NumPy would make arrays in the time that a hundred of them take.
    rows, latest = list(range(len(prompts))), [EOS_ID] * len(prompts)
    # What is read: the mark before a text, and all but the last token chosen for it.
    state = model.start(len(rows), max(len(prompt) + limit for prompt, limit in zip(prompts, limits, strict=True)))
    place = 0
    while True:
        # As many as all rows have left of their prompts; a row without any goes on with the token chosen for it.
        length = max(1, min(model.max_read, *(len(given[row]) - place for row in rows)))
        tokens = [given[row][place : place + length] or [token] for row, token in zip(rows, latest, strict=True)]
        logits, state = model.read(np.array(tokens, np.int64), state)
        place += length
        going = [True] * len(rows)
        # A prompt's last token is followed by the first that is chosen.
        chosen = [position for position, row in enumerate(rows) if place >= len(given[row])]
        if chosen:
            found = logits if len(chosen) == len(rows) else logits[chosen]
            normalizers = log_sum_exp(found)
            for position, scores, normalizer in zip(chosen, found, normalizers, strict=True):
                run, row = runs[rows[position]], rows[position]
                token = _choose(scores[_FIRST:], options, generators[row]) + _FIRST
                run.log_prob += float(scores[token] - normalizer)
                run.ended = token == EOS_ID
                if not run.ended:
                    run.tokens.append(token)
                latest[position] = token
                going[position] = not run.ended and len(run.tokens) < limits[row]
            yield
        if not any(going):
            return
        if not all(going):
            kept = np.flatnonzero(going)
            rows, latest = ([values[position] for position in kept] for values in (rows, latest))
            state = model.reorder(state, kept)


def _limit(prompt: Sequence[int], options: GenerationOptions, max_positions: int) -> int:
    """Most tokens that a prompt is continued by."""
    return min(options.max_tokens, max_positions - len(prompt))


def _batches(limits: Sequence[int | None]) -> Iterator[slice]:
    """Rows that follow one another and are continued at once, as many as the limit that they have in common says."""
    start = 0
    for limit, rows in groupby(limits):
        end = start + len(list(rows))
        step = end - start if limit is None else limit
        yield from (slice(first, min(end, first + step)) for first in range(start, end, step))
        start = end


def _choose(logits: NDArray[np.float32], options: GenerationOptions, random: np.random.Generator) -> int:
    """The place of the next token among ``logits``."""
    if not options.samples:
        return int(logits.argmax())
    scaled = logits.astype(np.float64) / (1.0 if options.temperature is None else options.temperature)
    if options.top_k is not None and options.top_k < len(scaled):
        left_out = np.argpartition(scaled, len(scaled) - options.top_k)[: len(scaled) - options.top_k]
        scaled[left_out] = -np.inf
    # One random number a token: runtimes whose logits differ in the last digit draw the same tokens but at a boundary.
    bounds = np.exp(scaled - scaled.max()).cumsum()
    return int(np.searchsorted(bounds, random.random() * bounds[-1], side="right"))
