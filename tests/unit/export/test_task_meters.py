"""What a benchmark runs on language models and classifiers, on a clock of its own and with work known by hand."""

import numpy as np
import pytest

from lite_nlp.budget.traced.graphs import Polynomial, TaskWork
from lite_nlp.core.special_tokens import EOS_ID
from lite_nlp.decoding.continuation import GenerationOptions
from lite_nlp.export.runtime.latency import LatencyPlan, measure_latency
from lite_nlp.export.runtime.task_meters import ClassificationMeter, ContinuationMeter

STEP, CALL = 2.0, 5.0
#: A step costs 10 for each slot and 7 besides, a token read with others 3 for each slot; scoring is not measured.
TEXT_WORK = TaskWork(
    {
        "decode_step": {"matmul": Polynomial(((10, 0, 1),)), "layer_norm": Polynomial(((7, 0, 0),))},
        "read": {"matmul": Polynomial(((3, 1, 1),))},
        "score": {"matmul": Polynomial(((1_000_000, 1, 0),))},
    }
)
#: 100 for a token of the first sentence, 1 for each of the second.
CLASS_WORK = TaskWork({"classify": {"matmul": Polynomial(((100, 1, 0), (1, 0, 1)))}})


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class SlowText:
    """Says 5 until the text has ``length`` tokens, then ends it."""

    max_read = 2

    def most_rows(self, prompt: int, limit: int) -> None:
        """Any number."""

    def __init__(self, clock, length):
        self.clock, self.length, self.calls = clock, length, 0

    def start(self, rows, capacity):
        self.capacity = capacity
        return np.zeros(rows, np.int64)

    def read(self, tokens, state):
        self.clock.now += STEP
        self.calls += 1
        rows, count = tokens.shape
        logits = np.zeros((rows, 8), np.float32)
        logits[np.arange(rows), np.where(state + count > self.length, EOS_ID, 5)] = 9
        return logits, state + count

    def attended(self, state, tokens):
        """Four slots, then four more: of one row, whose state is its tokens."""
        return min(self.capacity, 4 * ((int(state[0]) + tokens + 3) // 4))

    def reorder(self, state, rows):
        return state[rows]


class SlowClassifier:
    """The class is the number of tokens of the first sentence, end mark included."""

    def __init__(self, clock, sentences):
        self.clock, self.sentences = clock, sentences

    def classify(self, sentences):
        assert len(sentences) == self.sentences
        for tokens, mask in sentences:
            assert tokens.shape == mask.shape
            assert mask.all()
            assert (tokens[:, -1] == EOS_ID).all()
        self.clock.now += CALL
        return np.eye(9, dtype=np.float32)[[sentences[0][0].shape[1]]]


def row_of(meter, clock, examples, warmup=1, repeats=2):
    return measure_latency(
        lambda: None, lambda _: meter, LatencyPlan(examples=examples, warmup=warmup, repeats=repeats),
        load_library=lambda: None, progress=lambda: None, clock=clock,
    )  # fmt: skip


def test_a_prompt_is_read_before_the_first_token():
    clock = Clock()
    options = GenerationOptions(max_tokens=4)
    meter = ContinuationMeter(
        SlowText(clock, 30), [[3, 4], [6]], options, max_positions=40, work=TEXT_WORK, clock=clock
    )
    row = row_of(meter, clock, 2)
    # The mark and the prompt are read two at a time; what the last of them gives is the first token.
    assert (row.first_token_ms.max, row.first_token_ms.min) == (1e3 * 2 * STEP, 1e3 * STEP)
    assert (row.sentence_ms.max, row.sentence_ms.min) == (1e3 * 5 * STEP, 1e3 * 4 * STEP)
    assert row.opening.ms == 1e3 * 2 * STEP
    assert row.tgt_tokens == 8
    # The capacity is that of prompt and continuation, 6 and 5 slots, with as many tokens: four of them in four slots.
    assert row.macs == (2 * 3 * 4 + 2 * (40 + 7) + 2 * (60 + 7)) + (2 * 3 * 4 + 2 * (40 + 7) + 1 * (50 + 7))


def test_a_text_may_end_at_once_and_the_positions_bound_it():
    clock = Clock()
    options = GenerationOptions(max_tokens=9)
    ends = ContinuationMeter(SlowText(clock, 1), [[3]], options, max_positions=40, work=None, clock=clock)
    assert ends.run(0).tokens == []
    assert ends.macs == 0
    bound = ContinuationMeter(SlowText(clock, 30), [[3, 4, 6]], options, max_positions=5, work=TEXT_WORK, clock=clock)
    assert bound.run(0).tokens == [5, 5]


def test_what_is_probed_does_not_count():
    clock = Clock()
    text = ContinuationMeter(
        SlowText(clock, 30), [[3]], GenerationOptions(max_tokens=2), max_positions=9, work=TEXT_WORK, clock=clock
    )
    text.probe(0)
    assert (text.macs, clock.now) == (0, STEP)
    classes = ClassificationMeter(SlowClassifier(clock, 1), [[[3]]], work=CLASS_WORK, clock=clock)
    classes.probe(0)
    assert classes.macs == 0


@pytest.mark.parametrize(
    ("examples", "macs"), [([[[3, 4]], [[5]]], 303 + 202), ([[[3, 4], [5]], [[5], [6, 7, 8]]], 302 + 204)]
)
def test_classes_are_what_a_classifier_produces(examples, macs):
    clock = Clock()
    meter = ClassificationMeter(SlowClassifier(clock, len(examples[0])), examples, work=CLASS_WORK, clock=clock)
    row = row_of(meter, clock, 2)
    assert row.first_token_ms == row.sentence_ms
    assert row.sentence_ms.mean == 1e3 * CALL
    assert (row.tgt_tokens, row.macs) == (2, macs)
    assert row.to_json()["tokens_per_s"] == pytest.approx(1 / CALL)
    assert meter.run(0).tokens == [3]
