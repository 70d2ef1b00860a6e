"""Lightweight and dynamic convolution (Wu et al. 2019), the short-range branch of LSRA (Lite Transformer, section 4).

The kernels of all positions are laid out as one banded matrix per head, so that applying them is a batched matrix
product like attention's: short sentences, the case on a phone, need no K-fold unfolding of the activations. In training
a long text is cut into blocks with a band each, so that memory and time grow with its length, not with the square.
"""

from typing import Final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lite_nlp.config.kinds import DENSE, LinearSpec
from lite_nlp.models.attention.heads import merge_heads, split_heads
from lite_nlp.models.dropout import apply_dropout
from lite_nlp.models.linear import build_linear, dense_linear
from lite_nlp.models.roles import Role, mark

__all__ = ["Convolution", "band_matrix", "convolve"]

#: Tokens of a block in training. Up to two of them one band is faster: measured with 3 to 31 taps.
_BLOCK: Final = 32


def band_matrix(kernels: Tensor, *, left: int) -> Tensor:
    """Lay out per-position kernels as banded matrices.

    Args:
        kernels: (..., T, K); tap k of position t applies to position t + k - left.
        left: Taps that reach before the position: K // 2 when centred, K - 1 when causal.

    Returns:
        (..., T, T); entry (t, s) is tap s - t + left of position t, or 0 out of reach. Taps beyond either end are
        dropped without renormalisation, as in the published models.
    """
    return _skew(kernels)[..., left : left + kernels.shape[-2]]


def _skew(kernels: Tensor) -> Tensor:
    """(..., T, K) -> (..., T, T + K - 1), with row t shifted to the right by t."""
    length, taps = kernels.shape[-2:]
    # Padding each row by T and re-cutting the flat rows one shorter shifts row t to the right by t.
    width = length + taps - 1
    skewed = F.pad(kernels, (0, length)).flatten(-2)[..., : length * width]
    return skewed.reshape(*kernels.shape[:-2], length, width)


def convolve(x: Tensor, kernels: Tensor, *, left: int) -> Tensor:
    """The product of ``band_matrix`` with ``x``, in fewer and larger products: the form for training.

    Args:
        x: (B, H, T, d).
        kernels: (B, H, T, K), or (1, H, T, K) if all rows of the batch have the same.
        left: As in ``band_matrix``.
    """
    if kernels.shape[0] != 1:
        return _convolve_blocks(x, kernels, left)
    # One matrix for the whole batch, whose rows are further channels to it.
    batch, _, _, head_dim = x.shape
    mixed = _convolve_blocks(x.permute(1, 2, 0, 3).flatten(2)[None], kernels, left)  # (1, H, T, B d)
    return mixed.view(*mixed.shape[1:3], batch, head_dim).permute(2, 0, 1, 3)


