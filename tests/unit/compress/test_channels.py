"""The channels that any module can do without: none that its code or another layer counts on."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

from lite_nlp.compress.prune.channels import channel_groups, without_channels
from lite_nlp.compress.prune.resizing import fit_shapes
from lite_nlp.compress.prune.units import zero_units
from lite_nlp.core.errors import ModelError


class Residual(nn.Module):
    """A block of depthwise and grouped convolutions, a residual sum with gains, and a transposed convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, padding=1)
        self.norm = nn.BatchNorm2d(16)
        self.second = nn.Conv2d(16, 16, 3, padding=1, groups=16)
        self.gains = nn.Parameter(torch.rand(1, 16, 1, 1))
        self.up = nn.ConvTranspose2d(16, 12, 2, stride=2)
        self.slope = nn.PReLU(12)
        self.grouped = nn.Conv2d(12, 12, 1, groups=2)
        self.output = nn.Linear(12, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.norm(self.first(x)))
        x = x + self.second(x) * self.gains
        return self.output(self.grouped(self.slope(self.up(x))).mean((2, 3)))  # type: ignore[no-any-return]


class Fixed(nn.Module):
    """Code that counts on one of the widths."""

    def __init__(self) -> None:
        super().__init__()
        self.free, self.fixed, self.output = nn.Linear(8, 16), nn.Linear(16, 12), nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        left, right = self.fixed(torch.tanh(self.free(x))).split(6, dim=-1)
        return self.output(left * right)  # type: ignore[no-any-return]


