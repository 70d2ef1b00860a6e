"""The base of Linear layers whose weight is built from factors, and kept in inference.

Shape letters as in ``linear``.
"""

from abc import abstractmethod
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor

__all__ = ["BuiltLinear", "is_traced"]


class BuiltLinear(nn.Module):
    """A Linear whose weight H (k, d) is built from fewer parameters, the factors.

    ``eval()`` (or ``freeze()``) builds H and keeps it beside the factors as a buffer, which calls without gradients
    then use. The state dict holds the factors only. The kept weight cannot become outdated: ``train()`` drops it,
    loading a state dict in evaluation mode rebuilds it, and every call first compares the factors' storage and version
    counters with those that it was built from, and rebuilds it if an optimizer, a compressor or other code has written
    to them. Only writes that bypass PyTorch's version counter (``parameter.data.copy_``) require a call of
    ``freeze()``. Traced calls (``torch.export``, fake tensors) cannot look at storage and use the kept weight as it is,
    so that the graph holds one dense product.

    Args:
        in_features: Inputs d.
        out_features: Outputs k.
        bias: Whether a bias is added.
    """

    frozen_weight: Tensor | None

    def __init__(self, in_features: int, out_features: int, *, bias: bool) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.bias = nn.Parameter(torch.zeros(out_features)) if bias else None
        self.register_buffer("frozen_weight", None, persistent=False)
        # Holding the tensors, not just their addresses, keeps an address from being given to other factors.
        self._frozen_from: tuple[tuple[Tensor, int], ...] | None = None
        self.register_load_state_dict_post_hook(_refreeze)  # type: ignore[no-untyped-call]

    @abstractmethod
    def factors(self) -> tuple[nn.Parameter, ...]:
        """The parameters that H is built from."""

    @abstractmethod
    def build_weight(self) -> Tensor:
        """Build H (k, d), differentiable in the factors."""

    def freeze(self) -> None:
        """Build H and keep it for calls in evaluation mode without gradients."""
        device = self.factors()[0].device.type
        # Made outside the caller's inference mode and autocast: the buffer outlives both.
        with torch.inference_mode(mode=False), torch.no_grad():
            if torch.amp.is_autocast_available(device):
                with torch.autocast(device, enabled=False):
                    self.frozen_weight = self.build_weight()
            else:
                self.frozen_weight = self.build_weight()
        self._frozen_from = tuple((factor.detach(), factor._version) for factor in self.factors())

    def train(self, mode: bool = True) -> Self:
        """Switch between training, which drops the kept weight, and evaluation, which builds it."""
        super().train(mode)
        if mode:
            self.frozen_weight = self._frozen_from = None
        elif not any(factor.is_inference() for factor in self.factors()):
            # Tensors made in inference mode have no version counter: a weight kept of them could go stale.
            self.freeze()
        return self

    def dense_weight(self, x: Tensor) -> Tensor:
        """H (k, d) to apply to ``x``: the kept one where it may be used, else built anew."""
        kept = self._kept_weight(x)
        return self.build_weight() if kept is None else kept

    def forward(self, x: Tensor) -> Tensor:
        """Map ``x`` (..., d) to (..., k)."""
        return F.linear(x, self.dense_weight(x), self.bias)

    def _kept_weight(self, x: Tensor) -> Tensor | None:
        if self.training or self.frozen_weight is None or self._frozen_from is None:
            return None
        if is_traced(x):
            return self.frozen_weight
        factors = self.factors()
        if torch.is_grad_enabled() and any(factor.requires_grad for factor in factors):
            return None
        for factor, (source, version) in zip(factors, self._frozen_from, strict=True):
            if factor.data_ptr() != source.data_ptr() or factor._version != version:
                self.freeze()
                break
        return self.frozen_weight

    @property
    def macs(self) -> int:
        """Mult-Adds per row in inference, where H is kept."""
        return self.in_features * self.out_features

    def extra_repr(self) -> str:
        """The sizes, for ``print(model)``."""
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


def _refreeze(module: nn.Module, _: object) -> None:
    """Rebuild a kept weight after a state dict was loaded."""
    if isinstance(module, BuiltLinear) and module.frozen_weight is not None:
        module.freeze()


def is_traced(x: Tensor) -> bool:
    """Whether ``x`` belongs to a traced call (``torch.export``, fake tensors), which has no storage to look at."""
    return torch.compiler.is_compiling() or isinstance(x, FakeTensor)
