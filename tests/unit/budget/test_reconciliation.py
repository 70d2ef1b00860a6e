from lite_nlp.budget.traced.graphs import GraphWork, Polynomial, TaskWork
from lite_nlp.budget.traced.reconciliation import reconcile
from lite_nlp.budget.traced.work import WorkKind


def _polynomial(*terms: tuple[int, int, int]) -> Polynomial:
    return Polynomial.from_terms(terms)


def _work(encode: dict[WorkKind, Polynomial], **step: Polynomial) -> GraphWork:
    return GraphWork(encode=encode, decode_step=step or {"matmul": _polynomial((7, 0, 0), (2, 0, 1))})  # type: ignore[arg-type]


#: A model that projects its source three times with the same weights, and the same with one projection left.
MODEL = _work({"matmul": _polynomial((32, 2, 0), (900, 1, 0)), "layer_norm": _polynomial((16, 1, 0))})
MERGED = _work({"matmul": _polynomial((32, 2, 0), (700, 1, 0)), "layer_norm": _polynomial((16, 1, 0))})


def test_equal_columns_agree() -> None:
    # A kind that is left out is one without work.
    same = _work({**MODEL.encode, "convolution": Polynomial()})
    found = reconcile({"onnx": same, "torch": MODEL, "executorch": MODEL})
    assert found.columns == ("torch", "onnx", "executorch")
    assert found.differences == ()
    assert found.agrees


def test_a_graph_that_merges_equal_computations_is_explained() -> None:
    found = reconcile({"torch": MODEL, "onnx": MERGED, "executorch": MODEL}, merged=MERGED)
    assert found.agrees
    (difference,) = found.differences
    assert (difference.column, difference.graph, difference.kind) == ("onnx", "encode", "matmul")
    assert difference.excess == _polynomial((-200, 1, 0))
    assert str(difference) == (
        "onnx: encode: matmul: -200 S Mult-Adds beyond the model's: computations that the model repeats are done once"
    )


def test_merging_is_explained_only_to_the_unit() -> None:
    for linear in (699, 701, 800, 901):
        other = _work({**MODEL.encode, "matmul": _polynomial((32, 2, 0), (linear, 1, 0))})
        found = reconcile({"torch": MODEL, "onnx": other}, merged=MERGED)
        assert not found.agrees
        assert [str(difference) for difference in found.unexplained] == [
            f"onnx: encode: matmul: {linear - 900} S Mult-Adds beyond the model's: nothing explains it"
        ]


def test_nothing_is_explained_where_merging_is_not_known() -> None:
    assert not reconcile({"torch": MODEL, "onnx": MERGED}).agrees


def test_merging_does_not_excuse_another_kind_of_work() -> None:
    encode: dict[WorkKind, Polynomial] = {**MERGED.encode, "layer_norm": _polynomial((17, 1, 0))}
    found = reconcile({"torch": MODEL, "onnx": _work(encode)}, merged=MERGED)
    assert {difference.kind for difference in found.unexplained} == {"matmul", "layer_norm"}


def test_work_of_another_kind_is_another_work() -> None:
    step = {"matmul": _polynomial((5, 0, 0), (2, 0, 1)), "contraction": _polynomial((2, 0, 0))}
    moved = GraphWork(encode=MODEL.encode, decode_step=step)
    found = reconcile({"torch": MODEL, "executorch": moved}, merged=MERGED)
    assert [(item.graph, item.kind, str(item.excess)) for item in found.unexplained] == [
        ("decode_step", "matmul", "-2"),
        ("decode_step", "contraction", "2"),
    ]


def test_one_token_may_be_read_as_several_are() -> None:
    read: dict[WorkKind, Polynomial] = {"matmul": _polynomial((9, 2, 0), (5, 1, 1), (3, 0, 0))}
    step: dict[WorkKind, Polynomial] = {
        "matmul": _polynomial((5, 0, 1), (2, 0, 0)),
        "contraction": _polynomial((8, 0, 0)),
    }
    model = TaskWork({"decode_step": step, "read": read})
    alone: dict[WorkKind, Polynomial] = {"matmul": _polynomial((5, 0, 1), (12, 0, 0))}
    found = reconcile({"torch": model, "onnx": TaskWork({"decode_step": alone, "read": read})})
    assert found.agrees
    assert {difference.explanation for difference in found.differences} == {"one token is read as several are"}
    # The model that does equal computations once has another number of them.
    fewer: dict[WorkKind, Polynomial] = {"matmul": _polynomial((4, 0, 1), (12, 0, 0))}
    merged = TaskWork({"decode_step": step, "read": {"matmul": _polynomial((9, 2, 0), (4, 1, 1), (3, 0, 0))}})
    columns = {"torch": model, "executorch": TaskWork({"decode_step": fewer, "read": read})}
    assert reconcile(columns, merged=merged).agrees
    assert not reconcile(columns).agrees
    # No work at all is that of no reading.
    assert not reconcile({"torch": MODEL, "onnx": GraphWork(encode=MODEL.encode, decode_step={})}).agrees


def test_without_the_model_the_first_column_is_the_reference() -> None:
    found = reconcile({"onnx": MODEL, "executorch": MERGED})
    assert found.columns == ("onnx", "executorch")
    assert not found.agrees


def test_nothing_to_hold_against_each_other() -> None:
    assert reconcile({}).agrees
    assert reconcile({"onnx": MODEL}).agrees
