import numpy as np
import pytest

from lite_nlp.core.errors import BundleError
from lite_nlp.core.special_tokens import EOS_ID
from lite_nlp.decoding.search import SearchOptions
from lite_nlp.export.parity import compare_engines, require_parity


class _Copier:
    """Says the source tokens back, with ``wrong`` in place of token ``of``."""

    def __init__(self, of: int = -1, wrong: int = -1) -> None:
        self._of, self._wrong = of, wrong

    def start(self, src_tokens, src_mask, capacity):
        said = np.where(src_tokens == self._of, self._wrong, src_tokens)
        return {"said": said, "place": np.zeros(len(said), np.int64)}

    def step(self, tokens, state):
        place = np.minimum(state["place"], state["said"].shape[1] - 1)
        logits = np.eye(20, dtype=np.float32)[state["said"][np.arange(len(place)), place]]
        return logits, {**state, "place": state["place"] + 1}

    def reorder(self, state, rows):
        return {name: value[rows] for name, value in state.items()}


ROWS = [[5, 6, 7], [8], [9, 5], *([10, 11] for _ in range(20))]


def test_the_same_engine_agrees_with_itself() -> None:
    report = compare_engines(_Copier(), _Copier(), ROWS, SearchOptions())
    assert report.to_json() == {"sentences": 23, "tokens": 46, "agreement": 1.0}
    require_parity(report, runtime="onnx")


def test_each_differing_sentence_is_found() -> None:
    report = compare_engines(_Copier(), _Copier(of=5, wrong=12), ROWS, SearchOptions())
    assert [(d.index, d.expected, d.found) for d in report.disagreements] == [
        (0, (5, 6, 7), (12, 6, 7)),
        (2, (9, 5), (9, 12)),
    ]
    assert report.agreement == pytest.approx(21 / 23)
    with pytest.raises(BundleError, match=r"onnx: .* all 23 sentences, found 2 that differ; sentence 0: expected \[5"):
        require_parity(report, runtime="onnx")


def test_an_early_end_is_a_difference() -> None:
    report = compare_engines(_Copier(), _Copier(of=7, wrong=EOS_ID), ROWS, SearchOptions())
    assert [d.found for d in report.disagreements] == [(5, 6)]
