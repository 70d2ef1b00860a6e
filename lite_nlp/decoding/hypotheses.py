"""Hypotheses of a search: scores, permitted extensions and selection."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lite_nlp.core.errors import ModelError
from lite_nlp.core.special_tokens import EOS_ID, SPECIAL_TOKENS

__all__ = [
    "Blocked",
    "Candidates",
    "Extensions",
    "Hypothesis",
    "best_extension",
    "damaged_model",
    "length_penalty",
    "log_sum_exp",
    "rank_extensions",
    "repeated_ngrams",
]

#: Columns among which the largest entry is looked for at once.
_GROUP: Final = 16

#: Times as many words as are wanted, which are ranked one by one; more are those of a model that knows no difference.
_FEW: Final = 16

#: Rows whose exponentials are made at once: those of some thousand types stay in a processor's cache.
_ROWS: Final = 16

#: No log-probability of a live hypothesis is as low.
_LEAST: Final = -1e30

#: Ordinary tokens follow the special ones, so that a view of the logits leaves pad, bos and eos out without a copy.
_FIRST_TOKEN = len(SPECIAL_TOKENS)


@dataclass(frozen=True)
class Hypothesis:
    """One translation: ``tokens`` without special ids, and ``score``, its length-penalized log-probability (nats)."""

    tokens: list[int] = field(default_factory=list)
    score: float = -np.inf


@dataclass(frozen=True)
class Extensions:
    """The best token to follow each of R hypotheses; scores are log-probabilities of all their tokens.

    Probabilities are the model's own: pad and bos take part in the softmax but are never produced.

    Attributes:
        ends: (R,) with the end mark.
        scores: (R,) with the most probable other token.
        tokens: (R,) its id.
    """

    ends: NDArray[np.float64]
    scores: NDArray[np.float64]
    tokens: NDArray[np.int64]


class Candidates(NamedTuple):
    """Extensions of the W live hypotheses of a sentence by one token; scores are log-probabilities.

    Attributes:
        end_scores: Of ending each hypothesis here.
        ends: The hypotheses, 0 to W - 1, whose ends are among the ``beam_size`` best candidates, in order.
        scores: Of the best extensions by a word, best first; minus infinity where there are fewer.
        parents: The hypotheses that they extend.
        tokens: Their words.
    """

    end_scores: list[float]
    ends: list[int]
    scores: list[float]
    parents: list[int]
    tokens: list[int]


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


def best_extension(
    logits: NDArray[np.float32], live: NDArray[np.float64], blocked: Blocked | None = None
) -> Extensions:
    """The most probable token to follow each hypothesis, the first of equal ones, and its end.

    Args:
        logits: (R, V).
        live: (R,) log-probabilities of the hypotheses.
        blocked: Get the log-probability -inf.

    Raises:
        ModelError: If the logits are not finite where they should be.
    """
    offsets = live - log_sum_exp(logits)
    words = _words(logits, blocked)
    columns = words.argmax(axis=1)
    return Extensions(
        ends=offsets + logits[:, EOS_ID],
        scores=offsets + words[np.arange(len(words)), columns],
        tokens=columns + _FIRST_TOKEN,
    )


def rank_extensions(
    logits: NDArray[np.float32],
    live: NDArray[np.float64],
    *,
    beam_size: int,
    must_end: Sequence[bool],
    may_end: Sequence[bool],
    blocked: Blocked | None = None,
) -> list[Candidates]:
    """Rank all extensions of the live hypotheses of each of S sentences.

    Probabilities are the model's own, as of :class:`Extensions`. A hypothesis that is dead (score -inf, when there are
    fewer extensions than places) only has dead extensions. What is large is ranked in NumPy, the few that are left as
    Python's numbers: between two steps of a model a call of NumPy takes longer than a dozen of them.

    Args:
        logits: (S * W, V), row ``s * W + w`` for hypothesis ``w`` of sentence ``s``.
        live: (S, W) log-probabilities of the live hypotheses.
        beam_size: Hypotheses kept per sentence.
        must_end: For each sentence, whether it has no step left, so that only the end mark may follow.
        may_end: Whether it is long enough to end; a hypothesis that no token can extend may end in any case.
        blocked: Tokens that get the log-probability -inf.

    Raises:
        ModelError: If the logits are not finite where they should be.
    """
    sentences, width = live.shape
    offsets = live.reshape(-1) - log_sum_exp(logits)
    words = _words(logits, blocked)
    end_scores = (offsets + logits[:, EOS_ID]).tolist()
    if not all(may_end):
        extended = (words.max(axis=1) > -np.inf).tolist()
        for row, goes_on in enumerate(extended):
            if goes_on and not may_end[row // width]:
                end_scores[row] = -np.inf
    best = _best_words(words, offsets, sentences, min(beam_size, width * words.shape[1]))
    ranked = []
    for first, found, last in zip(range(0, len(words), width), best, must_end, strict=True):
        ends = end_scores[first : first + width]
        scores = [-np.inf if last else score for score, _, _ in found]
        parents, tokens = [row - first for _, row, _ in found], [column + _FIRST_TOKEN for _, _, column in found]
        ranked.append(Candidates(ends, _best_ends(ends, scores, beam_size), scores, parents, tokens))
    return ranked


def _words(logits: NDArray[np.float32], blocked: Blocked | None) -> NDArray[np.float32]:
    """The columns of the words, a view of the logits unless some are blocked."""
    words = logits[:, _FIRST_TOKEN:]
    if blocked is not None:
        words = words.copy()
        words[blocked[0], blocked[1] - _FIRST_TOKEN] = -np.inf
    return words


def _best_words(
    words: NDArray[np.float32], offsets: NDArray[np.float64], sentences: int, count: int
) -> list[list[tuple[float, int, int]]]:
    """Score, row and column of the ``count`` best extensions of each sentence, best first.

    Args:
        words: (S * W, V) logits.
        offsets: (S * W,) what makes them log-probabilities of whole hypotheses; -inf of a dead one.
        sentences: S.
        count: At most W * V.
    """
    # The largest of each group of columns, and of groups of these: the score that so many groups reach is reached by as
    # many words. Finding it reads every value once, where a partition of all takes ten times as long. A group has
    # columns at equal distances, so that the maxima are of whole vectors.
    maxima = words
    while (groups := maxima.shape[1] // _GROUP) >= count:
        maxima = maxima[:, : groups * _GROUP].reshape(len(words), _GROUP, groups).max(axis=1)
    reached = (maxima + offsets[:, None]).reshape(sentences, -1)
    reached.partition(reached.shape[1] - count, axis=1)
    # Fewer than wanted may be alive; those of a dead hypothesis are never taken.
    width = len(words) // sentences
    bounds = np.maximum(reached[:, -count], _LEAST).repeat(width) - offsets
    good = words >= np.nextafter(bounds.astype(np.float32), np.float32(-np.inf))[:, None]
    best: list[list[tuple[float, int, int]]] = [[] for _ in range(sentences)]
    each = offsets.tolist()
    # Of an array in two dimensions np.nonzero takes ten times as long.
    for place in _few_places(good.ravel().nonzero()[0], words, offsets, width, count).tolist():
        row, column = divmod(place, words.shape[1])
        best[row // width].append((words.item(row, column) + each[row], row, column))
    for sentence, found in enumerate(best):
        # Of equal scores the first hypothesis counts, and its first word.
        found.sort(key=_score, reverse=True)
        del found[count:]
        found += [(-np.inf, sentence * width, 0)] * (count - len(found))
    return best


def _few_places(
    places: NDArray[np.int64], words: NDArray[np.float32], offsets: NDArray[np.float64], width: int, count: int
) -> NDArray[np.int64]:
    """Places in (S * W, V); of very many, as where all words are equal, the ``count`` best of each sentence."""
    if len(places) <= _FEW * count * (len(words) // width):
        return places
    rows, columns = np.divmod(places, words.shape[1])
    owners = rows // width
    order = np.lexsort((-(words[rows, columns] + offsets[rows]), owners))
    first = np.searchsorted(owners, owners)
    return np.sort(places[order[np.arange(len(order)) - first < count]])


#: Of an extension: the score, which comes first.
_score: Final = itemgetter(0)


def _best_ends(end_scores: Sequence[float], scores: Sequence[float], beam_size: int) -> list[int]:
    """The hypotheses whose ends are among the ``beam_size`` best of them and the words of ``scores``, best first."""
    if len(scores) == beam_size and max(end_scores) < scores[-1]:
        return []
    both, places = [*end_scores, *scores], range(len(end_scores) + len(scores))
    ranked = sorted(places, key=both.__getitem__, reverse=True)[:beam_size]
    return sorted(place for place in ranked if place < len(end_scores) and both[place] > -np.inf)


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
    sums = np.empty(len(logits), np.float32)
    for first in range(0, len(logits), _ROWS):
        part = slice(first, first + _ROWS)
        shifted = logits[part] - largest[part, None]
        np.exp(shifted, out=shifted)
        shifted.sum(axis=1, out=sums[part])
    normalizer: NDArray[np.float64] = largest + np.log(sums.astype(np.float64))
    return normalizer
