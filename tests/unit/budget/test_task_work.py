"""The work of the graphs of language models and classifiers."""

from typing import Any

import pytest

from lite_nlp.budget.traced.graphs import GraphWork, Polynomial, TaskWork, work_from_json
from lite_nlp.budget.traced.reconciliation import reconcile
from lite_nlp.core.errors import BundleError


def polynomial(*terms: tuple[int, int, int]) -> Polynomial:
    return Polynomial.from_terms(terms)


CLASSIFIER = TaskWork({"classify": {"matmul": polynomial((3, 1, 0), (5, 0, 1), (7, 0, 0))}})
TEXT = TaskWork(
    {
        "decode_step": {"matmul": polynomial((10, 0, 0), (2, 0, 1))},
        "read": {"matmul": polynomial((10, 1, 0), (2, 1, 1))},
        "score": {"matmul": polynomial((4, 2, 0), (1, 0, 0))},
    }
)


def test_the_work_of_one_use() -> None:
    assert sum(CLASSIFIER.macs(10, 100).values()) == 3 * 10 + 5 * 100 + 7
    # So many steps, each over the whole capacity.
    assert sum(TEXT.macs(99, 6).values()) == 6 * (10 + 2 * 6)
    assert sum(TEXT.macs(99, 6, beam=3).values()) == 18 * (10 + 2 * 6)


@pytest.mark.parametrize(("work", "task"), [(CLASSIFIER, "classification"), (TEXT, "language-modelling")])
def test_what_is_written_is_read(work: TaskWork, task: str) -> None:
    assert work_from_json(work.to_json(), task=task).to_json() == work.to_json()
    translation = GraphWork(encode={}, decode_step={"matmul": polynomial((1, 0, 0))})
    assert work_from_json(translation.to_json(), task="translation").to_json() == translation.to_json()
    for other in ("translation", "language-modelling" if task == "classification" else "classification"):
        with pytest.raises(BundleError, match="work of graphs: expected the keys"):
            work_from_json(work.to_json(), task=other)


@pytest.mark.parametrize(
    "wrong", [None, [], {"classify": 3}, {"classify": {"magic": []}}, {"classify": {}, "score": {}}]
)
def test_anything_else_is_refused(wrong: Any) -> None:
    with pytest.raises(BundleError, match="work of"):
        work_from_json(wrong, task="classification")


def test_a_difference_names_its_graph() -> None:
    more = TaskWork({**TEXT.graphs, "score": {"matmul": polynomial((5, 2, 0), (1, 0, 0))}})
    assert reconcile({"torch": TEXT, "onnx": TEXT}).agrees
    (difference,) = reconcile({"torch": TEXT, "onnx": more}, merged=TEXT).unexplained
    assert str(difference) == "onnx: score: matmul: S^2 Mult-Adds beyond the model's: nothing explains it" or (
        difference.graph == "score" and difference.excess == polynomial((1, 2, 0))
    )
    assert reconcile({"torch": more, "onnx": TEXT}, merged=TEXT).agrees
