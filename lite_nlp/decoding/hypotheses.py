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
    "best_extension",
    "damaged_model",
    "length_penalty",
    "log_sum_exp",
    "rank_extensions",
    "repeated_ngrams",
]

#: Columns among which the largest entry is looked for at once.
_GROUP: Final = 16

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
    must_end: NDArray[np.bool_],
    may_end: NDArray[np.bool_],
    blocked: Blocked | None = None,
) -> Candidates:
    """Rank all extensions of the live hypotheses.

    A hypothesis that is dead (score -inf, when there are fewer extensions than places) only has dead extensions.

    Args:
        logits: (S * W, V), row ``s * W + w`` for hypothesis ``w`` of sentence ``s``.
        live: (S, W) log-probabilities of the live hypotheses.
        beam_size: Hypotheses kept per sentence.
        must_end: (S,) sentences that have no step left, so that only the end mark may follow.
        may_end: (S,) sentences long enough to end; a hypothesis that no token can extend may end in any case.
        blocked: Tokens that get the log-probability -inf.

    Raises:
        ModelError: If the logits are not finite where they should be.
    """
    sentences, width = live.shape
    offsets = live.reshape(-1) - log_sum_exp(logits)
    words = _words(logits, blocked)
    end_scores = (offsets + logits[:, EOS_ID]).reshape(sentences, width)
    if not may_end.all():
        extended = (words.max(axis=1) + offsets).reshape(sentences, width) > -np.inf
        end_scores[~may_end[:, None] & extended] = -np.inf
    scores, rows, columns = _best_words(words, offsets, sentences, min(beam_size, width * words.shape[1]))
    scores[must_end] = -np.inf
    return Candidates(
        end_scores=end_scores,
        ends=_best_ends(end_scores, scores, beam_size),
        scores=scores,
        parents=rows % width,
        tokens=columns + _FIRST_TOKEN,
    )


def _words(logits: NDArray[np.float32], blocked: Blocked | None) -> NDArray[np.float32]:
    """The columns of the words, a view of the logits unless some are blocked."""
    words = logits[:, _FIRST_TOKEN:]
    if blocked is not None:
        words = words.copy()
        words[blocked[0], blocked[1] - _FIRST_TOKEN] = -np.inf
    return words


def _best_words(
    words: NDArray[np.float32], offsets: NDArray[np.float64], sentences: int, count: int
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """Scores, rows and columns of the ``count`` best extensions of each sentence, best first; all (S, ``count``).

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
    least = np.partition(reached, reached.shape[1] - count, axis=1)[:, -count]
    # Fewer than wanted may be alive; those of a dead hypothesis are never taken.
    width = len(words) // sentences
    bounds = np.maximum(least, _LEAST).repeat(width) - offsets
    good = words >= np.nextafter(bounds.astype(np.float32), np.float32(-np.inf))[:, None]
    # Of an array in two dimensions np.nonzero takes ten times as long.
    rows, columns = np.divmod(good.ravel().nonzero()[0], words.shape[1])
    if not len(rows):
        none = np.zeros((sentences, count), np.int64)
        return np.full(none.shape, -np.inf), none, none
    scores, owners = words[rows, columns] + offsets[rows], rows // width
    # Of equal scores the first hypothesis counts, and its first word.
    order = np.lexsort((-scores, owners))
    found = np.bincount(owners, minlength=sentences)
    places = np.arange(count)
    taken = order[np.minimum((found.cumsum() - found)[:, None] + places, len(order) - 1)]
    best = scores[taken]
    # Where a sentence has fewer, the places of another's words are taken, dead.
    best[places >= found[:, None]] = -np.inf
    return best, rows[taken], columns[taken]


def _best_ends(end_scores: NDArray[np.float64], scores: NDArray[np.float64], beam_size: int) -> NDArray[np.bool_]:
    """(S, W), which ends are among the ``beam_size`` best of them and the words of ``scores``, best first."""
    sentences, width = end_scores.shape
    ends = np.zeros((sentences, width), np.bool_)
    if scores.shape[1] == beam_size and (end_scores < scores[:, -1:]).all():
        return ends
    ranked = np.argsort(-np.concatenate([end_scores, scores], axis=1), axis=1, kind="stable")[:, :beam_size]
    sentence, place = np.nonzero(ranked < width)
    ends[sentence, ranked[sentence, place]] = True
    ends &= end_scores > -np.inf
    return ends


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
