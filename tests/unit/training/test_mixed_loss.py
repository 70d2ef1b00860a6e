"""The loss mixed with a teacher's distribution against its formula, and its gradients against torch's own in double."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from lite_nlp.core.errors import UsageError
from lite_nlp.training.loss import projected_loss
from lite_nlp.training.mixed_loss import TeacherOutput, mixed_class_loss, mixed_loss
from lite_nlp.training.soft_targets import SoftTargets

MIXTURES = [
    SoftTargets(temperature=1.0, label_weight=0.5),
    SoftTargets(temperature=1.0, label_weight=0.0),
    SoftTargets(temperature=2.0, label_weight=0.25),
    SoftTargets(temperature=0.5, label_weight=0.0),
]


def make_batch(rows: int, length: int, vocab_size: int) -> tuple[Tensor, Tensor, Tensor, TeacherOutput]:
    """The student's hidden states and table, labels with padding, and a teacher of another width."""
    generator = torch.Generator().manual_seed(3)
    hidden = torch.randn(rows, length, 6, generator=generator)
    table = torch.randn(vocab_size, 6, generator=generator)
    labels = torch.randint(1, vocab_size, (rows, length), generator=generator)
    labels[0, length // 2 :] = 0
    teacher = TeacherOutput(
        torch.randn(rows, length, 9, generator=generator), torch.randn(vocab_size, 9, generator=generator)
    )
    return hidden, table, labels, teacher


def slow_loss(
    hidden: Tensor, table: Tensor, labels: Tensor, teacher: TeacherOutput, smoothing: float, soft: SoftTargets
) -> float:
    """The definition, word for word, in double."""

    def logits(hidden: Tensor, table: Tensor) -> np.ndarray:
        return hidden.double().numpy().reshape(-1, hidden.shape[-1]) @ table.double().numpy().T

    def log_softmax(row: np.ndarray) -> np.ndarray:
        return row - np.log(np.exp(row).sum())

    loss = 0.0
    rows = zip(logits(hidden, table), logits(*teacher), labels.flatten().tolist(), strict=True)
    for student, taught, label in rows:
        if label == 0:
            continue
        target = np.full(len(student), smoothing / len(student))
        target[label] += 1.0 - smoothing
        loss -= soft.label_weight * float(target @ log_softmax(student))
        wanted = np.exp(log_softmax(taught / soft.temperature))
        cooled = log_softmax(student / soft.temperature)
        loss -= (1.0 - soft.label_weight) * soft.temperature**2 * float(wanted @ cooled)
    return loss


def plain_loss(
    hidden: Tensor, table: Tensor, labels: Tensor, teacher: TeacherOutput, smoothing: float, soft: SoftTargets
) -> Tensor:
    """The same with torch's operations, for autograd."""
    kept = labels.ne(0)
    logits, taught = F.linear(hidden, table)[kept], F.linear(*teacher)[kept]
    of_labels = F.cross_entropy(logits, labels[kept], label_smoothing=smoothing, reduction="sum")
    wanted = (taught / soft.temperature).softmax(-1)
    of_teacher = -(wanted * (logits / soft.temperature).log_softmax(-1)).sum()
    return soft.label_weight * of_labels + (1 - soft.label_weight) * soft.temperature**2 * of_teacher


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("soft", MIXTURES, ids=str)
def test_loss_is_its_definition(soft: SoftTargets, smoothing: float) -> None:
    hidden, table, labels, teacher = make_batch(3, 5, 7)
    sums = mixed_loss(hidden, table, labels, teacher=teacher, smoothing=smoothing, soft=soft)
    assert float(sums.loss) == pytest.approx(slow_loss(hidden, table, labels, teacher, smoothing, soft), rel=1e-5)
    # What is reported beside it is the likelihood of the labels, whatever the teacher says.
    assert float(sums.nll) == pytest.approx(float(projected_loss(hidden, table, labels, smoothing=0.0).loss), rel=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("soft", MIXTURES, ids=str)
def test_gradients_are_those_of_the_plain_formula_in_several_chunks(soft: SoftTargets, smoothing: float) -> None:
    # 99 rows that count, of 50,000 logits each in three buffers, are four chunks, the last one shorter.
    hidden, table, labels, teacher = make_batch(10, 10, 50_000)
    labels[1, 0] = 0
    ours = [tensor.clone().requires_grad_() for tensor in (hidden, table)]
    theirs = [tensor.double().requires_grad_() for tensor in (hidden, table)]
    sums = mixed_loss(*ours, labels, teacher=teacher, smoothing=smoothing, soft=soft)
    sums.loss.backward()
    taught = TeacherOutput(*(tensor.double() for tensor in teacher))
    reference = plain_loss(*theirs, labels, taught, smoothing, soft)
    reference.backward()
    assert float(sums.loss.detach()) == pytest.approx(reference.item(), rel=1e-5)
    for mine, expected in zip(ours, theirs, strict=True):
        assert (mine.grad - expected.grad).norm() < 1e-4 * expected.grad.norm()
    assert not ours[0].grad[0, 5:].any()


def test_a_student_that_says_what_the_teacher_says_has_no_gradient() -> None:
    _, _, labels, teacher = make_batch(3, 5, 7)
    ours = [tensor.clone().requires_grad_() for tensor in teacher]
    mixed_loss(*ours, labels, teacher=teacher, smoothing=0.1, soft=SoftTargets(label_weight=0.0)).loss.backward()
    assert all(tensor.grad.abs().max() < 1e-5 for tensor in ours)


def test_a_teacher_with_a_gradient_of_its_own_gets_none() -> None:
    hidden, table, labels, teacher = make_batch(3, 5, 7)
    teacher = TeacherOutput(*(tensor.requires_grad_() for tensor in teacher))
    sums = mixed_loss(hidden.requires_grad_(), table, labels, teacher=teacher, smoothing=0.1, soft=SoftTargets())
    sums.loss.backward()
    assert teacher.hidden.grad is None
    assert teacher.table.grad is None


@pytest.mark.parametrize("soft", MIXTURES[::2], ids=str)
def test_bfloat16_is_near(soft: SoftTargets) -> None:
    hidden, table, labels, teacher = make_batch(20, 10, 300)
    ours = [tensor.clone().requires_grad_() for tensor in (hidden, table)]
    theirs = [tensor.double().requires_grad_() for tensor in (hidden, table)]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        sums = mixed_loss(*ours, labels, teacher=teacher, smoothing=0.1, soft=soft)
    sums.loss.backward()
    reference = plain_loss(*theirs, labels, TeacherOutput(*(tensor.double() for tensor in teacher)), 0.1, soft)
    reference.backward()
    assert sums.loss.dtype == torch.float32
    assert float(sums.loss.detach()) == pytest.approx(reference.item(), rel=3e-3)
    for mine, expected in zip(ours, theirs, strict=True):
        assert mine.grad.dtype == torch.float32
        assert (mine.grad - expected.grad).norm() < 2e-2 * expected.grad.norm()


def test_without_gradients_there_is_the_same_loss() -> None:
    hidden, table, labels, teacher = make_batch(3, 5, 7)
    with torch.inference_mode():
        seen = mixed_loss(hidden, table, labels, teacher=teacher, smoothing=0.1, soft=SoftTargets())
    learned = mixed_loss(hidden.requires_grad_(), table, labels, teacher=teacher, smoothing=0.1, soft=SoftTargets())
    assert torch.equal(seen.loss, learned.loss.detach())
    assert not seen.loss.requires_grad


@pytest.mark.parametrize("soft", MIXTURES, ids=str)
def test_classes_are_mixed_by_the_same_formula(soft: SoftTargets) -> None:
    generator = torch.Generator().manual_seed(3)
    logits, taught = torch.randn(2, 4, 5, generator=generator).double()
    labels = torch.tensor([1, 4, 2, 2])
    found = mixed_class_loss(logits, labels, teacher=taught, smoothing=0.1, soft=soft)
    # As rows of logits that are projected by the identity; 0 is no label here, since it stands for padding there.
    expected = slow_loss(logits, torch.eye(5), labels, TeacherOutput(taught, torch.eye(5)), 0.1, soft)
    assert float(found) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"temperature": 0.0}, "--temperature: expected 0.1 to 100.0, found 0.0"),
        ({"temperature": float("nan")}, "--temperature: expected 0.1 to 100.0, found nan"),
        ({"label_weight": 1.0}, "--label-weight: expected 0 to less than 1, which would be training without a teacher"),
        ({"label_weight": -0.1}, "--label-weight: expected 0 to less than 1"),
        ({"label_weight": float("nan")}, "--label-weight: expected 0 to less than 1"),
    ],
)
def test_values_out_of_range(values: dict[str, float], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        SoftTargets(**values)
