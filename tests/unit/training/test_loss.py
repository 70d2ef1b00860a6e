"""The loss against its closed form and against torch's own."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from lite_nlp.training.loss import projected_loss


def make_batch(
    rows: int, length: int, vocab_size: int, *, channels: int = 6
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    hidden = torch.randn(rows, length, channels, generator=generator)
    table = torch.randn(vocab_size, channels, generator=generator)
    labels = torch.randint(1, vocab_size, (rows, length), generator=generator)
    labels[0, length // 2 :] = 0
    return hidden, table, labels


def slow_loss(hidden: torch.Tensor, table: torch.Tensor, labels: torch.Tensor, smoothing: float) -> tuple[float, float]:
    """The definition, word for word, in double."""
    loss = nll = 0.0
    logits = hidden.double().numpy().reshape(-1, hidden.shape[-1]) @ table.double().numpy().T
    for row, label in zip(logits, labels.flatten().tolist(), strict=True):
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
    hidden, table, labels = make_batch(3, 5, 7)
    expected_loss, expected_nll = slow_loss(hidden, table, labels, smoothing)
    sums = projected_loss(hidden, table, labels, smoothing=smoothing)
    assert float(sums.loss.detach()) == pytest.approx(expected_loss, rel=1e-5)
    assert float(sums.nll) == pytest.approx(expected_nll, rel=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_gradients_are_those_of_torch_in_double_and_in_several_chunks(smoothing: float) -> None:
    # 199 rows that count, of 50,000 logits each, are three chunks, the last one shorter.
    hidden, table, labels = make_batch(20, 10, 50_000)
    ours = [tensor.clone().requires_grad_() for tensor in (hidden, table)]
    theirs = [tensor.double().requires_grad_() for tensor in (hidden, table)]
    sums = projected_loss(*ours, labels, smoothing=smoothing)
    sums.loss.backward()
    logits = F.linear(*theirs).flatten(0, 1)
    reference = F.cross_entropy(logits, labels.view(-1), label_smoothing=smoothing, ignore_index=0, reduction="sum")
    reference.backward()
    assert float(sums.loss.detach()) == pytest.approx(reference.item(), rel=1e-5)
    for mine, expected in zip(ours, theirs, strict=True):
        # Sums of 50,000 products in float32.
        assert (mine.grad - expected.grad).norm() < 1e-4 * expected.grad.norm()
    assert not ours[0].grad[0, 5:].any()


def test_gradient_of_a_multiple_of_the_loss() -> None:
    hidden, table, labels = make_batch(3, 5, 7)
    once, thrice = hidden.clone().requires_grad_(), hidden.clone().requires_grad_()
    projected_loss(once, table, labels, smoothing=0.1).loss.backward()
    (3.0 * projected_loss(thrice, table, labels, smoothing=0.1).loss).backward()
    torch.testing.assert_close(thrice.grad, 3.0 * once.grad)


def test_a_table_that_embeds_too_gets_both_gradients() -> None:
    _, table, labels = make_batch(3, 5, 7)
    ours, theirs = table.clone().requires_grad_(), table.double().requires_grad_()
    projected_loss(F.embedding(labels, ours), ours, labels, smoothing=0.1).loss.backward()
    logits = F.linear(F.embedding(labels, theirs), theirs).flatten(0, 1)
    F.cross_entropy(logits, labels.view(-1), label_smoothing=0.1, ignore_index=0, reduction="sum").backward()
    torch.testing.assert_close(ours.grad.double(), theirs.grad, rtol=1e-5, atol=1e-5)


def test_large_logits_neither_overflow_nor_vanish() -> None:
    hidden, table, labels = make_batch(3, 5, 7)
    ours = (300.0 * hidden).requires_grad_()
    sums = projected_loss(ours, table, labels, smoothing=0.1)
    sums.loss.backward()
    theirs = (300.0 * hidden).double().requires_grad_()
    logits = F.linear(theirs, table.double()).flatten(0, 1)
    reference = F.cross_entropy(logits, labels.view(-1), label_smoothing=0.1, ignore_index=0, reduction="sum")
    reference.backward()
    assert float(sums.loss.detach()) == pytest.approx(reference.item(), rel=1e-5)
    torch.testing.assert_close(ours.grad.double(), theirs.grad, rtol=1e-4, atol=1e-4)


def test_bfloat16_products_have_a_float32_loss_and_float32_gradients() -> None:
    hidden, table, labels = make_batch(8, 16, 500, channels=32)
    ours = [(0.3 * tensor).requires_grad_() for tensor in (hidden, table)]
    theirs = [tensor.detach().double().requires_grad_() for tensor in ours]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        sums = projected_loss(*ours, labels, smoothing=0.1)
    sums.loss.backward()
    logits = F.linear(*theirs).flatten(0, 1)
    reference = F.cross_entropy(logits, labels.view(-1), label_smoothing=0.1, ignore_index=0, reduction="sum")
    reference.backward()
    assert sums.loss.dtype == torch.float32
    assert float(sums.loss.detach()) == pytest.approx(reference.item(), rel=1e-3)
    for mine, expected in zip(ours, theirs, strict=True):
        assert mine.grad.dtype == torch.float32
        # Eight bits of mantissa, and products of a few hundred terms.
        assert (mine.grad - expected.grad).norm() < 1e-2 * expected.grad.norm()


def test_without_gradients_there_is_the_same_loss() -> None:
    hidden, table, labels = make_batch(3, 5, 7)
    with torch.inference_mode():
        seen = projected_loss(hidden, table, labels, smoothing=0.1)
    learned = projected_loss(hidden.requires_grad_(), table, labels, smoothing=0.1)
    assert torch.equal(seen.loss, learned.loss.detach())
    assert not seen.loss.requires_grad
    assert not learned.nll.requires_grad


def test_padding_alone_counts_nothing() -> None:
    hidden, table = torch.randn(2, 3, 5, requires_grad=True), torch.randn(7, 5, requires_grad=True)
    sums = projected_loss(hidden, table, torch.zeros(2, 3, dtype=torch.int64), smoothing=0.1)
    assert (float(sums.loss.detach()), float(sums.nll)) == (0.0, 0.0)
    sums.loss.backward()
    assert not hidden.grad.any()
    assert not table.grad.any()
