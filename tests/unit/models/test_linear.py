"""The linear family against the papers' definitions, written out slowly, and against counts done by hand."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from lite_nlp.budget.closed_form.blocks import LINEAR_FORMULAS
from lite_nlp.config.kinds import LINEAR_KINDS, LinearSpec
from lite_nlp.core.errors import ModelError
from lite_nlp.models.linear import (
    LINEAR_BUILDERS,
    LowRankLinear,
    QuaternionLinear,
    R2D2Linear,
    build_linear,
)
from lite_nlp.models.roles import Role

MEMBERS: dict[str, dict[str, Any]] = {
    "dense": {"kind": "dense"},
    "r2d2-1": {"kind": "r2d2", "n": 1},
    "r2d2-2": {"kind": "r2d2", "n": 2},
    "r2d2-4": {"kind": "r2d2", "n": 4},
    "quaternion": {"kind": "quaternion"},
    "low-rank": {"kind": "low-rank", "rank": 3},
}

# The blocks of the R2D2 paper's equation 2.7: with them the layer is the Hamilton product.
HAMILTON = torch.tensor(
    [
        [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]],
        [[0, -1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, -1, 0]],
        [[0, 0, -1, 0], [0, 0, 0, -1], [1, 0, 0, 0], [0, 1, 0, 0]],
        [[0, 0, 0, -1], [0, 0, 1, 0], [0, -1, 0, 0], [1, 0, 0, 0]],
    ],
    dtype=torch.float32,
)


@pytest.fixture(params=MEMBERS)
def member(request: pytest.FixtureRequest) -> dict[str, Any]:
    return MEMBERS[request.param]


def _random(in_features: int, out_features: int, **options: Any) -> nn.Module:
    """A layer whose bias is not zero."""
    torch.manual_seed(3)
    layer = build_linear(in_features, out_features, LinearSpec(**options), role=Role.FFN_UP)
    for parameter in layer.parameters():
        nn.init.normal_(parameter)
    return layer


def _weights_by_the_paper(layer: R2D2Linear) -> torch.Tensor:
    """Equations 2.3 and 2.4, block by block: psi flattens A_i S_j row by row into one column of H."""
    columns = []
    for a_i in layer.diffusion:
        for j in range(layer.in_features // layer.n):
            s_j = layer.components[:, :, j]
            columns.append((a_i @ s_j).flatten())
    return torch.stack(columns, dim=1)


@pytest.mark.parametrize(("d", "k", "n"), [(8, 6, 2), (8, 8, 4), (9, 15, 3), (10, 5, 5), (6, 4, 1)])
def test_r2d2_weight_is_that_of_the_equations(d: int, k: int, n: int) -> None:
    layer = _random(d, k, kind="r2d2", n=n)
    expected = _weights_by_the_paper(layer)
    torch.testing.assert_close(layer.build_weight(), expected)
    kronecker = sum(torch.kron(layer.diffusion[:, :, m].T.contiguous(), layer.components[m]) for m in range(n))
    torch.testing.assert_close(layer.build_weight(), kronecker)


@pytest.mark.parametrize(("d", "k", "n"), [(8, 6, 2), (6, 8, 2), (16, 16, 4), (9, 15, 3), (15, 9, 3)])
def test_both_orders_of_evaluation_agree(d: int, k: int, n: int) -> None:
    layer = _random(d, k, kind="r2d2", n=n)
    x = torch.randn(2, 3, d)
    torch.testing.assert_close(layer.apply_factors(x), x @ layer.build_weight().T)


@pytest.mark.parametrize("rows", [0, 1, 100])
def test_any_number_of_rows(rows: int, member: dict[str, Any]) -> None:
    layer = build_linear(12, 8, LinearSpec(**member), role=Role.FFN_UP)
    assert layer(torch.randn(rows, 12)).shape == (rows, 8)


@pytest.mark.parametrize(
    ("d", "k", "n", "rows", "macs"),
    [
        # Built: n k d + rows k d. Factors: rows (k d + n^2 min(d, k)). They are even at rows = max(d, k) / n.
        (64, 32, 4, 1, 2048 + 16 * 32),
        (32, 64, 4, 1, 2048 + 16 * 32),
        (64, 32, 4, 15, 15 * (2048 + 16 * 32)),
        (64, 32, 4, 17, 4 * 2048 + 17 * 2048),
        (32, 64, 4, 17, 4 * 2048 + 17 * 2048),
        (64, 32, 4, 500, 4 * 2048 + 500 * 2048),
        (64, 64, 1, 64, 64 * 64 + 64 * 64 * 64),
    ],
)
def test_training_takes_the_cheaper_order(d: int, k: int, n: int, rows: int, macs: int) -> None:
    layer = R2D2Linear(d, k, n=n)
    with FlopCounterMode(display=False) as counter:
        layer(torch.randn(rows, d))
    assert counter.get_total_flops() == 2 * macs


def test_a_frozen_layer_costs_what_a_dense_one_does() -> None:
    for layer in (R2D2Linear(64, 32, n=4).eval(), QuaternionLinear(64, 32).eval()):
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            layer(torch.randn(3, 64))
        assert counter.get_total_flops() == 2 * 3 * 64 * 32


def test_with_one_factor_r2d2_is_dense() -> None:
    layer = R2D2Linear(6, 4, n=1)
    dense = nn.Linear(6, 4)
    with torch.no_grad():
        layer.bias.copy_(dense.bias)
        layer.diffusion.fill_(1.0)
        layer.components[0].copy_(dense.weight)
    x = torch.randn(5, 6)
    torch.testing.assert_close(layer(x), dense(x))


def test_with_the_hamilton_matrices_r2d2_is_quaternion() -> None:
    quaternion = _random(12, 8, kind="quaternion")
    layer = R2D2Linear(12, 8, n=4)
    with torch.no_grad():
        layer.diffusion.copy_(HAMILTON)
        layer.components.copy_(quaternion.components)
        layer.bias.copy_(quaternion.bias)
    x = torch.randn(5, 12)
    torch.testing.assert_close(layer(x), quaternion(x))


def test_quaternion_multiplies_by_the_rules_of_i_j_k() -> None:
    # unit a times unit b = sign * unit c, from i i = j j = k k = i j k = -1.
    product = {
        ("1", "1"): (1, "1"), ("1", "i"): (1, "i"), ("1", "j"): (1, "j"), ("1", "k"): (1, "k"),
        ("i", "1"): (1, "i"), ("i", "i"): (-1, "1"), ("i", "j"): (1, "k"), ("i", "k"): (-1, "j"),
        ("j", "1"): (1, "j"), ("j", "i"): (-1, "k"), ("j", "j"): (-1, "1"), ("j", "k"): (1, "i"),
        ("k", "1"): (1, "k"), ("k", "i"): (1, "j"), ("k", "j"): (-1, "i"), ("k", "k"): (-1, "1"),
    }  # fmt: skip
    layer = QuaternionLinear(4, 4, bias=False)
    nn.init.normal_(layer.components)
    q = torch.randn(4)
    expected = torch.zeros(4)
    for (a, b), (sign, c) in product.items():
        expected["1ijk".index(c)] += sign * layer.components["1ijk".index(a), 0, 0].detach() * q["1ijk".index(b)]
    torch.testing.assert_close(layer(q), expected)


def test_low_rank_is_a_product_of_two() -> None:
    layer = _random(6, 8, kind="low-rank", rank=3)
    x = torch.randn(2, 5, 6)
    torch.testing.assert_close(layer(x), F.linear(x, layer.up_proj.weight @ layer.down_proj.weight, layer.bias))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"kind": "dense"}, 48),
        ({"kind": "r2d2", "n": 2}, 32),  # figure 1 of the paper: 8 -> 6 features, 2^3 + 48 / 2
        ({"kind": "low-rank", "rank": 2}, 28),
    ],
)
def test_parameters_of_figure_1(options: dict[str, Any], expected: int) -> None:
    layer = build_linear(8, 6, LinearSpec(**options), role=Role.FFN_UP, bias=False)
    assert sum(parameter.numel() for parameter in layer.parameters()) == expected


def test_a_quaternion_layer_has_a_quarter_of_the_weights() -> None:
    layer = build_linear(512, 2048, LinearSpec(kind="quaternion"), role=Role.FFN_UP)
    assert sum(parameter.numel() for parameter in layer.parameters()) == 512 * 2048 // 4 + 2048


def test_frozen_equals_unfrozen(member: dict[str, Any]) -> None:
    layer = _random(12, 8, **member)
    x = torch.randn(3, 40, 12)
    trained = layer.train()(x)
    layer.eval()
    with torch.no_grad():
        torch.testing.assert_close(layer(x), trained)
    torch.testing.assert_close(layer(x), trained)  # with gradients
    with torch.inference_mode():
        torch.testing.assert_close(layer.train().eval()(x), trained)


def _double(layer: nn.Module) -> None:
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.mul_(2.0)


def _step(layer: nn.Module) -> None:
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    layer(torch.ones(2, 12)).square().sum().backward()
    optimizer.step()


def _replace_data(layer: nn.Module) -> None:
    for parameter in layer.parameters():
        parameter.data = parameter.data + 1.0


def _replace_parameters(layer: nn.Module) -> None:
    for name, parameter in list(layer.named_parameters()):
        owner = layer.get_submodule(name.rpartition(".")[0])
        setattr(owner, name.rpartition(".")[2], nn.Parameter(parameter.detach() - 1.0))


def _load(layer: nn.Module) -> None:
    layer.load_state_dict({name: torch.randn_like(value) for name, value in layer.state_dict().items()})


def _load_assigning(layer: nn.Module) -> None:
    layer.load_state_dict({name: torch.randn_like(value) for name, value in layer.state_dict().items()}, assign=True)


def _to_bf16_and_back(layer: nn.Module) -> None:
    layer.bfloat16().float()


CHANGES = [_double, _step, _replace_data, _replace_parameters, _load, _load_assigning, _to_bf16_and_back]


@pytest.mark.parametrize("change", CHANGES)
def test_a_frozen_weight_never_goes_stale(change: Any, member: dict[str, Any]) -> None:
    layer = _random(12, 8, **member).eval()
    x = torch.randn(5, 12)
    with torch.no_grad():
        before = layer(x)
    change(layer)
    assert not layer.training
    with torch.no_grad():
        found = layer(x)
        fresh = build_linear(12, 8, LinearSpec(**member), role=Role.FFN_UP)
        fresh.load_state_dict(layer.state_dict())
        # Values of a hundred and more, summed in another order on some processors.
        torch.testing.assert_close(found, fresh(x), rtol=1e-4, atol=1e-3)
        assert not torch.equal(found, before)


def test_state_dict_holds_the_factors_only() -> None:
    for layer in (R2D2Linear(8, 8, n=2), QuaternionLinear(8, 8)):
        names = list(layer.state_dict())
        assert list(layer.eval().state_dict()) == names
        assert sum(value.numel() for value in layer.state_dict().values()) < 8 * 8 + 8


def test_a_traced_layer_is_one_product() -> None:
    layer = _random(12, 8, kind="r2d2", n=4).eval()
    x = torch.randn(3, 12)
    program = torch.export.export(layer, (x,), dynamic_shapes=({0: torch.export.Dim("rows", min=1, max=64)},))
    calls = [node.target for node in program.graph.nodes if node.op == "call_function"]
    assert calls == [torch.ops.aten.linear.default]
    many = torch.randn(50, 12)
    torch.testing.assert_close(program.module()(many), layer(many))


def test_gradients_reach_every_parameter(member: dict[str, Any]) -> None:
    for rows in (1, 100):  # both orders of evaluation
        for mode in (True, False):
            layer = _random(12, 8, **member).train(mode)
            layer(torch.randn(rows, 12)).square().sum().backward()
            for name, parameter in layer.named_parameters():
                assert parameter.grad is not None, name
                assert parameter.grad.abs().max() > 0, name


def test_gradients_of_both_orders_agree() -> None:
    layer = _random(12, 8, kind="r2d2", n=4).double()
    x = torch.randn(5, 12, dtype=torch.float64)
    orders = (layer.apply_factors(x), x @ layer.build_weight().T)
    gradients = [torch.autograd.grad(y.square().sum(), [layer.diffusion, layer.components]) for y in orders]
    torch.testing.assert_close(*gradients)


def test_a_bf16_step_stays_finite(member: dict[str, Any]) -> None:
    layer = _random(12, 8, **member)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = layer(torch.randn(7, 12)).float().square().sum()
    loss.backward()
    assert torch.isfinite(loss)
    assert all(torch.isfinite(parameter.grad).all() for parameter in layer.parameters())


def test_a_weight_kept_within_autocast_serves_outside_it(member: dict[str, Any]) -> None:
    layer = _random(12, 8, **member)
    x = torch.randn(4, 12)
    expected = layer(x).detach()
    with torch.no_grad():
        with torch.autocast("cpu", dtype=torch.bfloat16):
            layer.eval()(x)
        torch.testing.assert_close(layer(x), expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "r2d2", "n": 5}, "R2D2 layer of 12 -> 10 features: expected n to divide both, found 5"),
        ({"kind": "r2d2", "n": 0}, "R2D2 layer of 12 -> 10 features: expected n to divide both, found 0"),
        ({"kind": "quaternion"}, "quaternion layer: expected multiples of 4, found 12 -> 10 features"),
        ({"kind": "low-rank", "rank": 11}, r"expected a rank within 1\.\.10, found 11"),
        ({"kind": "low-rank"}, r"expected a rank within 1\.\.10, found 0"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build_linear(12, 10, LinearSpec(**options), role=Role.FFN_UP)


def test_the_low_rank_layers_bias_is_the_outputs() -> None:
    layer = LowRankLinear(4, 6, rank=2)
    assert layer.bias is layer.up_proj.bias
    assert LowRankLinear(4, 6, rank=2, bias=False).bias is None


def test_every_kind_has_all_of_its_parts() -> None:
    assert set(LINEAR_KINDS) == set(LINEAR_BUILDERS) == set(LINEAR_FORMULAS)


def test_a_kind_without_a_constructor_is_refused() -> None:
    expected = "linear kind: expected one of dense, r2d2, quaternion, low-rank, found 'circulant'"
    with pytest.raises(ModelError, match=expected):
        build_linear(4, 4, LinearSpec(kind="circulant"), role=Role.FFN_UP)
