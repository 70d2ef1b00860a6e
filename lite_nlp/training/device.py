"""Device side of a step: batches as tensors, precision, and a seed for each batch."""

import hashlib
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from lite_nlp.data.pairs.batches import Batch

__all__ = ["DeviceBatch", "autocast", "best_device", "device_of", "seed_for", "to_device"]


class DeviceBatch(NamedTuple):
    """A batch as tensors; shapes as in ``lite_nlp.data.pairs.batches.Batch``."""

    src_tokens: Tensor
    src_mask: Tensor
    tgt_tokens: Tensor
    labels: Tensor


def to_device(batch: Batch, device: torch.device) -> DeviceBatch:
    """Copy a batch to a device; on a CPU its memory is shared, not copied."""
    arrays = (batch.src_tokens, batch.src_mask, batch.tgt_tokens, batch.labels)
    return DeviceBatch(*(torch.from_numpy(array).to(device, non_blocking=True) for array in arrays))


def best_device() -> torch.device:
    """The accelerator of this machine if there is one that works, else the CPU."""
    return torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")


def device_of(module: nn.Module) -> torch.device:
    """The device of a module's weights."""
    return next(module.parameters()).device


def autocast(device: torch.device, precision: Literal["fp32", "bf16"]) -> torch.autocast:
    """Context in which matrices are multiplied in ``precision``; weights and sums are float32 in both."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=precision == "bf16")


def seed_for(*numbers: int) -> int:
    """A seed in [0, 2^63) that is a fixed function of ``numbers``: the run's seed, the step, the batch in the step.

    A hash, since generators seeded with neighbouring numbers can give alike first draws.
    """
    digest = hashlib.blake2b(",".join(str(number) for number in numbers).encode("ascii"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1
