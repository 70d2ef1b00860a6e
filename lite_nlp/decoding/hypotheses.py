"""Hypotheses of a search: scores, permitted extensions and selection."""

from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lite_nlp.core.errors import ModelError
from lite_nlp.core.special_tokens import EOS_ID, SPECIAL_TOKENS

__all__ = [
    "Blocked",
    "Candidates",
    "Extensions",
    "Hypothesis",
    "best_extensions",
    "damaged_model",
    "expand",
    "length_penalty",
    "log_sum_exp",
    "repeated_ngrams",
]

#: Columns among which the largest entry is looked for at once.
_GROUP: Final = 16

#: Ordinary tokens follow the special ones, so that a view of the logits leaves pad, bos and eos out without a copy.
_FIRST_TOKEN = len(SPECIAL_TOKENS)


@dataclass(frozen=True)
class Hypothesis:
    """One translation: ``tokens`` without special ids, and ``score``, its length-penalized log-probability (nats)."""

    tokens: list[int] = field(default_factory=list)
    score: float = -np.inf


@dataclass(frozen=True)
class Extensions:
    """The best tokens to follow each of R hypotheses, with their log-probabilities.

    Probabilities are the model's own: pad and bos take part in the softmax but are never produced.

    Attributes:
        ends: (R,) of the end mark.
        scores: (R, C) of the C most probable other tokens, in any order.
        tokens: (R, C) their ids.
    """

    ends: NDArray[np.float64]
    scores: NDArray[np.float64]
    tokens: NDArray[np.int64]


@dataclass(frozen=True)
class Candidates:
    """Extensions of the ``W`` live hypotheses of each of ``S`` sentences by one token; scores are log-probabilities.

    ``end_scores`` (S, W): ending each hypothesis here. ``ends`` (S, W): whether that end is among the ``beam_size``
    best candidates of its sentence. ``scores``, ``parents``, ``tokens`` (S, W'): the best extensions by a token, best
    first; ``parents`` is the hypothesis extended, 0 to W - 1.
    """

    end_scores: NDArray[np.float64]
    ends: NDArray[np.bool_]
    scores: NDArray[np.float64]
    parents: NDArray[np.int64]
    tokens: NDArray[np.int64]


def length_penalty(length: int | NDArray[np.int64], alpha: float) -> NDArray[np.float64]:
    """Divisor of a log-probability: ``((5 + length) / 6) ** alpha`` (GNMT, Wu et al. 2016, equation 14).

    Args:
        length: Tokens of the hypothesis, the end mark included.
        alpha: 0 for none; larger values favour longer hypotheses.
    """
    return np.asarray((5.0 + length) / 6.0, np.float64) ** alpha


