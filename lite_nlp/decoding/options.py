"""Options of greedy and beam search."""

from dataclasses import dataclass
from typing import Protocol, Self

from lite_nlp.core.bounds import MAX_BEAM
from lite_nlp.core.errors import ConfigError

__all__ = ["DecodingSection", "SearchOptions"]


class DecodingSection(Protocol):
    """What a config's ``[decoding]`` section, or the copy of it in a manifest, says of the search."""

    @property
    def length_penalty(self) -> float:
        """Exponent of the length penalty."""

    @property
    def no_repeat_ngram(self) -> int:
        """No run of so many tokens occurs twice in an output; 0 allows all."""

    @property
    def min_length(self) -> int:
        """Fewest tokens of an output."""

    @property
    def max_length(self) -> int:
        """Most tokens of an output; 0 for no such bound."""


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """Options of a search.

    A sentence of n source tokens gets ``int(max_length_ratio * n) + max_length_extra`` steps, but at most
    ``max_steps``; the end mark takes one, and is forced in the last. An output of fewer than ``min_length`` tokens
    does not end unless its steps are used up or no token is allowed to follow.

    Attributes:
        beam_size: Hypotheses kept per sentence, 1 to 256; 1 is greedy search.
        max_length_ratio: Steps per source token.
        max_length_extra: Steps on top of that.
        max_steps: Bound for every source length; None for no bound.
        min_length: Fewest tokens of an output, the end mark not counted.
        length_penalty: Exponent of ``length_penalty``; no effect on greedy search but on the score.
        no_repeat_ngram: No n-gram of this many tokens occurs twice in an output; 0 allows all.

    Raises:
        ConfigError: If a value is out of range.
    """

    beam_size: int = 1
    max_length_ratio: float = 2.0
    max_length_extra: int = 10
    max_steps: int | None = None
    min_length: int = 0
    length_penalty: float = 0.6
    no_repeat_ngram: int = 0

    def __post_init__(self) -> None:
        smallest = {
            "beam_size": 1,
            "max_length_ratio": 0,
            "max_length_extra": 1,
            "min_length": 0,
            "length_penalty": 0,
            "no_repeat_ngram": 0,
        }
        for name, least in smallest.items():
            if not getattr(self, name) >= least:
                raise ConfigError(f"{name}: expected at least {least}, found {getattr(self, name)}")
        if self.beam_size > MAX_BEAM:
            raise ConfigError(f"beam_size: expected at most {MAX_BEAM}, found {self.beam_size}")
        if self.max_steps is not None and self.max_steps < 1:
            raise ConfigError(f"max_steps: expected at least 1, found {self.max_steps}")

    @classmethod
    def of(cls, decoding: DecodingSection | None, *, beam: int, max_steps: int) -> Self:
        """Options of a ``[decoding]`` section, or the defaults without one, in at most ``max_steps`` steps."""
        if decoding is None:
            return cls(beam_size=beam, max_steps=max_steps)
        return cls(
            beam_size=beam,
            # The end mark takes a step.
            max_steps=min(max_steps, decoding.max_length + 1) if decoding.max_length else max_steps,
            min_length=decoding.min_length,
            length_penalty=decoding.length_penalty,
            no_repeat_ngram=decoding.no_repeat_ngram,
        )

    @property
    def is_plain_greedy(self) -> bool:
        """Whether the most probable token is taken at every step, whatever came before it."""
        return self.beam_size == 1 and self.no_repeat_ngram == 0

    def steps(self, src_length: int) -> int:
        """Most steps for a sentence of ``src_length`` tokens, without the end mark."""
        steps = int(self.max_length_ratio * src_length) + self.max_length_extra
        return steps if self.max_steps is None else min(steps, self.max_steps)
