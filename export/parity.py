"""Token parity of an exported model and its original."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from lite_nlp.core.errors import BundleError
from lite_nlp.core.special_tokens import BOS_ID, EOS_ID
from lite_nlp.decoding.options import SearchOptions
from lite_nlp.decoding.search import search
from lite_nlp.decoding.step_models import BeamModel, StepModel

__all__ = [
    "BATCH",
    "BeamCalls",
    "Disagreement",
    "ParityReport",
    "Reference",
    "StepByStep",
    "compare_engines",
    "require_parity",
]

#: More than an ExecuTorch call takes, so that its splitting is part of the proof.
BATCH: Final = 12

#: Two logits tie that differ by no more than this share of the largest; another order of sums changes a tenth of it.
_TIE: Final = 1e-5


@dataclass(frozen=True)
class Disagreement:
    """A sentence that two engines translate differently.

    Attributes:
        index: Of the sentence.
        expected: Token ids from the reference.
        found: Token ids from the other engine.
    """

    index: int
    expected: tuple[int, ...]
    found: tuple[int, ...]


@dataclass(frozen=True)
class ParityReport:
    """Agreement of two engines over a set of sentences.

    Attributes:
        sentences: Sentences compared.
        tokens: Target tokens of the reference, end marks not counted.
        disagreements: Sentences with any other token, ties excepted.
    """

    sentences: int
    tokens: int
    disagreements: tuple[Disagreement, ...]

    @property
    def agreement(self) -> float:
        """Fraction of sentences with the same tokens, or with others by a tie alone."""
        return 1 - len(self.disagreements) / self.sentences

    def to_json(self) -> dict[str, Any]:
        """For the manifest."""
        return {"sentences": self.sentences, "tokens": self.tokens, "agreement": self.agreement}


class StepByStep:
    """A step model without the means to search by itself.

    Args:
        model: Takes the steps.
    """

    def __init__(self, model: StepModel) -> None:
        self.start, self.step, self.reorder = model.start, model.step, model.reorder


class BeamCalls(StepByStep):
    """A beam model without the means to decode greedily in one call.

    Args:
        model: Takes the steps.
    """

    def __init__(self, model: BeamModel) -> None:
        super().__init__(model)
        self.search_beams = model.search_beams


class Reference:
    """What an engine finds for some sources, searched for once however many others are held against it.

    Args:
        model: The engine, usually the torch model.
        src_rows: Token ids of the sources, without special ids; at least one.
    """

    def __init__(self, model: StepModel, src_rows: Sequence[Sequence[int]]) -> None:
        self.model = model
        self.src_rows = src_rows
        self._found: dict[tuple[SearchOptions, int], list[tuple[int, ...]]] = {}

    def outputs(self, options: SearchOptions, batch: int) -> list[tuple[int, ...]]:
        """The tokens of each source's output, in batches of a size: a model may give others where there is padding."""
        key = options, batch
        if key not in self._found:
            self._found[key] = _translate(self.model, self.src_rows, options, batch)
        return self._found[key]


def compare_engines(
    reference: Reference, candidate: StepModel, options: SearchOptions, *, batch: int = BATCH
) -> ParityReport:
    """Translate the reference's sources, in batches of mixed lengths, and compare token ids with its own.

    A greedy search may choose either of two tokens whose logits are the same but for rounding, and go on from there: no
    disagreement is counted where the two of the first difference tie in the reference's logits.

    Args:
        reference: What the outputs are held against.
        candidate: The exported model.
        options: How to search.
        batch: Sentences at once, for both.
    """
    wanted = reference.outputs(options, batch)
    disagreements = []
    for index, found in enumerate(_translate(candidate, reference.src_rows, options, batch)):
        expected = wanted[index]
        if expected == found:
            continue
        if not (options.is_plain_greedy and _is_tie(reference.model, reference.src_rows[index], expected, found)):
            disagreements.append(Disagreement(index, expected, found))
    return ParityReport(len(wanted), sum(map(len, wanted)), tuple(disagreements))


def _translate(
    model: StepModel, src_rows: Sequence[Sequence[int]], options: SearchOptions, batch: int
) -> list[tuple[int, ...]]:
    return [
        tuple(output.tokens)
        for start in range(0, len(src_rows), batch)
        for output in search(model, src_rows[start : start + batch], options)
    ]


def _is_tie(reference: StepModel, src_row: Sequence[int], expected: Sequence[int], found: Sequence[int]) -> bool:
    """Whether the first tokens in which two outputs for a source differ have the same logit, within rounding."""
    pairs = list(zip([*expected, EOS_ID], [*found, EOS_ID], strict=False))
    first = next(place for place, (one, other) in enumerate(pairs) if one != other)
    src_tokens = np.array([[*src_row, EOS_ID]], np.int64)
    state = reference.start(src_tokens, np.ones(src_tokens.shape, np.bool_), first + 1)
    for token in (BOS_ID, *expected[:first]):
        logits, state = reference.step(np.array([token], np.int64), state)
    one, other = logits[0, list(pairs[first])].tolist()
    return bool(abs(one - other) <= _TIE * np.abs(logits).max())


def require_parity(report: ParityReport, *, runtime: str) -> None:
    """Check that no token differs.

    Raises:
        BundleError: If the engines disagreed on any sentence; names the first.
    """
    if not report.disagreements:
        return
    first = report.disagreements[0]
    raise BundleError(
        f"{runtime}: expected the model's own token ids for all {report.sentences} sentences, found "
        f"{len(report.disagreements)} that differ; sentence {first.index}: expected {list(first.expected)}, found "
        f"{list(first.found)}"
    )
