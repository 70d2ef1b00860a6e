"""BLEU and chrF of translations, as sacreBLEU computes them, with signatures and bootstrap confidence intervals."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sacrebleu.metrics import BLEU, CHRF

from lite_nlp.errors import DataError

__all__ = ["Scores", "score_translations"]


@dataclass(frozen=True)
class Scores:
    """Corpus scores, 0 to 100, and their 95 % intervals; the intervals are None where no bootstrap was asked for.

    The signatures name the sacreBLEU version and all options; with them the figures can be compared with others.
    """

    bleu: float
    bleu_low: float | None
    bleu_high: float | None
    bleu_signature: str
    chrf: float
    chrf_low: float | None
    chrf_high: float | None
    chrf_signature: str
    sentences: int

    def as_dict(self) -> dict[str, Any]:
        """The fields, as JSON takes them."""
        return asdict(self)


def score_translations(
    hypotheses: Sequence[str], references: Sequence[str], *, bootstrap: int = 1000, lowercase: bool = False
) -> Scores:
    """Score a whole test set against one reference each.

    BLEU is on sacreBLEU's own tokenization (13a) of plain text, chrF is chrF2. An interval is sacreBLEU's bootstrap
    estimate (Koehn 2004): the mean over resamples of the test set, plus and minus half the width of the middle 95 %.
    Its seed is sacreBLEU's, the environment variable ``SACREBLEU_SEED`` or 12345; the signature tells it.

    Args:
        hypotheses: The translations.
        references: As many references.
        bootstrap: Resamples, at least 2, or 0 for scores without intervals.
        lowercase: Compare without regard to case; the signatures tell so.

    Raises:
        DataError: If there are no sentences, or not as many references as hypotheses.
    """
    if len(hypotheses) != len(references):
        raise DataError(
            f"evaluation: expected one reference per translation, found {len(hypotheses)} translations and "
            f"{len(references)} references"
        )
    if not hypotheses:
        raise DataError("evaluation: expected at least one sentence, found none")
    bleu, bleu_low, bleu_high, bleu_signature = _score(BLEU(lowercase=lowercase), hypotheses, references, bootstrap)
    chrf, chrf_low, chrf_high, chrf_signature = _score(CHRF(lowercase=lowercase), hypotheses, references, bootstrap)
    return Scores(
        bleu=bleu,
        bleu_low=bleu_low,
        bleu_high=bleu_high,
        bleu_signature=bleu_signature,
        chrf=chrf,
        chrf_low=chrf_low,
        chrf_high=chrf_high,
        chrf_signature=chrf_signature,
        sentences=len(hypotheses),
    )


def _score(
    metric: Any, hypotheses: Sequence[str], references: Sequence[str], bootstrap: int
) -> tuple[float, float | None, float | None, str]:
    """Score, lower and upper end of the interval, signature."""
    result = metric.corpus_score(list(hypotheses), [list(references)], n_bootstrap=bootstrap)
    signature = str(metric.get_signature())
    if bootstrap < 2:
        return float(result.score), None, None, signature
    # The interval is public only in this output format.
    report = json.loads(result.format(width=6, signature=signature, is_json=True))
    mean, half = report.get("confidence_mean", 0.0), report.get("confidence_var", 0.0)
    return float(result.score), mean - half, mean + half, signature
