import pytest
from onnx import TensorProto, helper

from lite_nlp.core.errors import ModelError
from lite_nlp.export.onnx_conversion import refuse_unsafe_operators, runtime_operators

UNSAFE = "DecoderMaskedMultiHeadAttention"


def _model(*nodes: object) -> object:
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])
    return helper.make_model(helper.make_graph(list(nodes), "graph", [value], [value]))


def _inside(kind: str, node: object) -> object:
    value = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])
    graph = helper.make_graph([node], "inner", [], [value])
    if kind == "Loop":
        return helper.make_node("Loop", ["times", "yes"], ["z"], name="loop", body=graph)
    return helper.make_node("If", ["yes"], ["z"], name="if", then_branch=graph, else_branch=graph)


@pytest.mark.parametrize("domain", ["com.microsoft", "", "own.domain"])
@pytest.mark.parametrize("around", [(), ("Loop",), ("If",), ("Loop", "If")])
def test_attention_that_the_app_runs_wrongly_is_refused(domain: str, around: tuple[str, ...]) -> None:
    node = helper.make_node(UNSAFE, ["x"], ["y"], name="layer.3/attention", domain=domain)
    for kind in around:
        node = _inside(kind, node)
    fine = helper.make_node("GroupQueryAttention", ["x"], ["y"], name="other", domain="com.microsoft")
    message = (
        r"^greedy: node layer\.3/attention: expected operators that ONNX Runtime 1\.24, .* found "
        rf"{UNSAFE}.*GroupQueryAttention.*--portable"
    )
    with pytest.raises(ModelError, match=message):
        refuse_unsafe_operators({"encode": _model(fine), "greedy": _model(fine, node)})


def test_other_attention_is_taken() -> None:
    node = helper.make_node("MultiHeadAttention", ["x"], ["y"], name="attention", domain="com.microsoft")
    model = _model(_inside("Loop", node))
    refuse_unsafe_operators({"greedy": model})
    assert runtime_operators([model]) == ("com.microsoft::MultiHeadAttention",)
