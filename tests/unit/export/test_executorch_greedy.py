"""Greedy search over an ExecuTorch program chooses what the search by steps does."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from lite_nlp.core.errors import BundleError
from lite_nlp.decoding.search import SearchOptions, search
from lite_nlp.export.parity import StepByStep
from lite_nlp.export.runtime.executorch_greedy import PassedRows, decode_rows
from lite_nlp.export.runtime.layout import Bounds, Layout, StateTensor

LAYOUT = Layout(
    state=(StateTensor(name="step", dtype="int64", shape=("batch",), origin="zeros", changes=True),),
    bounds=Bounds(source=9, capacity=9, executorch_batch=8),
    tgt_size=6,
)


class Script:
    """A program whose logits are those of a list: of each row, and each step."""

    def __init__(self, *rows: list[dict[int, float]]) -> None:
        self.rows = rows
        self.batches: list[int] = []

    def __call__(self, tensors: list[Any]) -> list[Tensor]:
        tokens, steps = tensors
        self.batches.append(len(tokens))
        logits = torch.full((len(tokens), 6), -1.0)
        for place, step in enumerate(steps.tolist()):
            # The state tells the row: a row that is left out must take its state with it.
            row, index = divmod(step, 100)
            for token, value in self.rows[row][index].items():
                logits[place, token] = value
        return [logits, steps + 1]


def decode(script: Script, limits: list[int], min_length: int = 0) -> Any:
    state = {"step": 100 * np.arange(len(limits))}
    return decode_rows(PassedRows(script, LAYOUT, state), np.array(limits), min_length)


def test_rows_end_by_themselves_and_leave() -> None:
    script = Script([{3: 5.0}, {4: 5.0}, {2: 5.0}], [{5: 5.0}, {2: 7.0}], [{2: 9.0}])
    found = decode(script, [9, 9, 9])
    assert found.tokens == [[3, 4, 2], [5, 2], [2]]
    assert script.batches == [3, 2, 1]
    alone = torch.tensor([-1.0, -1.0, -1.0, 5.0, -1.0, -1.0]).log_softmax(0)[3].item()
    assert found.log_probs[0] == pytest.approx(3 * alone, rel=1e-6)


def test_limits_and_the_least_length() -> None:
    words: list[dict[int, float]] = [{3: 5.0}] * 9
    assert decode(Script(words, words), [2, 4]).tokens == [[3, 2], [3, 3, 3, 2]]
    ends: list[dict[int, float]] = [{2: 9.0, 4: 1.0}] * 9
    assert decode(Script(ends), [9], min_length=2).tokens == [[4, 4, 2]]
    # Of equal ones the end counts; where no word can follow, it does before the least length.
    assert decode(Script([{2: 1.0, 4: 1.0}]), [9]).tokens == [[2]]
    none = dict.fromkeys((3, 4, 5), -np.inf)
    assert decode(Script([none]), [9], min_length=3).tokens == [[2]]


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (lambda tensors: [torch.zeros(2, 6), tensors[1]], r"decode_step: logits: expected torch.float32 \(1, 6\)"),
        (lambda tensors: [torch.zeros(1, 6).half(), tensors[1]], r"decode_step: logits: expected torch.float32"),
        (lambda tensors: [torch.zeros(1, 6), tensors[1].float()], r"decode_step: step: expected torch.int64 \(1,\)"),
        (lambda tensors: [torch.zeros(1, 6), torch.zeros(1, 2)], "decode_step: step: expected torch.int64"),
    ],
)
def test_other_tensors_than_the_manifest_says(step: Any, message: str) -> None:
    with pytest.raises(BundleError, match=message):
        decode_rows(PassedRows(step, LAYOUT, {"step": np.zeros(1, np.int64)}), np.array([3]), 0)


@pytest.mark.parametrize("min_length", [0, 4])
def test_the_tokens_and_scores_of_the_search_by_steps(small_executorch, source_rows, min_length: int) -> None:
    engine, options = small_executorch("lite-transformer-dynamic")[1], SearchOptions(min_length=min_length, max_steps=9)
    for one, other in zip(
        search(engine, source_rows, options), search(StepByStep(engine), source_rows, options), strict=True
    ):
        assert one.tokens == other.tokens
        assert one.score == pytest.approx(other.score, abs=1e-5)


def test_the_slots_of_its_steps(small_executorch) -> None:
    engine = small_executorch("lite-transformer-dynamic")[1]
    # Five rows in calls of four: those with 7 and with 3 slots, each as long as it lasts.
    tokens = np.array([[3, 2, 3, 3, 3], [2, 2, 3, 2, 2], [2, 2, 2, 2, 2]])
    slots = engine.greedy_slots(tokens, np.array([7, 5, 5, 5, 3]))
    assert slots == [7] * (2 + 1 + 3 + 2) + [3] * 2
