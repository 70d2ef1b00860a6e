"""Convolution kernels as bands, whole and in blocks, against a plain loop and against PyTorch's convolution."""

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from lite_nlp.models.convolution import Convolution, band_matrix, convolve


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


def slow_convolution(x: torch.Tensor, kernels: torch.Tensor, left: int) -> torch.Tensor:
    """Each position the sum of its taps times the inputs that they reach."""
    length, taps = kernels.shape[-2:]
    out = torch.zeros_like(x)
    for position in range(length):
        for tap in range(taps):
            source = position + tap - left
            if 0 <= source < length:
                out[:, :, position] += kernels[:, :, position, tap, None] * x[:, :, source]
    return out


# One band, the longest of one band, and blocks that end with the text or before it.
@pytest.mark.parametrize("length", [1, 13, 64, 65, 96, 101])
@pytest.mark.parametrize(("taps", "left"), [(1, 0), (3, 1), (7, 6), (31, 15), (31, 30), (40, 20)])
@pytest.mark.parametrize("shared", [False, True])
def test_convolution_in_training_is_that_of_a_loop(length: int, taps: int, left: int, shared: bool) -> None:
    generator = torch.Generator().manual_seed(length)
    x = torch.randn(3, 2, length, 4, generator=generator, dtype=torch.float64).requires_grad_()
    kernels = torch.randn(1 if shared else 3, 2, length, taps, generator=generator, dtype=torch.float64)
    upstream = torch.randn(x.shape, generator=generator, dtype=torch.float64)
    kernels.requires_grad_()
    found = convolve(x, kernels, left=left)
    expected = slow_convolution(x, kernels, left)
    torch.testing.assert_close(found, expected)
    ours = torch.autograd.grad(found, (x, kernels), upstream)
    theirs = torch.autograd.grad(expected, (x, kernels), upstream)
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("length", [9, 80])
def test_a_layer_computes_the_same_in_training_and_evaluation(dynamic: bool, length: int) -> None:
    torch.manual_seed(0)
    layer = Convolution(channels=6, kernel_size=5, num_heads=2, dynamic=dynamic, glu=False, causal=False, dropout=0.0)
    x = torch.randn(2, length, 6)
    mask = torch.arange(length)[None, :] < torch.tensor([length, 4])[:, None]
    torch.testing.assert_close(layer.train()(x, mask), layer.eval()(x, mask), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shared", [False, True])
def test_no_intermediate_grows_with_the_square_of_the_length(shared: bool) -> None:
    sizes: list[int] = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), options=None):  # type: ignore[no-untyped-def]
            out = function(*arguments, **(options or {}))
            sizes.extend(tensor.numel() for tensor in (out if isinstance(out, (tuple, list)) else [out]))
            return out

    length, taps = 1000, 7
    kernels = torch.randn(1 if shared else 2, 2, length, taps)
    with Watch():
        convolve(torch.randn(2, 2, length, 4), kernels, left=3)
    # The bands of the blocks: 32 + 7 - 1 columns a row, for two rows and two heads at most.
    assert max(sizes) <= 2 * 2 * (length + 32) * (32 + 2 * taps)