class Tagger(nn.Module):
    """A table, two LSTMs, of which the second reads both ways, and a layer whose table has two names."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.output = nn.Embedding(20, 12), nn.Linear(16, 20)
        self.one, self.both = nn.LSTM(12, 10, batch_first=True), nn.LSTM(10, 8, batch_first=True, bidirectional=True)
        self.tied = nn.Embedding(20, 16)
        self.output.weight = self.tied.weight

    def forward(self, tokens: Tensor) -> Tensor:
        read = self.both(self.one(self.table(tokens))[0])[0]
        return self.output(read + self.tied(tokens))  # type: ignore[no-any-return]


def _with_random_state(module: nn.Module) -> nn.Module:
    """Biases, norms and statistics that are no zeros and ones."""
    torch.manual_seed(3)
    for tensor in (*module.parameters(), *module.buffers()):
        if tensor.is_floating_point():
            tensor.data = torch.rand_like(tensor) + 0.1
    return module.eval()


TOKENS = torch.randint(0, 20, (2, 7), generator=torch.Generator().manual_seed(1))
IMAGES = torch.randn(2, 3, 6, 6, generator=torch.Generator().manual_seed(1))
ROWS = torch.randn(3, 8, generator=torch.Generator().manual_seed(1))
NORMED = nn.Sequential(nn.Linear(8, 32), nn.LayerNorm(32), nn.Linear(32, 24), nn.Sigmoid(), nn.Linear(24, 4))
FLAT = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8, affine=False), nn.Flatten(), nn.Linear(8 * 16, 6))
NARROW = nn.Sequential(nn.Linear(8, 1), nn.Tanh(), nn.Linear(1, 2), nn.Linear(2, 3))
NORMED_WEIGHTS = nn.Sequential(weight_norm(nn.Linear(8, 12)), nn.PReLU(), nn.Linear(12, 6), nn.PReLU(), nn.Linear(6, 3))
PLAIN_NORM = nn.Sequential(nn.Conv2d(3, 8, 3), nn.InstanceNorm2d(8), nn.Conv2d(8, 2, 1))
LAYER = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)


@pytest.mark.parametrize(
    ("module", "inputs", "expected"),
    [
        (
            Residual(),
            IMAGES,
            {"first": {("first.weight", 0), ("first.bias", 0), ("norm.weight", 0), ("norm.bias", 0)}
             | {("norm.running_mean", 0), ("norm.running_var", 0), ("second.weight", 0), ("second.bias", 0)}
             | {("gains", 1), ("up.weight", 0)}},
        ),
        (Fixed(), ROWS, {"free": {("free.weight", 0), ("free.bias", 0), ("fixed.weight", 1)}}),
        (
            Tagger(),
            TOKENS,
            {
                "table": {("table.weight", 1), ("one.weight_ih_l0", 1)},
                "one": {("one.weight_ih_l0", 0), ("one.weight_hh_l0", 0), ("one.weight_hh_l0", 1)}
                | {("one.bias_ih_l0", 0), ("one.bias_hh_l0", 0)}
                | {("both.weight_ih_l0", 1), ("both.weight_ih_l0_reverse", 1)},
            },
        ),
        (NORMED, ROWS, {"2": {("2.weight", 0), ("2.bias", 0), ("4.weight", 1)}}),
        (
            FLAT,
            IMAGES,
            {"0": {("0.weight", 0), ("0.bias", 0), ("1.running_mean", 0), ("1.running_var", 0), ("3.weight", 1)}},
        ),
        (PLAIN_NORM, IMAGES, {}),
        # A weight that is computed from others stays; one slope of all channels goes with none of them.
        (NORMED_WEIGHTS, ROWS, {"2": {("2.weight", 0), ("2.bias", 0), ("4.weight", 1)}}),
        (NARROW, ROWS, {"2": {("2.weight", 0), ("2.bias", 0), ("3.weight", 1)}}),
        (
            LAYER,
            torch.randn(2, 5, 32),
            {"linear1": {("linear1.weight", 0), ("linear1.bias", 0), ("linear2.weight", 1)}},
        ),
    ],
    ids=["convolutions", "fixed sizes", "LSTMs", "LayerNorm", "flat", "bare norm", "weight norm", "narrow", "layer"],
)  # fmt: skip
def test_what_goes_with_a_channel(module: nn.Module, inputs: Tensor, expected: dict[str, Any]) -> None:
    module = _with_random_state(copy.deepcopy(module))
    groups = channel_groups(module, (inputs,), name="module")
    assert {group.name: {(part.tensor, part.dim) for part in group.slices} for group in groups} == expected
    # Some of each, and not the first half, by which they were checked.
    gone = [(group, list(range(1, group.size, 3))) for group in groups]
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    smaller = without_channels(module, gone)
    zeroed = copy.deepcopy(module)
    for group, channels in gone:
        zero_units({**dict(zeroed.named_parameters()), **dict(zeroed.named_buffers())}, group, channels)
    torch.testing.assert_close(smaller(inputs), zeroed(inputs), atol=1e-3, rtol=1e-4)
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())
    _check_sizes(smaller)


def _check_sizes(module: nn.Module) -> None:
    """Every layer says the sizes that its tensors have."""
    for layer in module.modules():
        match layer:
            case nn.Linear():
                assert (layer.out_features, layer.in_features) == layer.weight.shape
            case nn.ConvTranspose2d():
                assert (layer.in_channels, layer.out_channels // layer.groups) == layer.weight.shape[:2]
            case nn.Conv2d():
                assert (layer.out_channels, layer.in_channels // layer.groups) == layer.weight.shape[:2]
            case nn.BatchNorm2d():
                assert layer.running_mean is not None
                assert layer.num_features == len(layer.running_mean)
            case nn.PReLU():
                assert layer.num_parameters == len(layer.weight)
            case nn.Embedding():
                assert layer.embedding_dim == layer.weight.shape[1]
            case nn.LSTM():
                assert (4 * layer.hidden_size, layer.input_size) == layer.get_parameter("weight_ih_l0").shape


def test_a_module_whose_graph_cannot_be_followed() -> None:
    class Numbers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 4)

        def forward(self, x: Tensor) -> float:
            return float(self.layer(x).sum())

    with pytest.raises(ModelError, match="Numbers: structured pruning: expected a module that torch-pruning can"):
        channel_groups(Numbers(), (ROWS,), name="Numbers")


def test_frozen_parameters_stay_frozen_and_types_stay() -> None:
    layer = nn.Linear(8, 16).half().requires_grad_(False)
    fit_shapes(layer, {"weight": torch.ones(4, 8), "bias": torch.zeros(4)})
    assert (layer.weight.dtype, layer.weight.requires_grad, layer.out_features) == (torch.half, False, 4)
    assert torch.equal(layer.weight, torch.ones(4, 8, dtype=torch.half))
