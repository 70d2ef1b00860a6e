"""BLEU and chrF of translations, as sacreBLEU computes them, with signatures and bootstrap confidence intervals."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from sacrebleu.metrics import BLEU, CHRF

from lite_nlp.compress.metric import Metric
from lite_nlp.compress.significance import Measure, interval_of
from lite_nlp.core.errors import DataError
from lite_nlp.tasks.translation.scorer import PairScorer

__all__ = [
    "TRANSLATION_SCORER",
    "Scores",
    "measure_of",
    "score_translations",
    "sentence_chrf",
    "translation_measures",
]


@dataclass(frozen=True)
class Scores:
    """Corpus scores, 0 to 100, and their 95 % intervals; the intervals are None without a bootstrap.

    The signatures name the sacreBLEU version and all options; scores with the same signature can be compared.
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
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    bootstrap: int = 1000,
    seed: int = 12345,
    lowercase: bool = False,
) -> Scores:
    """Score a whole test set against one reference each.

    BLEU is on sacreBLEU's own tokenization (13a) of plain text, chrF is chrF2. An interval holds the middle 95 % of the
    scores of resampled test sets (bootstrap, Koehn 2004); with the default seed they are sacreBLEU's resamples.

    Args:
        hypotheses: The translations.
        references: As many references.
        bootstrap: Resamples, at least 2, or 0 for scores without intervals.
        seed: Seed of the resampling; the signatures contain it.
        lowercase: Ignore case; the signatures contain it.

    Raises:
        DataError: If there are no sentences, or the numbers of references and hypotheses differ.
    """
    if len(hypotheses) != len(references):
        raise DataError(
            f"evaluation: expected one reference per translation, found {len(hypotheses)} translations and "
            f"{len(references)} references"
        )
    if not hypotheses:
        raise DataError("evaluation: expected at least one sentence, found none")
    bleu, bleu_low, bleu_high, bleu_signature = _score(
        BLEU(lowercase=lowercase), hypotheses, references, bootstrap, seed
    )
    chrf, chrf_low, chrf_high, chrf_signature = _score(
        CHRF(lowercase=lowercase), hypotheses, references, bootstrap, seed
    )
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


def translation_measures(hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, Measure]:
    """BLEU and chrF as sacreBLEU's statistics of each sentence; arguments as of ``score_translations``."""
    metrics = {"bleu": BLEU(), "chrf": CHRF()}
    return {name: measure_of(metric, hypotheses, references) for name, metric in metrics.items()}


def sentence_chrf(hypothesis: str, reference: str) -> float:
    """The chrF of one sentence, 0 to 100."""
    return float(CHRF().sentence_score(hypothesis, [reference]).score)


def measure_of(metric: Any, hypotheses: Sequence[str], references: Sequence[str]) -> Measure:
    """A metric of sacreBLEU as the statistics of each sentence; one reference for each."""
    return Measure(
        statistics=np.array(metric._extract_corpus_statistics(hypotheses, [references]), np.float64),
        compute=lambda sums: float(metric._compute_score_from_stats(sums).score),
    )


def _score(
    metric: Any, hypotheses: Sequence[str], references: Sequence[str], bootstrap: int, seed: int
) -> tuple[float, float | None, float | None, str]:
    """Score, lower and upper end of the interval, signature."""
    score = float(metric.corpus_score(hypotheses, [references]).score)
    if bootstrap < 2:
        return score, None, None, str(metric.get_signature())
    # sacreBLEU's own bootstrap fails on a resample without any match (it mixes float types that Python's mean refuses),
    # so the resampling is ours, on sacreBLEU's statistics of each sentence.
    low, high = interval_of(measure_of(metric, hypotheses, references).resample(bootstrap, seed))
    metric.n_bootstrap, metric.seed = bootstrap, seed
    return score, low, high, str(metric.get_signature())


#: BLEU and chrF.
TRANSLATION_SCORER: Final = PairScorer(
    name="bleu",
    metric=Metric(name="bleu", label="BLEU", unit="BLEU"),
    columns={"BLEU": "bleu", "chrF": "chrf"},
    signatures={"BLEU": "bleu_signature", "chrF": "chrf_signature"},
    score=score_translations,
    measures=translation_measures,
)
