"""Dropout whose mask costs little on a CPU.

There the generator of ``torch.nn.functional.dropout`` makes one draw per element, which is a sixth of a training step
of these small models. Here one draw of 64 bits serves four elements.
"""

from typing import Final

import torch
from torch import Tensor
from torch.nn import functional as F

__all__ = ["apply_dropout"]

#: Values of the 16 random bits of an element, and elements per draw.
_LEVELS: Final = 2**16
_PER_DRAW: Final = 4


def apply_dropout(x: Tensor, rate: float, training: bool) -> Tensor:
    """Zero elements at random and scale the others so that the expectation is preserved (Srivastava et al. 2014).

    Args:
        x: Any shape, floating point.
        rate: Probability of an element to become zero, in [0, 1]; on a CPU to the nearest 1 / 65,536.
        training: Whether to drop; otherwise ``x`` is returned unchanged.
    """
    if not training or rate == 0.0:
        return x
    if x.device.type != "cpu":
        return F.dropout(x, rate)
    dropped = round(rate * _LEVELS)
    if dropped == _LEVELS:
        return x * 0.0
    draws = torch.empty(-(-x.numel() // _PER_DRAW), dtype=torch.int64).random_(-(2**63), None)
    bits = draws.view(torch.int16)[: x.numel()].view(x.shape)
    kept = (bits >= dropped - _LEVELS // 2).to(x.dtype)
    return x * kept.mul_(_LEVELS / (_LEVELS - dropped))
