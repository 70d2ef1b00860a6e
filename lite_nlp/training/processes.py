"""The processes that train together: one on a laptop, many under ``accelerate launch`` or ``torchrun``."""

from collections.abc import Sequence

import torch

# The default arguments of this module hold the process group that exists when it is first imported, which the fused
# optimizer does. Imported before there is one, it lets `end_training` stop the group's threads; threads that still run
# when the interpreter ends can abort the process.
import torch.distributed.nn.functional
from accelerate import Accelerator
from torch import Tensor, nn

__all__ = ["share_weights", "start_processes", "sum_gradients", "sum_over_processes"]


def start_processes() -> Accelerator:
    """Join the processes that the launcher started; without a launcher there is just this one."""
    # Without `cpu`, Accelerate ignores the launcher on a machine without an accelerator. Its own mixed precision can
    # be chosen once in the life of a process only, and a program may train twice: `autocast` does that part.
    return Accelerator(mixed_precision="no", cpu=not torch.accelerator.is_available())


def share_weights(accelerator: Accelerator, model: nn.Module) -> None:
    """Copy the weights of the first process to all others."""
    if accelerator.num_processes == 1:
        return
    with torch.no_grad():
        for tensor in model.state_dict().values():
            torch.distributed.broadcast(tensor, src=0)


def sum_gradients(accelerator: Accelerator, parameters: Sequence[nn.Parameter], sums: Tensor) -> Tensor:
    """Sum the gradients of all processes, in place, and the vector ``sums`` along with them in one message.

    A plain sum, where ``DistributedDataParallel`` would take a mean and wait for a gradient from everyone: a process
    that had no batch at this step takes part with zeros, and the step can be divided by its true number of tokens.

    Args:
        accelerator: The processes.
        parameters: The trained parameters; one without a gradient counts as zero.
        sums: (n,) float32.

    Returns:
        The sum of ``sums``, (n,).
    """
    if accelerator.num_processes == 1:
        return sums
    pieces = [
        (torch.zeros_like(parameter) if parameter.grad is None else parameter.grad).reshape(-1)
        for parameter in parameters
    ]
    message: Tensor = accelerator.reduce(torch.cat([*pieces, sums.to(pieces[0])]), reduction="sum")
    start = 0
    for parameter in parameters:
        parameter.grad = message[start : start + parameter.numel()].view_as(parameter)
        start += parameter.numel()
    return message[start:]


def sum_over_processes(accelerator: Accelerator, values: Sequence[float]) -> list[float]:
    """Element-wise sum of ``values`` over all processes, in double."""
    if accelerator.num_processes == 1:
        return list(values)
    total = accelerator.reduce(torch.tensor(values, dtype=torch.float64, device=accelerator.device), reduction="sum")
    return [float(value) for value in total]
