"""Results of no use are called so, and useful ones are not."""

from dataclasses import replace

import numpy as np
import pytest

from lite_nlp.compress.metric import Metric
from lite_nlp.tasks.classification.scores import score_classifications
from lite_nlp.tasks.usefulness import (
    CompressionFacts,
    accuracy_warnings,
    compression_warnings,
    output_warnings,
    perplexity_warnings,
    score_warnings,
    training_warnings,
)

BLEU = Metric(name="bleu", label="BLEU", unit="BLEU")
PERPLEXITY = Metric(name="perplexity", label="perplexity", unit="in perplexity", lower_is_better=True)
COLORS, THINGS = ("red", "old", "big"), ("cat", "bus", "cup", "hat")
INPUTS = [f"The {color} {thing} is here now." for color in COLORS for thing in THINGS]
FACTS = CompressionFacts(targeted=True, finetune_steps=300, own_data=True, structured=None, sparsity=0.88)


def test_outputs_that_differ_are_let_be() -> None:
    assert output_warnings(INPUTS, [text.replace("here", "there") for text in INPUTS]) == []
    # Fewer than half are the same.
    assert output_warnings(INPUTS, ["Yes, it is."] * 5 + INPUTS[5:]) == []
    # Words of one syllable for words of one syllable, and texts without spaces.
    assert output_warnings([f"word {n}" for n in range(20)], [f"wort{n}" for n in range(20)]) == []
    assert output_warnings(INPUTS, [f"\u7ea2\u8272\u7684\u732b\u5728\u8fd9\u91cc{n}" for n in range(12)]) == []


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        (["A man in a shirt."] * 7 + INPUTS[7:], "7 of 12 different inputs have the same output, 'A man in a shirt.'"),
        ([""] * 12, "12 of 12 different inputs have the same output, ''"),
        (
            [f"{'the ' * (5 + n)}" for n in range(12)],
            "12 of 12 outputs are empty or repeat themselves, such as 'the the",
        ),
        ([f"{n}{' a b' * 8}" for n in range(12)], "12 of 12 outputs are empty or repeat themselves"),
    ],
)
def test_outputs_that_are_alike_or_repeat_themselves(outputs: list[str], message: str) -> None:
    (warning,) = output_warnings(INPUTS, outputs)
    assert warning.startswith(message)
    assert "train it longer" in warning


def test_the_same_input_may_have_the_same_output() -> None:
    assert output_warnings(["A cat sleeps on it."] * 30, ["Eine Katze schläft darauf."] * 30) == []


def test_scores_near_zero() -> None:
    assert score_warnings(BLEU, {"bleu": 1.0}, examples=100) == []
    # By chance.
    assert score_warnings(BLEU, {"bleu": 0.0}, examples=19) == []
    (warning,) = score_warnings(BLEU, {"bleu": 0.01}, examples=20)
    assert warning.startswith("BLEU is 0.01 of 100")
    # The scale of other metrics is not known.
    assert score_warnings(Metric(name="f1", label="F1", unit="F1"), {"f1": 0.9}, examples=100) == []
    assert perplexity_warnings(1999.0, 8000) == []
    assert "little better than guessing" in perplexity_warnings(2000.0, 8000)[0]
    assert "no better than guessing" in perplexity_warnings(14_030.4, 300)[0]


@pytest.mark.parametrize(
    ("predicted", "message"),
    [
        ([0] * 15 + [1] * 15, None),
        ([0] * 30, "30 of 30 examples were given the label no"),
        ([1] * 10 + [0] * 20, "accuracy is 16.67, that of always giving the most frequent label 50.00"),
    ],
)
def test_a_classifier_that_ignores_its_input(predicted: list[int], message: str | None) -> None:
    expected = np.array([0] * 15 + [1] * 15)
    found = accuracy_warnings(score_classifications(np.array(predicted), expected, labels=("no", "yes")))
    assert [warning.split(";")[0] for warning in found] == ([] if message is None else [message])


def test_a_split_of_one_label_is_no_reason_to_warn() -> None:
    for predicted in ([0] * 30, [0] * 20 + [1] * 10):
        assert (
            accuracy_warnings(score_classifications(np.array(predicted), np.zeros(30, int), labels=("no", "yes"))) == []
        )


