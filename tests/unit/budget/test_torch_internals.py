"""Private parts of torch that the counter builds on, in the version whose parts they are."""

import torch
from torch._higher_order_ops import utils as higher_order
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedOperatorException,
    unset_fake_temporarily,
)
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode

#: Read the release notes and run the counter's tests before this moves.
KNOWN = "2.13."


def test_the_counter_knows_this_version_of_torch() -> None:
    assert torch.__version__.startswith(KNOWN)


def test_operators_tell_their_schema_and_tags() -> None:
    operator = torch.ops.aten.mul.Tensor
    assert isinstance(operator, OpOverload)
    assert operator._schema.name == "aten::mul"
    assert [argument.name for argument in operator._schema.arguments] == ["self", "other"]
    assert torch.Tag.pointwise in operator.tags
    assert torch.ops.aten.view.default.is_view


def test_fake_tensors_refuse_what_only_numbers_decide() -> None:
    assert issubclass(DataDependentOutputException, RuntimeError)
    assert issubclass(DynamicOutputShapeException, RuntimeError)
    assert issubclass(UnsupportedOperatorException, RuntimeError)
    with FakeTensorMode(allow_non_fake_inputs=True, allow_fallback_kernels=False):
        fake = torch.empty(2, 3)
        with unset_fake_temporarily():
            assert type(torch.empty(2)) is torch.Tensor
    assert type(fake).__name__ == "FakeTensor"


def test_dispatch_modes_and_trees_are_where_they_were() -> None:
    assert callable(higher_order._hop_compile_and_call)
    assert hasattr(TorchDispatchMode, "supports_higher_order_operators")
    assert _pytree.tree_map(lambda value: value + 1, ([1], {"a": 2})) == ([2], {"a": 3})
