"""The banded layout of convolution kernels against a plain loop and against PyTorch's convolution."""

import pytest
import torch
import torch.nn.functional as F

from lite_nlp.models.convolution import Convolution, band_matrix


@pytest.mark.parametrize(("length", "taps", "left"), [(1, 1, 0), (5, 3, 1), (2, 7, 3), (9, 4, 3), (4, 31, 30)])
def test_entries_are_the_taps_within_reach(length: int, taps: int, left: int) -> None:
    kernels = torch.randn(2, 3, length, taps)
    matrix = band_matrix(kernels, left=left)
    assert matrix.shape == (2, 3, length, length)
    for row in range(length):
        for column in range(length):
            tap = column - row + left
            expected = kernels[:, :, row, tap] if 0 <= tap < taps else torch.zeros(2, 3)
            assert torch.equal(matrix[:, :, row, column], expected)


@pytest.mark.parametrize("causal", [False, True])
def test_static_kernels_equal_a_depthwise_convolution(causal: bool) -> None:
    torch.manual_seed(0)
    layer = Convolution(
        channels=6, kernel_size=5, num_heads=2, dynamic=False, glu=True, causal=causal, dropout=0.0
    ).eval()
    x = torch.randn(2, 9, 6)
    gated = F.glu(layer.in_proj(x), dim=-1).transpose(1, 2)  # (B, D, T)
    assert layer.kernel is not None
    weight = layer.kernel.softmax(-1).repeat_interleave(3, dim=0)[:, None, :]  # channels 0-2 share head 0's kernel
    padded = F.pad(gated, (4, 0) if causal else (2, 2))
    expected = layer.out_proj(F.conv1d(padded, weight, groups=6).transpose(1, 2))
    torch.testing.assert_close(layer(x, None), expected)
