from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lite_nlp.core.errors import BundleError
from lite_nlp.core.special_tokens import EOS_ID
from lite_nlp.decoding.search import SearchOptions
from lite_nlp.export.parity import Reference, compare_engines, require_parity


class _Copier:
    """Says the source tokens back, with ``wrong`` in place of token ``of``, or as likely but for ``margin``."""

    def __init__(self, of: int = -1, wrong: int = -1, margin: float = 1.0) -> None:
        self._of, self._wrong, self._margin = of, wrong, margin

    def start(self, src_tokens, src_mask, capacity):
        said = np.where(src_tokens == self._of, self._wrong, src_tokens)
        return {"said": said, "other": src_tokens, "place": np.zeros(len(said), np.int64)}

    def step(self, tokens, state):
        place = np.minimum(state["place"], state["said"].shape[1] - 1)
        rows = np.arange(len(place))
        logits = (1 - self._margin) * np.eye(20, dtype=np.float32)[state["other"][rows, place]]
        logits[rows, state["said"][rows, place]] = 1
        return logits, {**state, "place": state["place"] + 1}

    def reorder(self, state, rows):
        return {name: value[rows] for name, value in state.items()}


ROWS = [[5, 6, 7], [8], [9, 5], *([10, 11] for _ in range(20))]


def test_the_same_engine_agrees_with_itself() -> None:
    report = compare_engines(Reference(_Copier(), ROWS), _Copier(), SearchOptions())
    assert report.to_json() == {"sentences": 23, "tokens": 46, "agreement": 1.0}
    require_parity(report, runtime="onnx")


def test_each_differing_sentence_is_found() -> None:
    report = compare_engines(Reference(_Copier(), ROWS), _Copier(of=5, wrong=12), SearchOptions())
    assert [(d.index, d.expected, d.found) for d in report.disagreements] == [
        (0, (5, 6, 7), (12, 6, 7)),
        (2, (9, 5), (9, 12)),
    ]
    assert report.agreement == pytest.approx(21 / 23)
    with pytest.raises(BundleError, match=r"onnx: .* all 23 sentences, found 2 that differ; sentence 0: expected \[5"):
        require_parity(report, runtime="onnx")


def test_an_early_end_is_a_difference() -> None:
    report = compare_engines(Reference(_Copier(), ROWS), _Copier(of=7, wrong=EOS_ID), SearchOptions())
    assert [d.found for d in report.disagreements] == [(5, 6)]


@pytest.mark.parametrize(("margin", "found"), [(5e-6, []), (5e-5, [0, 2])])
def test_a_tie_is_no_difference(margin: float, found: list[int]) -> None:
    # Either may choose the other token; after it they may differ as they like.
    reference, other = _Copier(of=5, wrong=12, margin=margin), _Copier(of=5, wrong=5)
    report = compare_engines(Reference(reference, ROWS), other, SearchOptions())
    assert [d.index for d in report.disagreements] == found
    # The reference alone decides what a tie is.
    report = compare_engines(Reference(other, ROWS), reference, SearchOptions())
    assert [d.index for d in report.disagreements] == [0, 2]


def test_a_tie_with_the_end_is_no_difference() -> None:
    reference = _Copier(of=7, wrong=EOS_ID, margin=0.0)
    assert not compare_engines(Reference(reference, ROWS), _Copier(of=7, wrong=7), SearchOptions()).disagreements
    # A difference before the tie is one.
    report = compare_engines(Reference(reference, ROWS), _Copier(of=6, wrong=12), SearchOptions())
    assert [d.index for d in report.disagreements] == [0]


def test_a_reference_is_searched_once_however_many_are_held_against_it(monkeypatch: pytest.MonkeyPatch) -> None:
    model, started = _Copier(), []
    monkeypatch.setattr(_Copier, "start", _counting(_Copier.start, started))
    reference = Reference(model, ROWS)
    reports = [compare_engines(reference, _Copier(), SearchOptions()) for _ in range(2)]
    assert [report.to_json()["tokens"] for report in reports] == [46, 46]
    assert started.count(model) == 2
    # Another search gives other outputs, and in batches of another size a model may.
    compare_engines(reference, _Copier(), SearchOptions(max_steps=2))
    assert started.count(model) == 4
    compare_engines(reference, _Copier(), SearchOptions(), batch=1)
    assert started.count(model) == 4 + len(ROWS)


def _counting(start: Callable[..., Any], started: list[_Copier]) -> Callable[..., Any]:
    def counted(self: _Copier, *arguments: Any) -> Any:
        started.append(self)
        return start(self, *arguments)

    return counted
