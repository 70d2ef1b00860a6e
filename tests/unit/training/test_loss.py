"""The loss against its closed form and against torch's own."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from lite_nlp.training.loss import label_smoothed_loss


def make_batch(rows: int, length: int, vocab_size: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    logits = 3.0 * torch.randn(rows, length, vocab_size, generator=generator)
    labels = torch.randint(1, vocab_size, (rows, length), generator=generator)
    labels[0, length // 2 :] = 0
    return logits, labels


def slow_loss(logits: torch.Tensor, labels: torch.Tensor, smoothing: float) -> tuple[float, float]:
    """The definition, word for word, in double."""
    loss = nll = 0.0
    for row, label in zip(
        logits.double().numpy().reshape(-1, logits.shape[-1]), labels.flatten().tolist(), strict=True
    ):
        if label == 0:
            continue
        log_probs = row - np.log(np.exp(row).sum())
        target = np.full(len(row), smoothing / len(row))
        target[label] += 1.0 - smoothing
        loss -= float(target @ log_probs)
        nll -= float(log_probs[label])
    return loss, nll


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_loss_is_its_definition(smoothing: float) -> None:
    logits, labels = make_batch(3, 5, 7)
    expected_loss, expected_nll = slow_loss(logits, labels, smoothing)
    sums = label_smoothed_loss(logits, labels, smoothing=smoothing)
    assert float(sums.loss) == pytest.approx(expected_loss, rel=1e-5)
    assert float(sums.nll) == pytest.approx(expected_nll, rel=1e-5)


def test_gradient_is_that_of_torch_in_several_chunks() -> None:
    # 40 x 10 rows of 5000 logits are several chunks.
    logits, labels = make_batch(40, 10, 5000)
    ours, theirs = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    # A model's logits are no leaf, and what made them has no use for their values.
    made = ours + 0.0
    sums = label_smoothed_loss(made, labels, smoothing=0.1)
    made.backward(sums.gradient)
    reference = F.cross_entropy(
        theirs.view(-1, 5000), labels.view(-1), label_smoothing=0.1, ignore_index=0, reduction="sum"
    )
    reference.backward()
    assert float(sums.loss) == pytest.approx(reference.item(), rel=1e-5)
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-7)
    assert not ours.grad[0, 5:].any()


def test_logits_that_need_no_gradient_are_left_as_they_are() -> None:
    logits, labels = make_batch(3, 5, 7)
    before = logits.clone()
    assert label_smoothed_loss(logits, labels, smoothing=0.1).gradient is None
    assert torch.equal(logits, before)


def test_bfloat16_logits_have_a_float32_loss() -> None:
    logits, labels = make_batch(3, 5, 7)
    rounded = logits.bfloat16()
    expected, _ = slow_loss(rounded.float(), labels, 0.1)
    made = rounded.requires_grad_() + 0.0
    sums = label_smoothed_loss(made, labels, smoothing=0.1)
    assert sums.loss.dtype == torch.float32
    assert float(sums.loss) == pytest.approx(expected, rel=1e-5)
    assert sums.gradient is not None
    assert sums.gradient.dtype == torch.bfloat16


def test_padding_alone_counts_nothing() -> None:
    sums = label_smoothed_loss(torch.randn(2, 3, 7), torch.zeros(2, 3, dtype=torch.int64), smoothing=0.1)
    assert (float(sums.loss), float(sums.nll)) == (0.0, 0.0)
