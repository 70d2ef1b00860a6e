"""Softmax attention in training against torch's own, at the lengths where the two are computed differently."""

import pytest
import torch

from lite_nlp.models.attention.registry import AttentionSpec
from lite_nlp.models.attention.softmax import SelfAttention, short_softmax


@pytest.mark.parametrize("length", [1, 7, 15])
def test_short_softmax_is_torchs(length: int) -> None:
    scores = 30.0 * torch.randn(3, 2, 5, length, generator=torch.Generator().manual_seed(1))
    scores[1, :, :, length // 2 + 1 :] = float("-inf")
    upstream = torch.randn(scores.shape, generator=torch.Generator().manual_seed(2))
    ours, theirs = scores.clone().requires_grad_(), scores.double().requires_grad_()
    found, expected = short_softmax(ours), theirs.softmax(dim=-1)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-7)
    found.backward(upstream)
    expected.backward(upstream.double())
    torch.testing.assert_close(ours.grad.double(), theirs.grad, rtol=1e-5, atol=1e-6)


def test_short_softmax_keeps_the_type() -> None:
    scores = torch.randn(2, 9).bfloat16()
    weights = short_softmax(scores)
    assert weights.dtype == torch.bfloat16
    torch.testing.assert_close(weights.float(), scores.float().softmax(dim=-1), rtol=2**-8, atol=0.0)


@pytest.mark.parametrize("length", [9, 15, 16, 40])
def test_attention_in_training_is_that_of_evaluation(length: int) -> None:
    torch.manual_seed(0)
    attention = SelfAttention(AttentionSpec(embed_dim=8, num_heads=2))
    x = torch.randn(2, length, 8)
    mask = torch.arange(length)[None, None, None, :] < torch.tensor([length, length // 2])[:, None, None, None]
    learned = attention.train()(x, mask)
    torch.testing.assert_close(learned, attention.eval()(x, mask), rtol=1e-5, atol=1e-6)
