import pytest
import torch
from torch import Tensor, nn

from lite_nlp.compress.prune.channels import prune_channels
from lite_nlp.core.errors import ModelError


class Block(nn.Module):
    """A residual feed-forward block, twice, and a convolution kernel that is no module."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.up = nn.ModuleList(nn.Linear(16, width) for _ in range(2))
        self.down = nn.ModuleList(nn.Linear(width, 16) for _ in range(2))
        self.kernel = nn.Parameter(torch.ones(16))

    def forward(self, x: Tensor) -> Tensor:
        for up, down in zip(self.up, self.down, strict=True):
            x = x + down(torch.relu(up(x))) * self.kernel
        return x


INPUTS = (torch.randn(2, 16, generator=torch.Generator().manual_seed(1)),)


def test_every_layer_keeps_the_same_width() -> None:
    model = Block()
    assert prune_channels(model, INPUTS, layers=["up.0", "up.1"], fraction=0.5) == 16
    assert [layer.weight.shape for layer in model.up] == [(16, 16), (16, 16)]
    assert [layer.weight.shape for layer in model.down] == [(16, 16), (16, 16)]
    assert model(*INPUTS).shape == (2, 16)


def test_dead_channels_go_first_and_nothing_changes() -> None:
    model = Block()
    with torch.no_grad():
        for up, down in zip(model.up, model.down, strict=True):
            up.weight[::2] = 0
            up.bias[::2] = 0
            down.weight[:, ::2] = 0
    expected = model(*INPUTS)
    assert prune_channels(model, INPUTS, layers=["up.0", "up.1"], fraction=0.5) == 16
    assert torch.allclose(model(*INPUTS), expected, atol=1e-6)


@pytest.mark.parametrize(("fraction", "width"), [(0.01, 32), (0.3, 24), (0.9, 8), (0.999, 8)])
def test_widths_are_multiples_of_eight(fraction: float, width: int) -> None:
    assert prune_channels(Block(), INPUTS, layers=["up.0", "up.1"], fraction=fraction) == width


def test_channels_of_a_residual_sum_cannot_go() -> None:
    with pytest.raises(ModelError, match=r"down.0: expected channels that only Linear layers take in, found that"):
        prune_channels(Block(), INPUTS, layers=["down.0"], fraction=0.5)


def test_a_module_that_is_refused_is_as_it_was() -> None:
    model = nn.Sequential(nn.Linear(8, 32), nn.Linear(32, 32), nn.LayerNorm(32), nn.Linear(32, 4))
    with pytest.raises(ModelError, match="1: expected channels that only Linear layers take in"):
        prune_channels(model, (torch.zeros(1, 8),), layers=["0", "1"], fraction=0.5)
    assert [model[place].weight.shape for place in (0, 1)] == [(32, 8), (32, 32)]
    with pytest.raises(ValueError, match="round_to: expected at least 1, found 0"):
        prune_channels(Block(), INPUTS, layers=["up.0"], fraction=0.5, round_to=0)


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        (["nothing"], "nothing: expected a Linear layer, found nothing"),
        (["up"], "up: expected a Linear layer, found ModuleList"),
        ([], "expected layers of one width, found no layers"),
        (["up.0", "down.0"], r"expected layers of one width, found \[16, 32\]"),
    ],
)
def test_layers_that_cannot_be_pruned(layers: list[str], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        prune_channels(Block(), INPUTS, layers=layers, fraction=0.5)


@pytest.mark.parametrize("fraction", [0.0, 1.0, -0.1])
def test_impossible_fractions(fraction: float) -> None:
    with pytest.raises(ValueError, match="fraction: expected above 0 and below 1"):
        prune_channels(Block(), INPUTS, layers=["up.0"], fraction=fraction)