def _convolve_blocks(x: Tensor, kernels: Tensor, left: int) -> Tensor:
    length, taps = kernels.shape[-2:]
    if length <= 2 * _BLOCK:
        return torch.matmul(band_matrix(kernels, left=left), x)
    blocks = -(-length // _BLOCK)
    beyond = blocks * _BLOCK - length
    by_block = F.pad(kernels, (0, 0, 0, beyond)).view(*kernels.shape[:2], blocks, _BLOCK, taps)
    bands = _skew(by_block)  # (B, H, n, L, L + K - 1)
    padded = F.pad(x, (0, 0, left, beyond + taps - 1 - left))
    windows = padded.unfold(2, _BLOCK + taps - 1, _BLOCK)  # (B, H, n, d, L + K - 1)
    return torch.matmul(bands, windows.transpose(-2, -1)).flatten(2, 3)[:, :, :length]


class Convolution(nn.Module):
    """Linear (and GLU), depthwise convolution with softmax-normalised kernels shared by each head, Linear.

    Args:
        channels: Channels D of input and output.
        kernel_size: Taps K.
        num_heads: Heads H, a divisor of the inner channels; those of a head share a kernel.
        dynamic: Kernels generated from the activation at each position, instead of learned ones.
        glu: The first Linear doubles the channels and a gated linear unit halves them again.
        causal: Kernels end at the current token (decoder) instead of being centred on it (encoder).
        dropout: Drop rate of the normalised kernel taps while training.
        inner_channels: Channels I between the first and the last Linear; 0: D.
        linear: The kind of the first and the last Linear. The one that generates dynamic kernels is always dense: its
            H K outputs need not be divisible as the kind requires.
    """

    def __init__(
        self,
        *,
        channels: int,
        kernel_size: int,
        num_heads: int,
        dynamic: bool,
        glu: bool,
        causal: bool,
        dropout: float,
        inner_channels: int = 0,
        linear: LinearSpec = DENSE,
    ) -> None:
        super().__init__()
        inner = inner_channels or channels
        self.inner_channels = inner
        self.kernel_size = kernel_size
        self.num_heads = num_heads
        self.glu = glu
        self.left = kernel_size - 1 if causal else kernel_size // 2
        self.dropout = dropout
        self.in_proj = build_linear(channels, 2 * inner if glu else inner, linear, role=Role.CONV_IN)
        self.kernel_proj = self.kernel = None
        if dynamic:
            taps = num_heads * kernel_size
            self.kernel_proj = dense_linear(inner, taps, role=Role.KERNEL_GENERATOR, bias=False)
        else:
            kernel = nn.Parameter(torch.zeros(num_heads, kernel_size))
            self.kernel = mark(kernel, Role.STATIC_KERNEL, inputs=kernel_size, outputs=num_heads)
        self.out_proj = build_linear(inner, channels, linear, role=Role.CONV_OUT)

    def gate(self, x: Tensor) -> Tensor:
        """The input (..., I) of the convolution and of the kernels, from ``x`` (..., D)."""
        projected: Tensor = self.in_proj(x)
        return F.glu(projected, dim=-1) if self.glu else projected

    def _kernels(self, x: Tensor) -> Tensor:
        """Normalised kernels (B, H, T, K), or (1, H, T, K) if they do not depend on ``x`` (B, T, I)."""
        if self.kernel_proj is not None:
            taps = split_heads(self.kernel_proj(x), self.num_heads)
        else:
            taps = self.kernel[None, :, None, :].expand(1, self.num_heads, x.shape[1], self.kernel_size)  # type: ignore[index]
        return apply_dropout(taps.softmax(dim=-1), self.dropout, self.training)

    def forward(self, x: Tensor, token_mask: Tensor | None) -> Tensor:
        """Convolve ``x`` (B, T, D); where ``token_mask`` (B, T) is False the input counts as zero.

        The mask acts after the first Linear: before it, as in the authors' code, the Linear's bias would leak from
        padding into the kernels' reach (a deliberate deviation).
        """
        gated = self.gate(x)
        if token_mask is not None:
            gated = gated * token_mask[:, :, None]
        kernels, heads = self._kernels(gated), split_heads(gated, self.num_heads)
        if self.training:
            mixed = convolve(heads, kernels, left=self.left)
        else:
            mixed = torch.matmul(band_matrix(kernels, left=self.left), heads)
        projected: Tensor = self.out_proj(merge_heads(mixed))
        return projected

    def init_state(self, like: Tensor) -> dict[str, Tensor]:
        """The K - 1 last gated inputs (B, K - 1, I), all zero before the first token."""
        return {"conv": like.new_zeros(like.shape[0], self.kernel_size - 1, self.inner_channels)}

    def step(self, x: Tensor, state: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Tokens ``x`` (B, T, D); returns the output (B, T, D) and the shifted window."""
        gated = self.gate(x)
        window = torch.cat([state["conv"], gated], dim=1)  # (B, K - 1 + T, I)
        kernels = self._kernels(gated)
        bands = kernels if x.shape[1] == 1 else _skew(kernels)  # (B, H, T, K - 1 + T)
        mixed = merge_heads(torch.matmul(bands, split_heads(window, self.num_heads)))
        return self.out_proj(mixed), {"conv": window[:, x.shape[1] :]}
