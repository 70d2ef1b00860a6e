"""Loss against a teacher's distribution and the labels together, without the logits of a whole batch of either model.

Of each row the loss is, with the logits z of the student and u of the teacher, temperature T and label weight w,

    w L_label(z) + (1 - w) T^2 H(softmax(u / T), softmax(z / T)),

where L_label is the label-smoothed cross entropy of the label and H the cross entropy of two distributions (Hinton et
al. 2015, "Distilling the Knowledge in a Neural Network", section 2, with its factor T^2; for target tokens Kim and Rush
2016, "Sequence-Level Knowledge Distillation", section 3.1, where T is 1). Shape letters: R rows, E channels of the
student's table, F of the teacher's, V types.
"""

from functools import partial
from typing import ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from lite_nlp.core.special_tokens import PAD_ID
from lite_nlp.training.loss import LossSums, SummedLoss, sum_over_chunks
from lite_nlp.training.soft_targets import SoftTargets

__all__ = ["TeacherOutput", "mixed_class_loss", "mixed_loss"]


class TeacherOutput(NamedTuple):
    """What gives the teacher's logits, ``hidden table^T``.

    Attributes:
        hidden: (B, T, F), the input of the output projection.
        table: (V, F), the output projection.
    """

    hidden: Tensor
    table: Tensor


def mixed_loss(
    hidden: Tensor, table: Tensor, labels: Tensor, *, teacher: TeacherOutput, smoothing: float, soft: SoftTargets
) -> SummedLoss:
    """The mixed loss of ``hidden table^T``, summed; padding and types of matrices as in ``projected_loss``.

    Args:
        hidden: (B, T, E), the input of the student's output projection.
        table: (V, E), the student's output projection.
        labels: (B, T) int64; positions with the padding id are ignored.
        teacher: The teacher's output at the same positions, over the same types; it gets no gradient.
        smoothing: Label smoothing of the labels' part, in [0, 1).
        soft: Temperature and weight.
    """
    kept = labels.ne(PAD_ID)
    rows = TeacherOutput(teacher.hidden[kept], teacher.table)
    make_sums = partial(_MixedSums, smoothing=smoothing, teacher=rows, soft=soft)
    return sum_over_chunks(hidden[kept], table, labels[kept], make_sums)


def mixed_class_loss(logits: Tensor, labels: Tensor, *, teacher: Tensor, smoothing: float, soft: SoftTargets) -> Tensor:
    """The mixed loss of a classifier, summed, 0-dimensional; classes are so few that their logits are no matter.

    Args:
        logits: (B, C) float32 of the student.
        labels: (B,) int64.
        teacher: (B, C) logits of the teacher.
        smoothing: Label smoothing of the labels' part, in [0, 1).
        soft: Temperature and weight.
    """
    of_labels = F.cross_entropy(logits, labels, reduction="sum", label_smoothing=smoothing)
    wanted = (teacher.detach().float() / soft.temperature).softmax(dim=-1)
    of_teacher = F.cross_entropy(logits / soft.temperature, wanted, reduction="sum")
    return soft.label_weight * of_labels + (1.0 - soft.label_weight) * soft.temperature**2 * of_teacher


class _MixedSums(LossSums):
    """The mixed loss and its gradients, chunk by chunk.

    With p and p_T the student's distributions at temperatures 1 and T and q that of the teacher at T, a row's gradient
    with respect to its logits is

        w (p - (1 - smoothing) y - smoothing / V) + (1 - w) T (p_T - q),

    of which the products are taken after the sum of the three, so that the teacher adds one product to those of a plain
    loss, that which gives its logits.
    """

    #: The logits of both models, and the student's at another temperature than 1.
    buffers: ClassVar[int] = 3

    def __init__(
        self,
        hidden: Tensor,
        table: Tensor,
        dtype: torch.dtype,
        *,
        smoothing: float,
        gradients: bool,
        teacher: TeacherOutput,
        soft: SoftTargets,
    ) -> None:
        # The base class adds the uniform term, which has the weight of the labels too.
        super().__init__(hidden, table, dtype, smoothing=soft.label_weight * smoothing, gradients=gradients)
        self.soft = soft
        self.of_labels = soft.label_weight * (1.0 - smoothing)
        self.taught = TeacherOutput(teacher.hidden.to(dtype), teacher.table.to(dtype))

    def add(self, start: int, labels: Tensor) -> None:
        """Add the rows from ``start`` on, whose labels are ``labels`` (rows, 1)."""
        rows = slice(start, start + len(labels))
        temperature, weight = self.soft.temperature, self.soft.label_weight
        hidden, (shifted, wanted, cooled) = self.hidden[rows], (self.chunk(number, len(labels)) for number in range(3))
        wanted_of_label, wanted_total = self._teach(rows, labels, wanted)
        torch.mm(hidden, self.table.t(), out=shifted)
        highest = shifted.amax(dim=1, keepdim=True)
        shifted.sub_(highest)
        of_label = shifted.gather(1, labels).float()
        agreement = torch.linalg.vecdot(wanted, shifted)[:, None].float() / wanted_total
        if temperature != 1.0:
            torch.div(shifted, temperature, out=cooled).exp_()
        powers = shifted.exp_()
        total = _row_sums(powers)
        cooled_total = total if temperature == 1.0 else _row_sums(cooled)
        log_total = total.log()
        self.nll += (log_total - of_label).sum()
        of_labels = weight * log_total - self.of_labels * of_label + self.smoothing * highest.float()
        of_teacher = cooled_total.log() - agreement / temperature
        self.loss += (of_labels + (1.0 - weight) * temperature**2 * of_teacher).sum()
        if not self.gradients:
            return
        # All of it times the total, by which the products are divided in the end.
        imitation = (1.0 - weight) * temperature * total
        at_label = of_label.exp() - self.of_labels * total
        if temperature != 1.0:
            at_label = weight * of_label.exp() - self.of_labels * total
            at_label += imitation / cooled_total * (of_label / temperature).exp()
            powers.mul_(weight).addcmul_(cooled, (imitation / cooled_total).to(powers.dtype))
        powers.addcmul_(wanted, (imitation / wanted_total).to(powers.dtype), value=-1.0)
        at_label -= imitation / wanted_total * wanted_of_label
        powers[torch.arange(len(labels), device=labels.device), labels[:, 0]] = at_label.to(powers.dtype)[:, 0]
        of_hidden = torch.mm(powers, self.table).float().div_(total)
        self.of_hidden[rows] = of_hidden.sub_(self.smoothing * self.table_mean)
        self.add_to_table(powers, (hidden / total).to(powers.dtype))

    def _teach(self, rows: slice, labels: Tensor, powers: Tensor) -> tuple[Tensor, Tensor]:
        """Put the exponentials of the teacher's cooled logits, less the highest, into ``powers`` (rows, V).

        Returns:
            Those of the labels and the sums of all types, both (rows, 1) float32.
        """
        torch.mm(self.taught.hidden[rows], self.taught.table.t(), out=powers)
        powers.sub_(powers.amax(dim=1, keepdim=True))
        if self.soft.temperature != 1.0:
            powers.div_(self.soft.temperature)
        of_label = powers.gather(1, labels).float().exp()
        return of_label, _row_sums(powers.exp_())


def _row_sums(powers: Tensor) -> Tensor:
    """Sums (rows, 1) float32 of (rows, V)."""
    return powers.sum(dim=1, keepdim=True, dtype=torch.float32)
