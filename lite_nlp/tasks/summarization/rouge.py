"""ROUGE of summaries, as the rouge-score package computes it, with bootstrap confidence intervals.

ROUGE-N compares the n-grams of a summary with those of its reference, ROUGE-L their longest common subsequence (Lin
2004). ROUGE-L of a summary of several sentences takes, for each sentence of the reference, the union of its longest
common subsequences with all sentences of the summary (section 3.2 of that paper): this is ``rougeLsum``, the "R-L" of
papers on CNN-DailyMail. ``rougeL`` takes both texts as one sentence.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any, Final

import numpy as np
from rouge_score.rouge_scorer import RougeScorer

from lite_nlp.compress.metric import Metric
from lite_nlp.compress.significance import Measure, interval_of, mean_measure
from lite_nlp.core.errors import DataError
from lite_nlp.decoding.pieces import split_sentences
from lite_nlp.tasks.translation.scorer import PairScorer

__all__ = ["SUMMARY_SCORER", "RougeScores", "score_summaries", "summary_measures"]

#: In the order of the fields of :class:`RougeScores`.
_METRICS: Final = ("rouge1", "rouge2", "rougeL", "rougeLsum")


@dataclass(frozen=True)
class RougeScores:
    """Means of F1 over the summaries, 0 to 100, and their 95 % intervals; the intervals are None without a bootstrap.

    The signature names the version of the package and all options; scores with the same signature can be compared.
    """

    rouge1: float
    rouge1_low: float | None
    rouge1_high: float | None
    rouge2: float
    rouge2_low: float | None
    rouge2_high: float | None
    rougeL: float  # noqa: N815 - the name that papers and packages print
    rougeL_low: float | None  # noqa: N815
    rougeL_high: float | None  # noqa: N815
    rougeLsum: float  # noqa: N815
    rougeLsum_low: float | None  # noqa: N815
    rougeLsum_high: float | None  # noqa: N815
    rouge_signature: str
    sentences: int

    def as_dict(self) -> dict[str, Any]:
        """The fields, as JSON takes them."""
        return asdict(self)


def score_summaries(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    bootstrap: int = 1000,
    seed: int = 12345,
    stemmer: bool = True,
) -> RougeScores:
    """Score summaries against one reference each.

    Case and everything but letters a to z and digits are ignored, as in Lin's own program. A text is split at sentence
    ends (see ``split_sentences``) and line ends. An interval holds the middle 95 % of the means of resampled test sets.

    Args:
        hypotheses: The summaries.
        references: As many references.
        bootstrap: Resamples, at least 2, or 0 for scores without intervals.
        seed: Seed of the resampling; the signature contains it.
        stemmer: Compare the Porter stems of words of more than 3 letters, as papers on CNN-DailyMail do.

    Raises:
        DataError: If there are no summaries, or the numbers of references and summaries differ.
    """
    if len(hypotheses) != len(references):
        raise DataError(
            f"evaluation: expected one reference per summary, found {len(hypotheses)} summaries and "
            f"{len(references)} references"
        )
    if not hypotheses:
        raise DataError("evaluation: expected at least one summary, found none")
    measures = summary_measures(hypotheses, references, stemmer=stemmer)
    fields: dict[str, Any] = {}
    for name, measure in measures.items():
        fields[name] = measure.value
        low, high = interval_of(measure.resample(bootstrap, seed)) if bootstrap >= 2 else (None, None)
        fields |= {f"{name}_low": low, f"{name}_high": high}
    resampling = f"|bs:{bootstrap}|seed:{seed}" if bootstrap >= 2 else ""
    signature = f"nrefs:1{resampling}|stem:{'porter' if stemmer else 'no'}|f1:mean|version:{version('rouge-score')}"
    return RougeScores(**fields, rouge_signature=signature, sentences=len(hypotheses))


def summary_measures(
    hypotheses: Sequence[str], references: Sequence[str], *, stemmer: bool = True
) -> dict[str, Measure]:
    """Each ROUGE as the F1 of every summary; arguments as of ``score_summaries``."""
    scorer = RougeScorer(_METRICS, use_stemmer=stemmer)
    scores = np.array(
        [_score(scorer, hypothesis, reference) for hypothesis, reference in zip(hypotheses, references, strict=True)]
    )
    return {name: mean_measure(scores[:, place]) for place, name in enumerate(_METRICS)}


def _score(scorer: Any, hypothesis: str, reference: str) -> list[float]:
    """F1 of one summary, in the order of the metrics; the package expects one sentence per line."""
    found = scorer.score("\n".join(split_sentences(reference)), "\n".join(split_sentences(hypothesis)))
    return [100 * float(found[name].fmeasure) for name in _METRICS]


#: ROUGE; models are compared by ROUGE-Lsum, the "R-L" of the papers.
SUMMARY_SCORER: Final = PairScorer(
    name="rouge",
    metric=Metric(name="rougeLsum", label="ROUGE-Lsum", unit="ROUGE-Lsum"),
    columns={"ROUGE-1": "rouge1", "ROUGE-2": "rouge2", "ROUGE-L": "rougeL", "ROUGE-Lsum": "rougeLsum"},
    signatures={"ROUGE": "rouge_signature"},
    score=score_summaries,
    measures=summary_measures,
    regards_case=False,
)
