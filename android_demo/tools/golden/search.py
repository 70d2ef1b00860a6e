"""Vectors of the search: a step model defined by a formula, options, and the hypotheses that the search finds.

The logits are small multiples of a power of two, made of 32-bit integers, so that any language has the very same ones.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lite_nlp.core.errors import ModelError
from lite_nlp.core.special_tokens import EOS_ID, SPECIAL_TOKENS
from lite_nlp.decoding.search import SearchOptions, search

__all__ = ["FormulaModel", "search_vectors"]

_MASK: Final = 0xFFFFFFFF
_FIRST_WORD: Final = len(SPECIAL_TOKENS)

#: A change of the logits by so much must not change a result: a vector is no test of the last bit of ``exp``.
_NOISE: Final = 2e-5


@dataclass(frozen=True, kw_only=True)
class FormulaModel:
    """A ``StepModel`` whose state is a hash of the source and of all tokens fed, so that a wrong reorder shows.

    Attributes:
        seed: Starts the hashes.
        vocab_size: Types, special ones included.
        levels: Each logit is one of so many multiples of ``2 ** -shift``, from 0.
        shift: See there.
        end_bonus: Added to the logit of the end mark, a multiple of ``2 ** -shift``.
        end_is_best: Whether the end mark's logit is that of the best word instead.
        never: Tokens whose logit is minus infinity.
        nan_at_step: Step, from 1, at which logits are NaN; 0 for none.
    """

    seed: int
    vocab_size: int = 24
    levels: int = 4096
    shift: int = 9
    end_bonus: float = 0.0
    end_is_best: bool = False
    never: tuple[int, ...] = ()
    nan_at_step: int = 0

    def start(self, src_tokens: NDArray[np.int64], src_mask: NDArray[np.bool_], capacity: int) -> list[tuple[int, int]]:
        """Hash the sources without their padding; the state holds steps done and hash of each row."""
        del capacity
        return [(0, _fold(self.seed, row[mask].tolist())) for row, mask in zip(src_tokens, src_mask, strict=True)]

    def step(
        self, tokens: NDArray[np.int64], state: Sequence[tuple[int, int]]
    ) -> tuple[NDArray[np.float32], list[tuple[int, int]]]:
        """Fold a token into each row's hash, and compute its logits."""
        new = [(step + 1, _fold(value, [int(token)])) for (step, value), token in zip(state, tokens, strict=True)]
        return np.array([self.logits(step, value) for step, value in new], np.float32), new

    def reorder(self, state: Sequence[tuple[int, int]], rows: NDArray[np.int64]) -> list[tuple[int, int]]:
        """Gather rows."""
        return [state[row] for row in rows]

    def logits(self, step: int, value: int) -> list[float]:
        """Logits of a row, from its hash."""
        logits = [
            _mix(value ^ (token * 0x9E3779B1 & _MASK)) % self.levels / 2**self.shift for token in range(self.vocab_size)
        ]
        return self._adjusted(step, logits)

    def _adjusted(self, step: int, logits: list[float]) -> list[float]:
        if step == self.nan_at_step:
            return [float("nan")] * len(logits)
        for token in self.never:
            logits[token] = float("-inf")
        logits[EOS_ID] = max(logits[_FIRST_WORD:]) if self.end_is_best else logits[EOS_ID] + self.end_bonus
        return logits


@dataclass(frozen=True, kw_only=True)
class _NoisyModel(FormulaModel):
    """The same model with noise on the logits, equal on equal logits."""

    noise: int = 0

    def logits(self, step: int, value: int) -> list[float]:
        exact = super().logits(step, value)
        random = np.random.default_rng([self.noise, value])
        change = dict(zip(sorted(set(exact)), random.uniform(-_NOISE, _NOISE, len(set(exact))), strict=True))
        return [logit + change[logit] for logit in exact]


def _fold(value: int, tokens: Sequence[int]) -> int:
    for token in tokens:
        value = (value * 0x01000193 + token + 1) & _MASK
    return value


def _mix(value: int) -> int:
    """Mix 32 bits so that each depends on all (finalizer of MurmurHash3)."""
    value = (value ^ (value >> 16)) * 0x85EBCA6B & _MASK
    value = (value ^ (value >> 13)) * 0xC2B2AE35 & _MASK
    return value ^ (value >> 16)


