"""An operator of one's own: 2 x 3 rows of 5 channels, each element one Mult-Add with each of 7 taps."""

from collections.abc import Iterator
from math import prod

import pytest
import torch
from torch import Tensor, nn

from lite_nlp.budget.traced import Call, count_work, register_operator
from lite_nlp.core.errors import CountError, UnknownOperatorError, UsageError

NAME = "lite_nlp_tests::taps"


@torch.library.custom_op(NAME, mutates_args=())
def taps(x: Tensor, weight: Tensor) -> Tensor:
    return x.clone()


@taps.register_fake
def _(x: Tensor, weight: Tensor) -> Tensor:
    return torch.empty_like(x)


class Taps(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(7))

    def forward(self, x: Tensor) -> Tensor:
        return taps(x, self.weight)


def _count(call: Call) -> int:
    return call.result_size() * call.shape("weight")[0]


@pytest.fixture
def inputs() -> Tensor:
    return torch.empty(2, 3, 5)


def test_an_operator_is_known_within_the_block_alone(inputs: Tensor) -> None:
    with pytest.raises(UnknownOperatorError, match="register_operator gives it one"):
        count_work(Taps(), inputs)
    with register_operator(NAME, _count, kind="convolution"):
        assert count_work(Taps(), inputs).by_kind()["convolution"] == 2 * 3 * 5 * 7
        assert count_work(nn.Sequential(nn.Linear(5, 5), Taps()), inputs).macs == 6 * 5 * 5 + 2 * 3 * 5 * 7
    with pytest.raises(UnknownOperatorError):
        count_work(Taps(), inputs)


@pytest.fixture
def decorated() -> Iterator[None]:
    before = register_operator(NAME, lambda call: 0)
    yield
    before.undo()


@pytest.mark.usefixtures("decorated")
def test_a_decorator_keeps_the_formula_a_function(inputs: Tensor) -> None:
    assert count_work(Taps(), inputs).macs == 0

    @register_operator(NAME, replace=True)
    def count_taps(call: Call) -> int:
        return _count(call)

    assert count_taps(Call(arguments={"weight": torch.empty(7)}, result=inputs)) == 210
    assert count_work(Taps(), inputs).by_kind()["matmul"] == 210


def test_a_second_formula_needs_permission_and_passes(inputs: Tensor) -> None:
    with register_operator(NAME, _count):
        with pytest.raises(UsageError, match="taps: expected one whose cost is not known, found one that is; replace"):
            register_operator(NAME, _count)
        with register_operator(NAME, lambda call: 1, replace=True):
            assert count_work(Taps(), inputs).macs == 1
        assert count_work(Taps(), inputs).macs == 210


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("aten::mm", "found one that is; replace=True replaces it"),
        ("aten::relu_", "found one that is; replace=True replaces it"),
        ("aten::cat", "found one that is; replace=True replaces it"),
        ("aten::add_", "expected one that is counted by itself, found one of a product and its sum"),
        ("mylib.op", "expected library::operator, found 'mylib.op'"),
    ],
)
def test_what_is_known_stays(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        register_operator(name, lambda call: 0)


def test_a_wrong_formula_is_named(inputs: Tensor) -> None:
    unknown = r"expected the name of a tensor \(x, weight\), found 'kernel'"
    with register_operator(NAME, lambda call: call.shape("kernel")[0]), pytest.raises(CountError, match=unknown):
        count_work(Taps(), inputs)
    with register_operator(NAME, lambda call: -1), pytest.raises(CountError, match="taps: expected an integer of at l"):
        count_work(Taps(), inputs)
    with pytest.raises(UsageError, match=r"expected one of matmul, .*, found 'scan'"):
        register_operator(NAME, _count, kind="scan")  # type: ignore[arg-type]


FILL = "lite_nlp_tests::fill"


@torch.library.custom_op(FILL, mutates_args={"out"})
def fill(x: Tensor, out: Tensor) -> None:
    out.copy_(x)


@fill.register_fake
def _(x: Tensor, out: Tensor) -> None:
    return None


@torch.library.custom_op("lite_nlp_tests::width", mutates_args=())
def width(x: Tensor) -> int:
    return x.shape[-1]


@width.register_fake
def _(x: Tensor) -> int:
    return x.shape[-1]


def test_an_operator_that_returns_no_tensor_counts_by_its_arguments(inputs: Tensor) -> None:
    with register_operator(FILL, lambda call: prod(call.shape("x"))):
        assert count_work(lambda x: fill(x, torch.empty_like(x)), inputs).macs == 2 * 3 * 5
    with register_operator("lite_nlp_tests::width", lambda call: 0):
        assert count_work(lambda x: x.new_empty(width(x), 7) @ x.new_empty(7), inputs).macs == 5 * 7


def test_a_formula_that_asks_for_a_result_that_is_no_tensor(inputs: Tensor) -> None:
    with (
        register_operator(FILL, lambda call: call.result_size()),
        pytest.raises(CountError, match="result of an operator: expected a tensor, found None"),
    ):
        count_work(lambda x: fill(x, torch.empty_like(x)), inputs)
