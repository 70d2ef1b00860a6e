import pytest
import torch
from torch import Tensor, nn

from lite_nlp.core.errors import ModelError
from lite_nlp.export.runtime.layout import Bounds
from lite_nlp.export.tracing import describe_state, trace_model


def test_the_layout_of_a_lite_transformer(small) -> None:
    layout = {tensor.name: tensor for tensor in small("lite-transformer-dynamic").traced.state}
    assert list(layout) == [
        "position",
        "src_mask",
        "layers.0.self_key",
        "layers.0.self_value",
        "layers.0.conv",
        "layers.0.cross_key",
        "layers.0.cross_value",
    ]
    found = {name: (t.dtype, t.shape, t.origin, t.changes) for name, t in layout.items()}
    # 16 channels: 8 to attention in 2 heads, 8 to a convolution with 9 taps; cross-attention in 4 heads.
    assert found["position"] == ("int64", ("batch",), "zeros", True)
    assert found["src_mask"] == ("bool", ("batch", "source"), "src_mask", False)
    assert found["layers.0.self_key"] == ("float32", ("batch", 2, "capacity", 4), "zeros", True)
    assert found["layers.0.conv"] == ("float32", ("batch", 8, 8), "zeros", True)
    assert found["layers.0.cross_value"] == ("float32", ("batch", 4, "source", 4), "encode", False)


class _Broken(nn.Module):
    """A model whose one extra state tensor is ``make(memory, capacity)``."""

    def __init__(self, make) -> None:
        super().__init__()
        self.make = make

    def encode(self, src_tokens: Tensor, src_mask: Tensor) -> Tensor:
        return src_tokens[..., None].float()

    def init_state(self, memory: Tensor, src_mask: Tensor, capacity: int) -> dict[str, Tensor]:
        return {"src_mask": src_mask, "extra": self.make(memory, capacity)}

    def decode_step(self, tokens: Tensor, state: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        return state["extra"], state


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda memory, capacity: memory.half(), "state extra: expected float32, int64 or bool, found torch.float16"),
        (lambda memory, capacity: memory.flatten()[:, None], r"state extra: .* batch, source or capacity, found \(10"),
        (lambda memory, capacity: torch.zeros(capacity, 1), "state extra: expected the batch as first dimension"),
        (lambda memory, capacity: torch.ones(len(memory), 1), "state extra: expected zeros, src_mask or a function"),
    ],
)
def test_a_state_that_no_bundle_can_describe(make, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        describe_state(_Broken(make))


def test_a_step_that_loses_a_tensor() -> None:
    model = _Broken(lambda memory, capacity: memory)
    model.decode_step = lambda tokens, state: (state["extra"], {"extra": state["extra"]})  # type: ignore[method-assign]
    with pytest.raises(ModelError, match=r"decode_step: expected the state \['src_mask', 'extra'\] back"):
        describe_state(model)


def test_bounds_too_small_to_trace(small) -> None:
    with pytest.raises(ModelError, match="source: expected a bound of at least 6, found 5"):
        trace_model(small("lightconv").model, Bounds(source=5, capacity=8, executorch_batch=4))