_SOURCES: Final[tuple[list[list[int]], ...]] = (
    [[3, 4, 5]],
    [[7]],
    [[]],
    [[3] * 9, [4, 5], [], [6, 7, 8, 9, 10, 11]],
    [[5, 6]] * 3,
    [[8, 3], [3, 8]],
)

#: Options by what they are about; each is crossed with beams and sources.
_OPTIONS: Final[tuple[Mapping[str, Any], ...]] = (
    {},
    {"min_length": 4},
    {"no_repeat_ngram": 1},
    {"no_repeat_ngram": 2, "length_penalty": 0.0},
    {"length_penalty": 1.0},
    {"max_steps": 5},
    {"max_length_ratio": 1.5, "max_length_extra": 1, "min_length": 3},
    {"max_length_ratio": 4.0, "length_penalty": 2.0},
)
_MODELS: Final[tuple[Mapping[str, Any], ...]] = (
    {"seed": 1, "end_bonus": -1.0},
    {"seed": 2, "end_bonus": 1.0},
    {"seed": 3, "end_bonus": -8.0},
    {"seed": 4, "vocab_size": 5, "end_bonus": 1.0},
    {"seed": 5, "end_bonus": 1.0, "never": (4, 5, 6, 7)},
    {"seed": 6, "end_is_best": True},
)


def search_vectors() -> dict[str, Any]:
    """All cases, and the number left out because their result depends on the last bits of a float."""
    cases, left_out = [], 0
    for model, options, sources in _choices():
        if _is_robust(model, options, sources):
            cases.append(_case(model, options, sources))
        else:
            left_out += 1
    return {"cases": cases, "left_out": left_out, "not_finite": _not_finite()}


def _choices() -> Iterator[tuple[dict[str, Any], dict[str, Any], list[list[int]]]]:
    for beam_size in (1, 3, 5):
        for options in _OPTIONS:
            for index, model in enumerate(_MODELS):
                for place, sources in enumerate(_SOURCES):
                    # Each combination of two of the three, not all of them.
                    if (index + place + len(options)) % 2 == 0:
                        yield dict(model), {"beam_size": beam_size, **options}, sources
    for beam_size in (1, 4):
        yield {"seed": 1}, {"beam_size": beam_size, "max_length_ratio": 0.0, "max_length_extra": 1}, [[3, 4, 5], []]
    # Few levels, many equal logits: greedy search takes the lowest id. With more places than one, NumPy's partition
    # decides which of several equal words goes on, so that there is nothing to agree with.
    for seed in range(20, 32):
        yield {"seed": seed, "levels": 3, "shift": 0}, {"beam_size": 1, "min_length": seed % 4}, [[3, 4], [5]]


def _is_robust(model: dict[str, Any], options: dict[str, Any], sources: list[list[int]]) -> bool:
    exact = [found.tokens for found in search(FormulaModel(**model), sources, SearchOptions(**options))]
    return all(
        [found.tokens for found in search(_NoisyModel(**model, noise=noise), sources, SearchOptions(**options))]
        == exact
        for noise in (1, 2, 3)
    )


def _case(model: dict[str, Any], options: dict[str, Any], sources: list[list[int]]) -> dict[str, Any]:
    used = FormulaModel(**model)
    found = search(used, sources, SearchOptions(**options))
    return {
        "model": asdict(used),
        "options": asdict(SearchOptions(**options)),
        "sources": sources,
        "tokens": [hypothesis.tokens for hypothesis in found],
        "scores": [hypothesis.score for hypothesis in found],
    }


def _not_finite() -> list[dict[str, Any]]:
    """Cases that must fail: NaN at a step that the search reaches."""
    cases = []
    for step, beam_size in ((1, 1), (2, 1), (3, 4)):
        model = FormulaModel(seed=9, end_bonus=-30.0, nan_at_step=step)
        options = SearchOptions(beam_size=beam_size)
        try:
            search(model, [[3, 4]], options)
        except ModelError:
            cases.append({"model": asdict(model), "options": asdict(options), "sources": [[3, 4]]})
    if len(cases) != 3:
        raise ValueError(f"NaN: expected 3 searches that fail, found {len(cases)}")
    return cases
