import json
from collections import Counter

import numpy as np
import pytest

from lite_nlp.core.errors import DataError
from lite_nlp.tasks.summarization.rouge import score_summaries

HYPOTHESES = ["the cat sat on the mat", "dogs ran home", "nothing alike", "it rained. we stayed in."]
REFERENCES = ["the cat is on the mat", "the dog runs home", "other words", "we stayed in. it rained."]


def score(hypothesis, reference, **options):
    return score_summaries([hypothesis], [reference], bootstrap=0, **options)


def test_ngrams_by_hand():
    # Of 6 words 5 are shared; of 5 pairs "the cat", "on the", "the mat"; in order: the, cat, on, the, mat.
    found = score("the cat sat on the mat", "the cat is on the mat")
    assert (found.rouge1, found.rouge2, found.rougeL) == pytest.approx((100 * 5 / 6, 100 * 3 / 5, 100 * 5 / 6))


@pytest.mark.parametrize(
    ("hypothesis", "expected"), [("police kill the gunman", 3 / 4), ("the gunman kill police", 2 / 4)]
)
def test_longest_common_subsequence_of_lins_paper(hypothesis, expected):
    # Lin (2004), section 3.1: the reference is "police killed the gunman".
    found = score(hypothesis, "police killed the gunman", stemmer=False)
    assert found.rougeL == pytest.approx(100 * expected)


def test_summary_level_of_lins_paper():
    # Lin (2004), section 3.2: the union of the subsequences has 4 of the 5 words; the summary has 10 words.
    found = score("w1 w2 w6 w7 w8. w1 w3 w8 w9 w5.", "w1 w2 w3 w4 w5.")
    recall, precision = 4 / 5, 4 / 10
    assert found.rougeLsum == pytest.approx(100 * 2 * recall * precision / (recall + precision))


def test_sentences_in_another_order_count_for_the_summary_but_not_for_the_whole_line():
    found = score("It rained. We stayed in.", "We stayed in. It rained.")
    assert found.rougeLsum == pytest.approx(100)
    assert found.rougeL == pytest.approx(100 * 3 / 5)


def test_stems_and_case():
    assert score("Dogs RUNNING", "dog runs").rouge1 == pytest.approx(100)
    assert score("Dogs RUNNING", "dog runs", stemmer=False).rouge1 == 0


def f1_of_ngrams(hypothesis, reference, size):
    """The definition, for texts of letters and spaces."""
    sides = [
        Counter(zip(*(text.split()[start:] for start in range(size)), strict=False)) for text in (hypothesis, reference)
    ]
    return 200 * (sides[0] & sides[1]).total() / max(1, sides[0].total() + sides[1].total())


def test_random_texts_against_the_definition():
    rng = np.random.default_rng(5)
    texts = [" ".join(rng.choice(list("abcdef"), size=rng.integers(1, 30))) for _ in range(60)]
    hypotheses, references = texts[:30], texts[30:]
    found = score_summaries(hypotheses, references, bootstrap=0, stemmer=False)
    for size, value in ((1, found.rouge1), (2, found.rouge2)):
        pairs = zip(hypotheses, references, strict=True)
        assert value == pytest.approx(np.mean([f1_of_ngrams(*pair, size) for pair in pairs]))


def test_interval_of_a_fair_coin():
    # 400 summaries, half of them perfect: the mean of a resample has a standard deviation of 100 * sqrt(1/4 / 400).
    found = score_summaries(["one", "two"] * 200, ["one", "other"] * 200)
    assert found.rouge1 == pytest.approx(50)
    assert found.rouge1_low == pytest.approx(50 - 1.96 * 2.5, abs=0.8)
    assert found.rouge1_high == pytest.approx(50 + 1.96 * 2.5, abs=0.8)
    assert found == score_summaries(["one", "two"] * 200, ["one", "other"] * 200)
    assert found.rouge1_low != score_summaries(["one", "two"] * 200, ["one", "other"] * 200, seed=1).rouge1_low


def test_empty_summaries_score_nothing():
    found = score_summaries(["", "..."], ["a reference", "b"])
    assert (found.rouge1, found.rougeLsum, found.rouge1_high) == (0, 0, 0)


def test_without_bootstrap_there_is_no_interval():
    found = score_summaries(HYPOTHESES, REFERENCES, bootstrap=0)
    assert {found.rouge1_low, found.rouge2_high, found.rougeL_low, found.rougeLsum_high} == {None}
    assert "bs:" not in found.rouge_signature


def test_json_and_signature():
    found = score_summaries(HYPOTHESES, REFERENCES)
    content = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert content["sentences"] == 4
    assert content["rougeL_low"] <= content["rougeL"] <= content["rougeL_high"]
    assert content["rouge_signature"].startswith("nrefs:1|bs:1000|seed:12345|stem:porter|f1:mean|version:")


def test_what_cannot_be_scored():
    with pytest.raises(DataError, match="expected one reference per summary, found 1 summaries and 2 references"):
        score_summaries(["a"], ["b", "c"])
    with pytest.raises(DataError, match="expected at least one summary, found none"):
        score_summaries([], [])