def repeated_ngrams(history: NDArray[np.int64], size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Tokens that would repeat an n-gram of the hypothesis.

    Args:
        history: (R, T) tokens produced so far.
        size: n, at least 1.

    Returns:
        Row indices and token ids, pairwise; a pair may occur twice.
    """
    rows, length = history.shape
    if length < size:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    windows = np.lib.stride_tricks.sliding_window_view(history, size, axis=1)  # (R, T - n + 1, n)
    latest = history[:, length - size + 1 :].reshape(rows, 1, size - 1)
    found, position = np.nonzero((windows[:, :, :-1] == latest).all(axis=2))
    return found, windows[found, position, -1]


#: Rows of logits, and tokens that must not follow, pairwise.
Blocked: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64]]


def best_extensions(logits: NDArray[np.float32], count: int, blocked: Blocked | None = None) -> Extensions:
    """The ``count`` most probable tokens of each row, and the end mark.

    Args:
        logits: (R, V).
        count: Tokens wanted; all that there are, if they are fewer.
        blocked: Get the log-probability -inf.

    Raises:
        ModelError: If the logits are not finite where they should be.
    """
    normalizer = log_sum_exp(logits)
    words = logits[:, _FIRST_TOKEN:]
    if blocked is not None:
        words = words.copy()
        words[blocked[0], blocked[1] - _FIRST_TOKEN] = -np.inf
    ids, values = _largest(words, min(count, words.shape[1]))
    return Extensions(
        ends=logits[:, EOS_ID] - normalizer, scores=values - normalizer[:, None], tokens=ids + _FIRST_TOKEN
    )


def expand(
    extensions: Extensions,
    live: NDArray[np.float64],
    *,
    beam_size: int,
    must_end: NDArray[np.bool_],
    may_end: NDArray[np.bool_],
) -> Candidates:
    """Rank all extensions of the live hypotheses.

    A hypothesis that is dead (score -inf, when there are fewer extensions than places) only has dead extensions.

    Args:
        extensions: Row ``s * W + w`` for hypothesis ``w`` of sentence ``s``: the ``beam_size`` best have to be
            among them, or all that there are.
        live: (S, W) log-probabilities of the live hypotheses.
        beam_size: Hypotheses kept per sentence.
        must_end: (S,) sentences that have no step left, so that only the end mark may follow.
        may_end: (S,) sentences long enough to end; a hypothesis that no token can extend may end in any case.
    """
    sentences, width = live.shape
    kept = extensions.tokens.shape[1]
    end_scores = live + extensions.ends.reshape(sentences, width)
    scores = live[:, :, None] + extensions.scores.reshape(sentences, width, kept)
    end_scores[~may_end[:, None] & (scores.max(axis=2) > -np.inf)] = -np.inf
    scores = scores.reshape(sentences, width * kept)
    scores[must_end] = -np.inf

    ranked = np.argsort(-np.concatenate([end_scores, scores], axis=1), axis=1, kind="stable")[:, :beam_size]
    ends = np.zeros((sentences, width), np.bool_)
    sentence, place = np.nonzero(ranked < width)
    ends[sentence, ranked[sentence, place]] = True
    ends &= end_scores > -np.inf

    best = np.argsort(-scores, axis=1, kind="stable")[:, :beam_size]  # (S, W')
    rows = np.arange(sentences)[:, None]
    return Candidates(
        end_scores=end_scores,
        ends=ends,
        scores=scores[rows, best],
        parents=best // kept,
        tokens=extensions.tokens.reshape(sentences, width * kept)[rows, best],
    )


def damaged_model() -> ModelError:
    """The error of a model whose logits are no numbers."""
    return ModelError("model: expected finite logits at every step, found NaN or infinity; its weights are damaged")


def log_sum_exp(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    """(R,) logarithm of the sum of exponentials of each row of ``logits`` (R, V).

    Raises:
        ModelError: If a row is not finite where it should be.
    """
    largest = logits.max(axis=1)
    if not np.isfinite(largest).all():
        raise damaged_model()
    shifted = logits - largest[:, None]
    np.exp(shifted, out=shifted)
    normalizer: NDArray[np.float64] = largest + np.log(shifted.sum(axis=1).astype(np.float64))
    return normalizer


def _largest(values: NDArray[np.float32], count: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Columns and values of the ``count`` largest entries of each row, in no order."""
    rows = np.arange(len(values))[:, None]
    if count == 1:
        # The greedy case: several times faster than a partition.
        columns = values.argmax(axis=1)[:, None]
        return columns, values[rows, columns]
    groups = values.shape[1] // _GROUP
    if groups < 2 * count:
        columns = np.argpartition(values, values.shape[1] - count, axis=1)[:, -count:]
        return columns, values[rows, columns]
    # They are in the groups of columns whose largest entries are the largest, or behind the last group: finding these
    # groups reads every value once, where a partition of all takes ten times as long. A group has columns at equal
    # distances, so that the maxima are of whole vectors.
    whole = groups * _GROUP
    largest = values[:, :whole].reshape(len(values), _GROUP, groups).max(axis=1)
    chosen = largest.argpartition(groups - count, axis=1)[:, -count:]
    columns = (chosen[:, None, :] + groups * np.arange(_GROUP)[:, None]).reshape(len(values), -1)
    if whole < values.shape[1]:
        behind = np.broadcast_to(np.arange(whole, values.shape[1]), (len(values), values.shape[1] - whole))
        columns = np.concatenate([columns, behind], axis=1)
    found = values[rows, columns]
    best = found.argpartition(found.shape[1] - count, axis=1)[:, -count:]
    return columns[rows, best], found[rows, best]
