"""Warnings about results of no use: the thresholds, and what to try. Imports no torch.

Training, evaluation and compression all ask here, so that one model is judged alike by the three of them.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Protocol

from lite_nlp.compress.metric import Metric
from lite_nlp.data.holdout import FEWER

if TYPE_CHECKING:
    from lite_nlp.data.choices import SplitName
    from lite_nlp.data.directory import Overlap

__all__ = [
    "INSPECTED",
    "CompressionFacts",
    "accuracy_warnings",
    "compression_warnings",
    "excluded_warnings",
    "output_warnings",
    "overlap_warnings",
    "perplexity_warnings",
    "score_warnings",
    "training_warnings",
]

#: Metrics of 0 to 100, where more is better. The scale of a metric of another name is not known.
_POINTS: Final = frozenset(("accuracy", "bleu", "rougeLsum"))

#: Largest loss by compression that needs no words: points of a score of 0 to 100, and a fraction of any score.
LOST_POINTS: Final = 3.0
LOST_FRACTION: Final = 0.25
#: Fraction of zeros above which fewer weights, with more bits for each, keep more.
_SPARSE: Final = 0.7
#: A score of 0 to 100 below this is near zero; on fewer examples it can be that by chance.
NEAR_ZERO: Final = 1.0
FEWEST_EXAMPLES: Final = 20
#: Perplexity from this fraction of the vocabulary on is that of a model that knows next to nothing.
GUESSING: Final = 0.25
#: Fraction by which the validation loss has to fall in training.
LEARNED: Final = 0.01
#: Outputs that training and compression look at.
INSPECTED: Final = 32
#: Fraction of the outputs that may be the same, or repeat themselves; fewer inputs than the second say nothing.
SAME_OUTPUTS: Final = 0.5
FEWEST_INPUTS: Final = 8
#: Inputs shorter than this may well have an output of one word.
_SHORT: Final = 4
#: A text repeats itself if only every so manieth word of it is new.
_REPETITION: Final = 4
#: Fraction of examples with one label from which on a classifier ignores its input.
SAME_LABELS: Final = 0.95

#: Fraction of the training items that may be left out because of held-out ones without a word.
_EXCLUDED: Final = 0.1

#: Words; scripts without spaces count by character.
_WORD: Final = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|\w+")


def output_warnings(inputs: Sequence[str], outputs: Sequence[str]) -> list[str]:
    """Warn of a model that answers different texts alike, or says the same word again and again.

    Args:
        inputs: Texts that a model was given.
        outputs: As many texts that it returned.
    """
    answers = dict(zip(inputs, outputs, strict=True))
    if len(answers) < FEWEST_INPUTS:
        return []
    ((answer, times),) = Counter(answers.values()).most_common(1)
    if times > SAME_OUTPUTS * len(answers):
        return [f"{times} of {len(answers)} different inputs have the same output, {_shorten(answer)!r}; {_UNTRAINED}"]
    judged = [(text, answers[text]) for text in answers if len(_WORD.findall(text)) >= _SHORT]
    repeating = [answer for _, answer in judged if _repeats(answer)]
    if len(judged) >= FEWEST_INPUTS and len(repeating) > SAME_OUTPUTS * len(judged):
        return [
            f"{len(repeating)} of {len(judged)} outputs are empty or repeat themselves, such as "
            f"{_shorten(repeating[0])!r}; {_UNTRAINED}"
        ]
    return []


_UNTRAINED: Final = (
    "such a model has learned too little, or lost it in compression: train it longer (training.max_steps, "
    "--max-minutes) on more pairs, or compress it less"
)


def _repeats(text: str) -> bool:
    words = _WORD.findall(text)
    return len(set(words)) <= max(1, len(words) // _REPETITION)


def _shorten(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def score_warnings(metric: Metric, scores: Mapping[str, Any], *, examples: int) -> list[str]:
    """Warn of a score of outputs near zero, such as BLEU.

    Args:
        metric: The metric by which models are compared.
        scores: By name.
        examples: How many were scored.
    """
    score = scores[metric.name]
    if metric.name not in _POINTS or score >= NEAR_ZERO or examples < FEWEST_EXAMPLES:
        return []
    return [
        f"{metric.label} is {score:.2f} of 100, as good as nothing: check that the test set has the model's languages "
        "in the model's direction and that its lines correspond; if they do, the model has learned too little "
        "(training.max_steps, more pairs) or was compressed too far"
    ]


def perplexity_warnings(perplexity: float, vocab_size: int) -> list[str]:
    """Warn of a language model that hardly does better than any guess."""
    if perplexity < GUESSING * vocab_size:
        return []
    compared = "little better than" if perplexity < vocab_size else "no better than"
    return [
        f"perplexity is {perplexity:,.1f} of a vocabulary of {vocab_size:,} types, {compared} guessing: check "
        "that the text is of the model's language; if it is, the model has learned too little or was compressed too far"
    ]


class _ClassCount(Protocol):
    """Examples that were classified as a class."""

    @property
    def label(self) -> str: ...
    @property
    def predicted(self) -> int: ...


class _Accuracy(Protocol):
    """Scores of a classifier: percentages, and counts of examples."""

    @property
    def accuracy(self) -> float: ...
    @property
    def majority(self) -> float: ...
    @property
    def examples(self) -> int: ...
    @property
    def classes(self) -> Sequence[_ClassCount]: ...


def accuracy_warnings(scores: _Accuracy) -> list[str]:
    """Warn of a classifier that does no better than one that always gives the same label."""
    predicted, most = max((found.predicted, found.label) for found in scores.classes), scores.majority
    advice = "train longer, lower training.learning_rate, or balance the examples of the labels"
    if predicted[0] >= SAME_LABELS * scores.examples and most < 100 * SAME_LABELS:
        return [f"{predicted[0]:,} of {scores.examples:,} examples were given the label {predicted[1]}; {advice}"]
    # Of a split with one label alone, that label says nothing.
    if scores.examples >= FEWEST_EXAMPLES and scores.accuracy <= most < 100:
        return [
            f"accuracy is {scores.accuracy:.2f}, that of always giving the most frequent label {most:.2f}; {advice}"
        ]
    return []


def training_warnings(
    metrics: Mapping[str, Any], *, losses: Sequence[float], vocab_size: int | None, warmup_steps: int, fresh: bool
) -> list[str]:
    """Warn of a training that has taught next to nothing.

    Args:
        metrics: Content of ``metrics.json``.
        losses: Those on the validation split, in order.
        vocab_size: Size of the target vocabulary; None for a model that predicts something else.
        warmup_steps: Of the learning rate.
        fresh: Whether it began with random weights.
    """
    steps, perplexity = metrics["steps"], metrics["valid"]["perplexity"]
    if steps <= warmup_steps:
        advice = (
            f"{steps:,} steps are within the warm-up of the learning rate ({warmup_steps:,}): train longer "
            "(training.max_steps, --max-minutes) or set training.warmup_steps lower"
        )
    else:
        advice = (
            "train longer, try another training.learning_rate, and check that the lines of the two sides correspond"
            if metrics.get("train_pairs")
            else "train longer, or try another training.learning_rate"
        )
    if vocab_size is not None and perplexity >= GUESSING * vocab_size:
        return [
            f"validation perplexity is {perplexity:,.1f} of a vocabulary of {vocab_size:,} types, little better than "
            f"guessing; {advice}"
        ]
    if fresh and len(losses) > 2 and min(losses) > (1 - LEARNED) * losses[0]:
        return [f"the validation loss has not fallen: {losses[0]:.3f} at first, {min(losses):.3f} at best; {advice}"]
    return []


def overlap_warnings(split: str, overlaps: "Mapping[SplitName, Overlap]") -> list[str]:
    """Warn of valid or test data that a model learns from: every single line makes the scores say less.

    Args:
        split: The split that is to be scored on.
        overlaps: How much of it stands in each of the other splits.
    """
    found = []
    for other, overlap in overlaps.items():
        if overlap.exact or overlap.near:
            advice = (
                "scores on them do not say how a model does on new text; leave them out of train: data prepare "
                "--drop-overlap"
                if other == "train"
                else "what is chosen by the one is not new to the other"
            )
            found.append(
                f"{split}: {overlap.exact:,} of {overlap.compared:,} stand in {other}, and {overlap.near:,} more but "
                f"for case, punctuation and spacing; {advice}"
            )
        if overlap.source and other == "train":
            found.append(
                f"{split}: {overlap.source:,} of {overlap.compared:,} share the source (first sentence) with {other}, "
                "where it stands beside other text; --drop-overlap keeps these"
            )
    return found


def excluded_warnings(excluded: int, left: int) -> list[str]:
    """Warn of a corpus that held-out items have taken much of.

    Args:
        excluded: Training items that share a sentence with a held-out one.
        left: Training items besides.
    """
    if excluded <= _EXCLUDED * (excluded + left):
        return []
    return [
        f"train: {excluded:,} of {excluded + left:,} share a sentence with a held-out one and are left out; to keep "
        f"more of them, {FEWER}"
    ]


@dataclass(frozen=True, kw_only=True)
class CompressionFacts:
    """How a model was compressed, as far as advice depends on it.

    Attributes:
        targeted: Whether a size or a ratio was asked for.
        finetune_steps: Of fine-tuning after pruning; None if there was none.
        batches_per_step: Of fine-tuning.
        effort: What its length was chosen by, if anything.
        own_data: Whether it was given data.
        structured: Name of the stage that removed channels, heads or layers; None if none did.
        sparsity: Fraction of zeros in the final file.
        kept: Whether the matrices are as the model's own file had them.
    """

    targeted: bool
    finetune_steps: int | None
    own_data: bool
    structured: str | None
    sparsity: float
    batches_per_step: int = 1
    effort: str | None = None
    kept: bool = False


def compression_warnings(
    metric: Metric, stages: Sequence[tuple[str, Mapping[str, float]]], facts: CompressionFacts
) -> list[str]:
    """Warn of a compression that lost more than a few points, or did nothing, and say what to try.

    Args:
        metric: Of quality.
        stages: Name and scores of each stage, the original's first.
        facts: What was done.
    """
    (_, before), (_, after) = stages[0], stages[-1]
    first, last = before[metric.name], after[metric.name]
    if metric.name in _POINTS and first < NEAR_ZERO:
        asked = "check that --data is what the model was trained for, or train it longer first"
        return [
            f"{metric.label} of the model is {first:.2f} before any compression, so its loss cannot be told: "
            + (asked if facts.own_data else "give --data with text that the model was trained for")
        ]
    if facts.kept:
        return [
            "the matrices are kept as the model's file has them: "
            + (
                "they are as small as was asked for"
                if facts.targeted
                else "quantized anew, they would be no smaller; give --target-size or --target-ratio for a smaller file"
            )
        ]
    lost = metric.lost(before, after)
    if lost <= LOST_FRACTION * abs(first) and (metric.name not in _POINTS or lost <= LOST_POINTS):
        return []
    falls = [
        (metric.lost(one[1], other[1]), other[0], one[1][metric.name], other[1][metric.name])
        for one, other in pairwise(stages)
    ]
    _, stage, high, low = max(falls)
    change = "rose" if metric.lower_is_better else "fell"
    return [
        f"{metric.label} {change} from {first:.2f} to {last:.2f}, most of it in the stage {stage!r} ({high:.2f} to "
        f"{low:.2f}); try {'; '.join(_advise(facts, stage))}"
    ]


def _advise(facts: CompressionFacts, stage: str) -> list[str]:
    """What to try, with ``stage`` the one that lost the most."""
    advice = []
    if facts.targeted:
        advice.append("a larger target (without one, compression stops where the predictions begin to change)")
    if facts.finetune_steps is None:
        advice.append("fine-tuning (leave --no-finetune out)")
    else:
        steps = f"--finetune-steps {2 * facts.finetune_steps}"
        if facts.batches_per_step > 1:
            steps += f" --gradient-accumulation {facts.batches_per_step}"
        advice.append(f"{steps} or more" + (f", in place of --effort {facts.effort}" if facts.effort else ""))
    if not facts.own_data:
        advice.append("--data with the model's own training pairs")
    if stage == facts.structured:
        advice.append("a smaller fraction for --structured")
    if facts.targeted and facts.sparsity > _SPARSE:
        if facts.structured is None:
            advice.append("--structured 0.3, which leaves fewer weights, with more bits for each")
        advice.append(
            f"a model with fewer layers, channels or types, trained anew, of which less than {facts.sparsity:.0%} of "
            "the weights have to go"
        )
    elif not facts.targeted:
        advice.append("--max-loss with the largest loss that you accept")
    return advice
