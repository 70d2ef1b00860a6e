"""Output projection and label-smoothed cross entropy in one, without the logits of a whole batch.

The logits (B, T, V) are the largest tensor of a training step by far, and moving them costs more than computing them.
So they are made for some rows at a time, in memory that is used again for the next rows, and their gradient is
multiplied on at once, while both are in the cache. Shape letters: R rows, E channels of the table, V types.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Final, NamedTuple, Protocol, cast

import torch
from torch import Tensor

from lite_nlp.core.special_tokens import PAD_ID

__all__ = ["LossSums", "SummedLoss", "projected_loss", "sum_over_chunks"]

#: Logits held at a time. On a CPU the rows must suffice for fast matrix products and fit the shared cache.
_CHUNK_ELEMENTS: Final = {"cpu": 2**22}
_CHUNK_ELEMENTS_ELSEWHERE: Final = 2**26


class SummedLoss(NamedTuple):
    """Sums over the tokens of a batch that are not padding, 0-dimensional float32 tensors.

    Attributes:
        loss: The loss in nats, such as the label-smoothed cross entropy; ``loss.backward()`` gives all gradients.
        nll: The plain negative log-likelihood in nats, for reports, without a gradient.
    """

    loss: Tensor
    nll: Tensor


def projected_loss(hidden: Tensor, table: Tensor, labels: Tensor, *, smoothing: float) -> SummedLoss:
    """Cross entropy of ``hidden table^T`` against ``(1 - smoothing) [label] + smoothing / V``, summed.

    Label smoothing is that of Szegedy et al. 2016, section 7. Positions of padding cost nothing. Under autocast the
    matrices are multiplied in its type; sums and the returned gradients are float32.

    Args:
        hidden: (B, T, E), the input of the output projection.
        table: (V, E), the output projection.
        labels: (B, T) int64; positions with the padding id are ignored.
        smoothing: Probability mass spread evenly over the vocabulary, in [0, 1).
    """
    kept = labels.ne(PAD_ID)
    return sum_over_chunks(hidden[kept], table, labels[kept], partial(LossSums, smoothing=smoothing))


def sum_over_chunks(hidden: Tensor, table: Tensor, labels: Tensor, make_sums: "MakeSums") -> SummedLoss:
    """Sum a loss of ``hidden table^T`` over rows, some rows at a time; types of matrices as in ``projected_loss``.

    Args:
        hidden: (R, E), the input of the output projection.
        table: (V, E), the output projection.
        labels: (R,) int64.
        make_sums: Makes the sums, to which the chunks are added one after the other.
    """
    apply = cast(Callable[..., tuple[Tensor, Tensor]], _ChunkedLoss.apply)
    return SummedLoss(*apply(hidden, table, labels, make_sums))


class MakeSums(Protocol):
    """Makes the sums of a loss; arguments as of :class:`LossSums`."""

    def __call__(self, hidden: Tensor, table: Tensor, dtype: torch.dtype, *, gradients: bool) -> "LossSums": ...


class _ChunkedLoss(torch.autograd.Function):
    """The sums as one operation of autograd, whose gradients are known as soon as the loss is."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, table: Tensor, labels: Tensor, make_sums: MakeSums) -> tuple[Tensor, Tensor]:
        device = hidden.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype
        with torch.autocast(device, enabled=False):
            sums = make_sums(hidden.float(), table.float(), dtype, gradients=any(ctx.needs_input_grad))
            elements = _CHUNK_ELEMENTS.get(device, _CHUNK_ELEMENTS_ELSEWHERE) // sums.buffers
            rows = max(1, elements // len(table))
            for start in range(0, len(labels), rows):
                sums.add(start, labels[start : start + rows, None])
        if sums.gradients:
            ctx.save_for_backward(sums.of_hidden, sums.of_table)
        ctx.mark_non_differentiable(sums.nll)
        return sums.loss, sums.nll

    @staticmethod
    def backward(ctx: Any, of_loss: Tensor, _: Tensor) -> tuple[Tensor, Tensor, None, None]:
        of_hidden, of_table = ctx.saved_tensors
        if of_loss.device.type == "cpu" and of_loss == 1.0:
            return of_hidden, of_table, None, None
        return of_hidden * of_loss, of_table * of_loss, None, None


class LossSums:
    """The label-smoothed cross entropy and its gradients, chunk by chunk.

    With e = exp(logit - m), z = sum of e and the one-hot label y, a row's gradient with respect to its logits is

        e / z - (1 - smoothing) y - smoothing / V.

    The product with e comes before the division by z, which so concerns E numbers of a row instead of V; the last term
    is the same for all rows and types, so that the table's mean and the rows' sum replace products with it.

    Args:
        hidden: (R, E) float32.
        table: (V, E) float32.
        dtype: Type in which matrices are multiplied.
        smoothing: As in ``projected_loss``.
        gradients: Whether they are wanted.
    """

    #: Chunks of logits in memory at once.
    buffers: ClassVar[int] = 1

    def __init__(self, hidden: Tensor, table: Tensor, dtype: torch.dtype, *, smoothing: float, gradients: bool) -> None:
        self.gradients, self.smoothing = gradients, smoothing
        self.hidden, self.table = hidden.to(dtype), table.to(dtype)
        self._chunks = hidden.new_empty(self.buffers, 0, len(table), dtype=dtype)
        self.table_mean = table.mean(dim=0)
        summed = hidden.sum(dim=0)
        self.loss = -smoothing * (summed @ self.table_mean)
        self.nll = torch.zeros_like(self.loss)
        if gradients:
            self.of_hidden = torch.empty_like(hidden)
            # The rows of the table begin with the share of the uniform term, the same for all.
            self.of_table = (summed * (-smoothing / len(table))).expand_as(table).contiguous()

    def add(self, start: int, labels: Tensor) -> None:
        """Add the rows from ``start`` on, whose labels are ``labels`` (rows, 1)."""
        hidden = self.hidden[start : start + len(labels)]
        logits = self.chunk(0, len(labels))
        torch.mm(hidden, self.table.t(), out=logits)
        highest = logits.amax(dim=1, keepdim=True)
        of_label = (logits.gather(1, labels) - highest).float()
        powers = logits.sub_(highest).exp_()
        total = powers.sum(dim=1, keepdim=True, dtype=torch.float32)
        log_total = total.log()
        self.nll += (log_total - of_label).sum()
        self.loss += (log_total - (1.0 - self.smoothing) * of_label).sum() + self.smoothing * highest.float().sum()
        if self.gradients:
            kept = 1.0 - self.smoothing
            rows = torch.arange(len(labels), device=labels.device)
            powers[rows, labels[:, 0]] = (of_label.exp() - kept * total).to(powers.dtype)[:, 0]
            of_hidden = torch.mm(powers, self.table).float().div_(total)
            self.of_hidden[start : start + len(labels)] = of_hidden.sub_(self.smoothing * self.table_mean)
            self.add_to_table(powers, (hidden / total).to(powers.dtype))

    def chunk(self, number: int, rows: int) -> Tensor:
        """Memory (rows, V) for one of the ``buffers`` chunks, the same for every chunk of rows."""
        if self._chunks.shape[1] < rows:
            self._chunks = self._chunks.new_empty(self.buffers, rows, self._chunks.shape[2])
        return self._chunks[number, :rows]

    def add_to_table(self, of_logits: Tensor, hidden: Tensor) -> None:
        """Add ``of_logits^T hidden`` to the table's gradient."""
        if of_logits.dtype == self.of_table.dtype:
            self.of_table.addmm_(of_logits.t(), hidden)
        else:
            self.of_table.add_(torch.mm(of_logits.t(), hidden))
