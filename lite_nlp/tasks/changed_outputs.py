"""Outputs that compression changed, beside their sources and references. Imports no torch."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

__all__ = ["ChangedOutput", "ChangedOutputs", "ScoredTexts", "find_changes"]

#: Changed outputs that are shown.
_SHOWN: Final = 20


@dataclass(frozen=True, kw_only=True)
class ScoredTexts:
    """The texts of scored examples, whose outputs are text too.

    Attributes:
        metric: Name for people of the score of one output.
        score: How near an output is to its reference, 0 to 100.
        references: What was expected, for each example.
        sources: What the model reads, for the examples with the given numbers.
    """

    metric: str
    score: Callable[[str, str], float]
    references: Sequence[str]
    sources: Callable[[Sequence[int]], Sequence[str]]


@dataclass(frozen=True, kw_only=True)
class ChangedOutput:
    """One example whose output changed.

    Attributes:
        source: What the model read.
        reference: What was expected.
        before: Output of the original.
        after: Output of the compressed model.
        score_before: How near the first is to the reference, 0 to 100.
        score_after: How near the second is to it.
    """

    source: str
    reference: str
    before: str
    after: str
    score_before: float
    score_after: float


@dataclass(frozen=True, kw_only=True)
class ChangedOutputs:
    """The outputs of two models on the same examples.

    Attributes:
        metric: Name for people of the score of one output.
        total: Number of examples.
        unchanged: How many outputs are the same.
        better: How many are nearer to the reference than before.
        worse: How many are further from it.
        rows: Those whose score changed most, at most 20; among equals the earlier examples.
    """

    metric: str
    total: int
    unchanged: int
    better: int
    worse: int
    rows: tuple[ChangedOutput, ...]

    def as_dict(self) -> dict[str, Any]:
        """The outputs as a JSON object."""
        return asdict(self)


def find_changes(before: Sequence[str], after: Sequence[str], texts: ScoredTexts) -> ChangedOutputs:
    """Compare the outputs of two models.

    Args:
        before: Outputs of the original, one for each of the scored examples.
        after: Those of the compressed model.
        texts: The examples.
    """
    changed = [place for place, (one, other) in enumerate(zip(before, after, strict=True)) if one != other]
    scores = {
        place: tuple(texts.score(outputs[place], texts.references[place]) for outputs in (before, after))
        for place in changed
    }
    shown = sorted(changed, key=lambda place: -abs(scores[place][1] - scores[place][0]))[:_SHOWN]
    rows = tuple(
        ChangedOutput(
            source=source,
            reference=texts.references[place],
            before=before[place],
            after=after[place],
            score_before=round(scores[place][0], 1),
            score_after=round(scores[place][1], 1),
        )
        for place, source in zip(shown, texts.sources(shown) if shown else (), strict=True)
    )
    return ChangedOutputs(
        metric=texts.metric,
        total=len(before),
        unchanged=len(before) - len(changed),
        better=sum(after > before for before, after in scores.values()),
        worse=sum(after < before for before, after in scores.values()),
        rows=rows,
    )
