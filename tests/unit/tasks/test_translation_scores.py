import json
import math
from importlib.metadata import version

import pytest
import sacrebleu
from sacrebleu.metrics import BLEU, CHRF

from lite_nlp.core.errors import DataError
from lite_nlp.tasks.translation.bleu import score_translations

HYPOTHESES = ["the cat sat on the mat today", "a dog runs in the park", "Two men talk", "it rains a lot in autumn here"]
REFERENCES = [
    "the cat sat on a mat today",
    "the dog runs in the park",
    "two men are talking",
    "it rains a lot in autumn",
]


def test_scores_are_those_of_sacrebleu():
    scores = score_translations(HYPOTHESES, REFERENCES)
    assert scores.bleu == pytest.approx(sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score)
    assert scores.chrf == pytest.approx(sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score)
    assert scores.sentences == 4


def test_bleu_of_one_sentence_by_hand():
    # "the" stands once in the reference, so its second use does not count, nor do the n-grams over it.
    scores = score_translations(["the cat sat on the mat today"], ["the cat sat on a mat today"], bootstrap=0)
    assert scores.bleu == pytest.approx(100 * math.prod([6 / 7, 4 / 6, 2 / 5, 1 / 4]) ** 0.25)


def test_interval_holds_the_score_and_is_reproducible():
    scores = score_translations(HYPOTHESES * 20, REFERENCES * 20)
    assert scores.bleu_low is not None
    assert scores.bleu_high is not None
    assert scores.chrf_low is not None
    assert scores.chrf_high is not None
    assert 0 < scores.bleu_low < scores.bleu < scores.bleu_high < 100
    assert 0 < scores.chrf_low < scores.chrf < scores.chrf_high < 100
    assert score_translations(HYPOTHESES * 20, REFERENCES * 20) == scores
    assert score_translations(HYPOTHESES * 20, REFERENCES * 20, seed=1).bleu_low != scores.bleu_low


@pytest.mark.parametrize("metric", ["bleu", "chrf"])
def test_interval_is_as_wide_as_sacrebleus_own(metric):
    hypotheses, references = HYPOTHESES * 20, REFERENCES * 20
    own = {"bleu": sacrebleu.BLEU(), "chrf": sacrebleu.CHRF()}[metric]
    report = own.corpus_score(hypotheses, [references], n_bootstrap=1000)
    theirs = json.loads(report.format(width=6, signature=str(own.get_signature()), is_json=True))["confidence_var"]
    ours = score_translations(hypotheses, references).as_dict()
    assert (ours[f"{metric}_high"] - ours[f"{metric}_low"]) / 2 == pytest.approx(theirs, abs=1e-3)
    assert ours[f"{metric}_signature"] == str(own.get_signature())


def test_resamples_without_any_match():
    scores = score_translations(["qqq", "www"], ["xyz", "www"])
    assert (scores.chrf_low, scores.chrf_high) == (0, pytest.approx(100))


def test_perfect_translations_have_no_spread():
    scores = score_translations(REFERENCES, REFERENCES)
    assert (scores.bleu, scores.bleu_low, scores.bleu_high) == pytest.approx((100, 100, 100))
    assert (scores.chrf, scores.chrf_low, scores.chrf_high) == pytest.approx((100, 100, 100))


def test_nothing_in_common_scores_zero():
    scores = score_translations(["a"], ["x"])
    assert (scores.bleu, scores.bleu_low, scores.bleu_high, scores.chrf_low, scores.chrf_high) == (0, 0, 0, 0, 0)


def test_signatures_tell_options_and_seed():
    scores = score_translations(HYPOTHESES, REFERENCES, lowercase=True)
    assert "case:lc" in scores.bleu_signature
    assert "tok:13a" in scores.bleu_signature
    assert "bs:1000|seed:12345" in scores.bleu_signature
    assert f"version:{sacrebleu.__version__}" in scores.chrf_signature
    assert "case:lc" in scores.chrf_signature


def test_without_bootstrap_there_is_no_interval():
    scores = score_translations(HYPOTHESES, REFERENCES, bootstrap=0)
    assert (scores.bleu_low, scores.bleu_high, scores.chrf_low, scores.chrf_high) == (None, None, None, None)
    assert "bs:" not in scores.bleu_signature


def test_as_dict_is_json():
    scores = score_translations(HYPOTHESES, REFERENCES)
    content = json.loads(json.dumps(scores.as_dict(), allow_nan=False))
    assert content["bleu"] == scores.bleu
    assert content["chrf_signature"] == scores.chrf_signature


def test_lengths_must_agree():
    with pytest.raises(
        DataError, match="expected one reference per translation, found 1 translations and 2 references"
    ):
        score_translations(["a"], ["b", "c"])


def test_nothing_to_score():
    with pytest.raises(DataError, match="expected at least one sentence, found none"):
        score_translations([], [])


@pytest.mark.parametrize("metric", [BLEU(), CHRF()])
def test_private_names_of_sacrebleu_are_those_of_the_pinned_version(metric: BLEU | CHRF) -> None:
    # The bootstrap resamples sacreBLEU's statistics of each sentence, which only private methods give.
    assert version("sacrebleu").startswith("2.6.")
    statistics = metric._extract_corpus_statistics(HYPOTHESES, [REFERENCES])
    summed = [sum(column) for column in zip(*statistics, strict=True)]
    found = metric._compute_score_from_stats(summed).score
    assert found == pytest.approx(metric.corpus_score(HYPOTHESES, [REFERENCES]).score)
