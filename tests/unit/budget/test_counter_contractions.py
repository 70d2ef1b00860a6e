"""Products that are summed afterwards, by the rule of budget/contractions.py; counts are worked out by hand."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from lite_nlp.budget.traced.counter import count_work
from lite_nlp.budget.traced.work import WorkCount

#: Sizes of the first two axes, of keys (features) and of values.
B, T, K, V = 2, 3, 5, 7


def _count(function: Callable[..., Any], *shapes: tuple[int, ...]) -> WorkCount:
    return count_work(function, *(torch.empty(shape) for shape in shapes))


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: (x * y).sum(dim=-1),
        lambda x, y: (x * y).sum(),
        lambda x, y: (x * y).mean(dim=1),
        lambda x, y: (x * y).cumsum(dim=1),
        lambda x, y: torch.mul(x, y).transpose(1, 2).reshape(B, -1).sum(dim=1),
        lambda x, y: (x * y).to(torch.bfloat16)[:, 1:].sum(),
        lambda x, y: (-(x * y) * 2.0 / x.norm()).masked_fill(x > 0, 0.0).sum(),
        lambda x, y: torch.where(x > 0, x * y, 0.0).sum(),
        lambda x, y: x.mul_(y).sum(),
        lambda x, y: torch.cat([x * y, x]).sum(),
        lambda x, y: torch.zeros(B, T, K).index_add_(1, torch.zeros(T, dtype=torch.int64), x * y),
        lambda x, y: torch.linalg.vecdot(x, y),
        # Products of three factors are summed once.
        lambda x, y: (x * y * (x + y)).sum(),
    ],
)
def test_each_element_of_a_summed_product_is_one_mult_add(function: Callable[..., Any]) -> None:
    work = _count(function, (B, T, K), (B, T, K))
    assert work.by_kind() == {"matmul": 0, "convolution": 0, "contraction": B * T * K, "layer_norm": 0, "batch_norm": 0}


def test_the_broadcast_shape_of_the_product_counts() -> None:
    assert _count(lambda x, y: (x * y).sum(dim=1), (B, T, 1, V), (K, 1)).macs == B * T * K * V


def test_a_product_counts_at_its_first_sum_only() -> None:
    def twice(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        product = x * y
        return product.sum(dim=0), product.sum(dim=1)

    assert _count(twice, (T, K), (T, K)).macs == T * K
    assert _count(lambda x, y: [part.sum() for part in (x * y).unbind()], (T, K), (T, K)).macs == T * K


@pytest.mark.parametrize(
    "function",
    [
        # Gates, biases, residual sums, norms by hand.
        lambda x, y: x * y + x,
        lambda x, y: torch.addcmul(x, x, y),
        lambda x, y: (x * y).relu().sum(),
        lambda x, y: x * y.mean(dim=-1, keepdim=True),
        lambda x, y: (x - y).square().mean() + (x * x).sum(),
        # Scaling.
        lambda x, y: (x * 3.0 + y * 2).sum(),
        lambda x, y: (x * y.sum()).sum(),
        # Masks.
        lambda x, y: (x * (y > 0)).sum(),
        lambda x, y: (x * (y > 0).float()).sum(),
        lambda x, y: (x * (y > 0).to(x.dtype)[:, :1]).sum(),
        lambda x, y: (x * (1.0 - (y > 0).float()).expand(B, T, K)).sum(),
        lambda x, y: ((y > 0).float() * (y < 1).float()).sum(),
        # A choice between two values, as of a recurrent state.
        lambda x, y: torch.where(x > 0, x * y, x).sum(),
        # Whatever is written over a product is none.
        lambda x, y: torch.mul(x, y).copy_(x).sum(),
        lambda x, y: (x / (x * y)).sum(),
    ],
)
def test_what_is_no_contraction_counts_nothing(function: Callable[..., Any]) -> None:
    assert _count(function, (B, T, K), (B, T, K)).entries == ()


@pytest.mark.parametrize(
    "update",
    [
        lambda state, key, value: state + key[:, :, None] * value[:, None, :],
        lambda state, key, value: state.add_(key[:, :, None] * value[:, None, :]),
        lambda state, key, value: state - torch.einsum("bk,bv->bkv", key, value),
        lambda state, key, value: torch.addcmul(state, key[:, :, None], value[:, None, :]),
        lambda state, key, value: state + 0.5 * (key[:, :, None] * value[:, None, :]) * (key > 0)[:, :, None],
        lambda state, key, value: torch.baddbmm(state, key[:, :, None], value[:, None, :]),
    ],
)
def test_an_outer_product_added_to_a_state_counts(update: Callable[..., Any]) -> None:
    assert _count(update, (B, K, V), (B, K), (B, V)).macs == B * K * V


def test_linear_attention_over_all_tokens() -> None:
    """States by a cumulative sum of outer products; numerators and denominators by products with the queries."""

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        states = (key[..., :, None] * value[..., None, :]).cumsum(dim=1)
        numerators = torch.einsum("btk,btkv->btv", query, states)
        return numerators / (query * key.cumsum(dim=1)).sum(dim=-1, keepdim=True)

    work = _count(attend, (B, T, K), (B, T, K), (B, T, V))
    assert work.by_kind()["contraction"] == B * T * K * V + B * T * K
    assert work.by_kind()["matmul"] == B * T * K * V


def test_linear_attention_step_by_step_costs_what_all_tokens_at_once_do() -> None:
    def decode(query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
        state, normaliser = torch.zeros(B, K, V), torch.zeros(B, K)
        outputs = []
        for step in range(T):
            state = state + key[:, step, :, None] * value[:, step, None, :]
            normaliser = normaliser + key[:, step]
            numerator = torch.einsum("bk,bkv->bv", query[:, step], state)
            outputs.append(numerator / (query[:, step] * normaliser).sum(dim=-1, keepdim=True))
        return outputs

    assert _count(decode, (B, T, K), (B, T, K), (B, T, V)).macs == 2 * B * T * K * V + B * T * K