def train(perplexity: float, losses: list[float], *, steps: int = 5000, fresh: bool = True) -> list[str]:
    metrics = {"steps": steps, "valid": {"perplexity": perplexity}, "train_pairs": 100}
    return training_warnings(metrics, losses=losses, vocab_size=8000, warmup_steps=1000, fresh=fresh)


def test_a_training_that_taught_nothing() -> None:
    assert train(12.0, [5.0, 3.0, 2.5]) == []
    (warning,) = train(3000.0, [8.0], steps=50)
    assert "3,000.0 of a vocabulary of 8,000 types" in warning
    assert "50 steps are within the warm-up of the learning rate (1,000)" in warning
    (warning,) = train(500.0, [6.2, 6.21, 6.19])
    assert warning.startswith("the validation loss has not fallen: 6.200 at first, 6.190 at best")
    # A model that is trained on may have nothing left to learn, and two validations show no trend.
    assert train(12.0, [2.5, 2.5, 2.5], fresh=False) == []
    assert train(500.0, [6.2, 6.2]) == []


def compress(*scores: float, metric: Metric = BLEU, facts: CompressionFacts = FACTS) -> list[str]:
    stages = zip(("original", "pruned", "entropy-coded"), scores, strict=True)
    return compression_warnings(metric, [(stage, {metric.name: score}) for stage, score in stages], facts)


def test_a_compression_that_lost_a_few_points() -> None:
    assert compress(30.0, 27.5, 27.0) == []
    (warning,) = compress(19.0, 0.5, 0.01)
    assert warning.startswith("BLEU fell from 19.00 to 0.01, most of it in the stage 'pruned' (19.00 to 0.50); try ")
    for advice in ("a larger target", "--finetune-steps 600", "trained anew, of which less than 88% of the weights"):
        assert advice in warning
    assert "--no-finetune" not in warning
    # A quarter of a low score is much, and so is a quarter more perplexity.
    assert len(compress(4.0, 3.5, 2.9)) == 1
    assert compress(20.0, 24.0, 25.0, metric=PERPLEXITY) == []
    (warning,) = compress(20.0, 21.0, 26.0, metric=PERPLEXITY)
    assert warning.startswith("perplexity rose from 20.00 to 26.00, most of it in the stage 'entropy-coded'")


def test_longer_tuning_has_as_many_batches_a_step() -> None:
    (warning,) = compress(30.0, 20.0, 20.0, facts=replace(FACTS, batches_per_step=4, effort="thorough"))
    assert "--finetune-steps 600 --gradient-accumulation 4 or more, in place of --effort thorough" in warning


def test_the_advice_is_what_was_not_done() -> None:
    facts = CompressionFacts(targeted=False, finetune_steps=None, own_data=False, structured="pruned", sparsity=0.4)
    (warning,) = compress(30.0, 20.0, 20.0, facts=facts)
    for advice in ("leave --no-finetune out", "--data with the model's own", "--structured", "--max-loss"):
        assert advice in warning
    assert "target" not in warning


def test_fewer_weights_where_most_are_zeros() -> None:
    (warning,) = compress(30.0, 29.0, 20.0)
    assert "--structured 0.3, which leaves fewer weights" in warning
    for facts in (replace(FACTS, sparsity=0.7), replace(FACTS, structured="pruned"), replace(FACTS, targeted=False)):
        (warning,) = compress(30.0, 29.0, 20.0, facts=facts)
        assert "--structured" not in warning
    (warning,) = compress(30.0, 22.0, 20.0, facts=replace(FACTS, structured="pruned"))
    assert "a smaller fraction for --structured" in warning


def test_a_model_whose_own_file_is_kept() -> None:
    (warning,) = compress(30.0, 30.0, 30.0, facts=replace(FACTS, kept=True))
    assert "as small as was asked for" in warning
    (warning,) = compress(30.0, 30.0, 30.0, facts=replace(FACTS, kept=True, targeted=False))
    assert "--target-size" in warning


def test_a_model_that_was_useless_before() -> None:
    (warning,) = compress(0.2, 0.0, 0.0)
    assert "BLEU of the model is 0.20 before any compression" in warning
    assert "train it longer first" in warning
