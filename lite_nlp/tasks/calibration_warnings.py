"""Warnings about the text that guides a compression, and about the model it starts from. Imports no torch."""

import math
from dataclasses import dataclass
from typing import Final

from lite_nlp.data.languages import language_code

__all__ = ["CalibrationFacts", "calibration_warnings"]

#: Fewest predictions to measure sensitivity on, to fine-tune on, and fewest examples to score. The divergence of one
#: prediction varies by two to three times its mean, so that 200 leave an error of about a fifth.
FEWEST_SCANNED: Final = 200
FEWEST_TUNED: Final = 1_000
FEWEST_SCORED: Final = 100
#: Nats per prediction above the model's own validation split. Measured on an English-German model: another kind of text
#: of the same languages up to 0.1, lower-cased and split into tokens 3.4, lines that do not correspond 4.4, the
#: languages exchanged 6.7.
STRANGE: Final = 2.0


@dataclass(frozen=True, kw_only=True)
class CalibrationFacts:
    """What is known of the text and the model before a compression begins.

    Attributes:
        name: Display name of the text.
        scanned: Predictions to measure sensitivity on.
        tuned: Different predictions to fine-tune on; None without fine-tuning.
        scored: Examples to score; None where single examples have no scores.
        loss: The model's mean negative log-likelihood of the scanned labels, in nats.
        own_loss: The same on its own validation split, when it was trained; None if unknown.
        languages: Of the text, as codes of source and target; None if unknown.
        own_languages: Of the model.
        given: Whether the text was given, in place of the package's own.
        quantized: Matrices that the model's file stores quantized.
    """

    name: str
    scanned: int
    tuned: int | None
    scored: int | None
    loss: float
    own_loss: float | None
    languages: tuple[str, str] | None
    own_languages: tuple[str, str] | None
    given: bool
    quantized: int


def calibration_warnings(facts: CalibrationFacts) -> list[str]:
    """What makes the estimates of a compression doubtful, with figures."""
    found = _about_size(facts) if facts.given else []
    if _differ(facts.languages, facts.own_languages):
        text, model = (" to ".join(codes or ()) for codes in (facts.languages, facts.own_languages))
        found.append(
            f"compression is guided and scored by {facts.name}, which are {text}; the model is {model}: "
            + ("give --data in its languages" if facts.given else "give --data")
        )
    elif facts.own_loss is not None and facts.loss > facts.own_loss + STRANGE:
        found.append(
            f"the model's perplexity on {facts.name} is {math.exp(facts.loss):,.1f}, on its own validation split it "
            f"was {math.exp(facts.own_loss):,.1f}: check that the text has the model's languages in the model's "
            "direction, its way of writing (lower case, split words), and lines that correspond"
        )
    if facts.quantized:
        found.append(
            f"{facts.quantized} matrices of the model have been quantized before: compression works from their "
            "present values, and what that lost is not in its figures; the model as it was trained loses less"
        )
    return found


def _differ(text: tuple[str, str] | None, model: tuple[str, str] | None) -> bool:
    """Whether a language of the text is not the model's; codes that name no language are not compared."""
    sides = zip(text or (), model or (), strict=False)
    return any(
        None not in codes and codes[0] != codes[1]
        for codes in ([language_code(side) for side in pair] for pair in sides)
    )


def _about_size(facts: CalibrationFacts) -> list[str]:
    found = []
    if facts.scanned < FEWEST_SCANNED:
        found.append(
            f"the sensitivity of the matrices is measured on {facts.scanned:,} predictions of {facts.name}, expected "
            f"at least {FEWEST_SCANNED:,}: the plan may be far from the best"
        )
    if facts.tuned is not None and facts.tuned < FEWEST_TUNED:
        found.append(
            f"there are {facts.tuned:,} predictions of the train split to finetune on, expected at least "
            f"{FEWEST_TUNED:,}: finetuning learns them by heart"
        )
    if facts.scored is not None and facts.scored < FEWEST_SCORED:
        found.append(
            f"{facts.scored:,} examples of {facts.name} are scored, expected at least {FEWEST_SCORED:,}: differences "
            "between the stages are noise unless they are large"
        )
    return found
