"""Every formula against counts worked out by hand; sizes are small primes, so that no two of them can be confused."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from lite_nlp.budget.traced.counter import count_work
from lite_nlp.budget.traced.operators import FORMULAS, FREE
from lite_nlp.core.errors import CountError, UnknownOperatorError


def _kinds(function: Callable[..., Any], *shapes: tuple[int, ...]) -> dict[str, int]:
    work = count_work(function, *(torch.empty(shape) for shape in shapes))
    return {kind: macs for kind, macs in work.by_kind().items() if macs}


@pytest.mark.parametrize(
    ("function", "shapes", "macs"),
    [
        (torch.mm, [(2, 3), (3, 5)], 2 * 3 * 5),
        (torch.bmm, [(7, 2, 3), (7, 3, 5)], 7 * 2 * 3 * 5),
        (torch.mv, [(2, 3), (3,)], 2 * 3),
        (torch.dot, [(3,), (3,)], 3),
        (torch.vdot, [(3,), (3,)], 3),
        (torch.addmm, [(5,), (2, 3), (3, 5)], 2 * 3 * 5),
        (torch.addmv, [(2,), (2, 3), (3,)], 2 * 3),
        (torch.addr, [(2, 3), (2,), (3,)], 2 * 3),
        (torch.baddbmm, [(7, 2, 5), (7, 2, 3), (7, 3, 5)], 7 * 2 * 3 * 5),
        # The seven products are summed into one.
        (torch.addbmm, [(2, 5), (7, 2, 3), (7, 3, 5)], 7 * 2 * 3 * 5),
        (torch.matmul, [(3,), (3, 5)], 3 * 5),
        (torch.matmul, [(7, 2, 3), (3, 5)], 7 * 2 * 3 * 5),
        (torch.matmul, [(11, 1, 2, 3), (7, 3, 5)], 11 * 7 * 2 * 3 * 5),
        (F.linear, [(7, 2, 3), (5, 3), (5,)], 7 * 2 * 3 * 5),
        (F.bilinear, [(2, 3), (2, 5), (7, 3, 5)], 2 * 7 * (3 * 5 + 5)),
        (lambda x: x.mm(x.T), [(2, 3)], 2 * 3 * 2),
        (lambda x, y: torch.empty(2, 5).addmm_(x, y), [(2, 3), (3, 5)], 2 * 3 * 5),
        (lambda x, y: torch.einsum("bthc,ck->bthk", x, y), [(2, 3, 5, 7), (7, 11)], 2 * 3 * 5 * 7 * 11),
        (lambda x, y: torch.einsum("btc,bsc->bts", x, y), [(2, 3, 5), (2, 7, 5)], 2 * 3 * 7 * 5),
        (lambda x, y: torch.tensordot(x, y, dims=2), [(2, 3, 5), (3, 5, 7)], 2 * 3 * 5 * 7),
    ],
)
def test_matrix_products(function: Callable[..., Any], shapes: list[tuple[int, ...]], macs: int) -> None:
    assert _kinds(function, *shapes) == {"matmul": macs}


@pytest.mark.parametrize(
    ("module", "shape", "macs"),
    [
        # Output tokens x output channels x input channels per group x taps.
        (nn.Conv1d(4, 6, 3), (2, 4, 9), 2 * 7 * 6 * 4 * 3),
        (nn.Conv1d(4, 6, 3, padding=1), (2, 4, 9), 2 * 9 * 6 * 4 * 3),
        (nn.Conv1d(4, 6, 3, stride=2), (2, 4, 9), 2 * 4 * 6 * 4 * 3),
        (nn.Conv1d(4, 6, 3, dilation=2), (2, 4, 9), 2 * 5 * 6 * 4 * 3),
        (nn.Conv1d(4, 6, 3, groups=2), (2, 4, 9), 2 * 7 * 6 * 2 * 3),
        (nn.Conv1d(6, 6, 3, groups=6, padding=1), (2, 6, 9), 2 * 9 * 6 * 3),
        (nn.Conv1d(4, 6, 3), (4, 9), 7 * 6 * 4 * 3),
        (nn.Conv2d(4, 6, (3, 5)), (2, 4, 9, 11), 2 * 7 * 7 * 6 * 4 * 15),
        # Transposed: input tokens x input channels x output channels per group x taps.
        (nn.ConvTranspose1d(4, 6, 3), (2, 4, 9), 2 * 9 * 4 * 6 * 3),
        (nn.ConvTranspose1d(4, 6, 3, stride=2, groups=2), (2, 4, 9), 2 * 9 * 4 * 3 * 3),
    ],
)
def test_convolutions(module: nn.Module, shape: tuple[int, ...], macs: int) -> None:
    assert _kinds(module, shape) == {"convolution": macs}


def test_convolution_over_time_in_the_first_axis() -> None:
    assert _kinds(torch.conv_tbc, (9, 2, 4), (3, 4, 6), (6,)) == {"convolution": 7 * 2 * 4 * 6 * 3}


def test_marks_for_a_profiler_are_free() -> None:
    def marked(x: Tensor) -> Tensor:
        with torch.profiler.record_function("product"):
            return x @ x

    assert _kinds(marked, (3, 3)) == {"matmul": 3 * 3 * 3}


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_embeddings_are_look_ups(mode: str) -> None:
    bag = nn.EmbeddingBag(11, 5, mode=mode)
    assert count_work(bag, torch.zeros(2, 3, dtype=torch.int64)).total == 0
    assert count_work(bag, torch.zeros(7, dtype=torch.int64), torch.zeros(2, dtype=torch.int64)).total == 0


@pytest.mark.parametrize("trained", [True, False])
def test_bags_of_embeddings_with_weights_multiply_each_row(trained: bool) -> None:
    bag = nn.EmbeddingBag(11, 5, mode="sum").requires_grad_(trained)
    work = count_work(bag, torch.zeros(2, 3, dtype=torch.int64), per_sample_weights=torch.zeros(2, 3))
    assert work.by_kind()["contraction"] == work.total == 2 * 3 * 5


@pytest.mark.parametrize("backend", [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH])
def test_fused_attention_is_two_products_whatever_runs_it(backend: SDPBackend) -> None:
    with sdpa_kernel(backend):
        kinds = _kinds(F.scaled_dot_product_attention, (2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 8))
    assert kinds == {"matmul": 2 * 3 * 5 * 7 * (8 + 8)}


def test_fused_attention_with_narrower_values() -> None:
    kinds = _kinds(F.scaled_dot_product_attention, (2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 4))
    assert kinds == {"matmul": 2 * 3 * 5 * 7 * (8 + 4)}


def test_a_mask_does_not_make_attention_cheaper() -> None:
    causal = count_work(lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True), torch.empty(2, 3, 5, 8))
    assert causal.by_kind()["matmul"] == 2 * 2 * 3 * 5 * 5 * 8


def test_each_query_head_counts_where_keys_are_shared() -> None:
    def grouped(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(query, key, value, enable_gqa=True)

    assert _kinds(grouped, (2, 6, 5, 8), (2, 3, 7, 8), (2, 3, 7, 8)) == {"matmul": 2 * 2 * 6 * 5 * 7 * 8}


#: Two sentences of 5 tokens and 8 channels: four projections, and the attention.
BLOCK = 2 * (4 * 5 * 8 * 8 + 2 * 5 * 5 * 8)


def test_attention_block_as_one_operator() -> None:
    module = nn.MultiheadAttention(8, 2, batch_first=True)

    def fused(x: Tensor) -> Any:
        out = module.out_proj
        weights = module.in_proj_weight, module.in_proj_bias, out.weight, out.bias
        return torch._native_multi_head_attention(x, x, x, 8, 2, *weights)

    assert _kinds(fused, (2, 5, 8)) == {"matmul": BLOCK}


def test_attention_block_over_another_sequence() -> None:
    module = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    # Queries and output over 5 tokens, keys and values over 7.
    expected = 2 * (2 * (5 + 7) * 8 * 8 + 2 * 5 * 7 * 8)
    assert _kinds(module, (2, 5, 8), (2, 7, 8), (2, 7, 8)) == {"matmul": expected}


def test_encoder_layer_as_one_operator() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 12, batch_first=True)
    attention, norms = layer.self_attn, (layer.norm1, layer.norm2)

    def fused(x: Tensor) -> Any:
        return torch._transformer_encoder_layer_fwd(
            x,
            8,
            2,
            attention.in_proj_weight,
            attention.in_proj_bias,
            attention.out_proj.weight,
            attention.out_proj.bias,
            False,
            False,
            1e-5,
            *(tensor for norm in norms for tensor in (norm.weight, norm.bias)),
            *(tensor for linear in (layer.linear1, layer.linear2) for tensor in (linear.weight, linear.bias)),
        )

    assert _kinds(fused, (2, 5, 8)) == {"matmul": BLOCK + 2 * 2 * 5 * 8 * 12, "layer_norm": 2 * 2 * 5 * 8}


@pytest.mark.parametrize(
    ("module", "macs"),
    [
        # Per token: gates x (inputs + hidden) x hidden; 3 tokens in 2 sentences.
        (nn.LSTM(4, 6), 6 * 4 * (4 + 6) * 6),
        (nn.GRU(4, 6), 6 * 3 * (4 + 6) * 6),
        (nn.RNN(4, 6), 6 * (4 + 6) * 6),
        # Both directions of both layers, the second one over both directions' outputs.
        (nn.LSTM(4, 6, num_layers=2, bidirectional=True), 6 * 4 * 2 * ((4 + 6) * 6 + (12 + 6) * 6)),
    ],
)
def test_recurrent_layers(module: nn.Module, macs: int) -> None:
    assert _kinds(module, (3, 2, 4)) == {"matmul": macs}


def test_recurrent_cell() -> None:
    assert _kinds(nn.LSTMCell(4, 6), (2, 4)) == {"matmul": 2 * 4 * (4 + 6) * 6}


@pytest.mark.parametrize(
    ("module", "kind"),
    [
        *((module, "layer_norm") for module in (nn.LayerNorm(6), nn.RMSNorm(6), nn.GroupNorm(5, 5))),
        *((module, "batch_norm") for module in (nn.BatchNorm1d(5), nn.InstanceNorm1d(5))),
    ],
)
@pytest.mark.parametrize("training", [True, False])
def test_norms_count_their_elements_in_their_own_column(module: nn.Module, kind: str, training: bool) -> None:
    work = count_work(module.train(training), torch.empty(2, 5, 6))
    assert {name: macs for name, macs in work.by_kind().items() if macs} == {kind: 2 * 5 * 6}
    assert (work.macs, work.total) == (0, 2 * 5 * 6)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.softmax(dim=-1).log() + F.gelu(x) - F.silu(x).exp() / x.sqrt(),
        lambda x: F.log_softmax(x, dim=-1).topk(2).values.sort().values.cumsum(dim=0),
        lambda x: F.glu(x).relu_().masked_fill_(F.glu(x) > 0, 1.0),
        lambda x: torch.cat([x, x.flip(0), torch.roll(x, 1)]).reshape(-1, 2).T.contiguous().unfold(0, 2, 1),
        lambda x: F.pad(x, (1, 1)).tril().gather(1, torch.zeros(2, 3, dtype=torch.int64)),
        lambda x: F.embedding(torch.zeros(7, dtype=torch.int64), x),
        lambda x: F.dropout(x, 0.5, training=True) + torch.rand_like(x) * 2 - x * torch.tensor(0.5),
        lambda x: (x.var() + x.norm() + x.amax() + x.prod() + x.logsumexp(dim=(0, 1)), x.argmax(), x.std(dim=0)),
        lambda x: F.cross_entropy(x, torch.zeros(3, dtype=torch.int64)) + F.mse_loss(x, x) + F.smooth_l1_loss(x, x),
        lambda x: F.avg_pool1d(x, 2) + F.max_pool1d(x, 2) + F.interpolate(x[None], scale_factor=0.5)[0],
        lambda x: torch.where(x > 0, x, -x).clamp(0, 1).to(torch.bfloat16).chunk(2, dim=-1),
    ],
)
def test_what_multiplies_nothing_counts_nothing(function: Callable[..., Any]) -> None:
    assert count_work(function, torch.empty(3, 4)).entries == ()


def test_a_custom_operator_is_refused_by_name_module_and_line() -> None:
    @torch.library.custom_op("lite_nlp_tests::mixing", mutates_args=())
    def mixing(x: Tensor) -> Tensor:
        return x.clone()

    mixing.register_fake(torch.empty_like)

    class Inner(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.ops.lite_nlp_tests.mixing(x)

    with pytest.raises(
        UnknownOperatorError,
        match=r"^operator lite_nlp_tests\.mixing in module 1 at .*test_operators\.py:\d+: "
        r"expected one whose Mult-Adds are known, found no formula for it \(.*register_operator gives it one\)$",
    ):
        count_work(nn.Sequential(nn.Linear(2, 2), Inner()), torch.empty(1, 2))


def test_a_custom_operator_cannot_declare_itself_free() -> None:
    torch.library.define("lite_nlp_tests::sly", "(Tensor x) -> Tensor", tags=(torch.Tag.pointwise,))
    torch.library.impl("lite_nlp_tests::sly", "CompositeExplicitAutograd", func=torch.clone)
    with pytest.raises(UnknownOperatorError, match=r"operator lite_nlp_tests\.sly"):
        count_work(torch.ops.lite_nlp_tests.sly, torch.empty(1, 2))


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (torch.fft.fft, "aten._fft_r2c"),
        (lambda x: torch.cdist(x, x), "aten._cdist_forward"),
        (torch.linalg.inv, "aten.linalg_inv_ex"),
        (lambda x: torch.view_as_complex(x.view(4, 2, 2)) @ torch.eye(2) * 1j, "aten.mm of complex numbers"),
        (lambda x: torch.cond(torch.tensor(True), torch.sin, torch.cos, (x,)), "cond"),
        (lambda x: torch.grid_sampler_2d(x[None, None], x.view(1, 4, 2, 2), 0, 0, True), "aten.grid_sampler_2d"),
    ],
)
def test_arithmetic_without_a_formula_is_refused(function: Callable[..., Any], name: str) -> None:
    with pytest.raises(UnknownOperatorError, match=rf"operator {name} at .*test_operators\.py:\d+: "):
        count_work(function, torch.empty(4, 4))


def test_branches_can_be_exported_after_they_were_counted() -> None:
    class Branches(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))

    with pytest.raises(UnknownOperatorError, match="operator cond"):
        count_work(Branches(), torch.empty(4, 4))
    program = torch.export.export(Branches(), (torch.ones(4, 4),))
    torch.testing.assert_close(program.module()(torch.ones(4, 4)), torch.ones(4, 4).sin())


def test_course_that_depends_on_numbers_is_refused() -> None:
    class Halting(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x if x.sum() > 0 else -x

    with pytest.raises(CountError, match=r"_local_scalar_dense at .*test_operators\.py:\d+: expected code that runs"):
        count_work(Halting(), torch.empty(2, 2))
    with pytest.raises(CountError, match="found a result that depends on them"):
        count_work(lambda x: x[x > 0], torch.empty(2, 2))
    with pytest.raises(CountError, match=r"expected a dense one, found layout torch\.sparse_coo"):
        count_work(torch.sin, torch.empty(2, 2).to_sparse())


def test_an_operator_that_only_runs_on_numbers_is_refused() -> None:
    with pytest.raises(CountError, match="expected one that runs without numbers, found one whose result's shape"):
        count_work(lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127), torch.empty(2, 2))


def test_every_name_in_the_tables_is_an_operator_of_torch() -> None:
    names = [*FORMULAS, *(name for group in FREE.values() for name in group)]

    def exists(name: str) -> bool:
        library, _, operator = name.partition(".")
        # Some only write in place.
        return any(hasattr(getattr(torch.ops, library), variant) for variant in (operator, f"{operator}_"))

    assert [name for name in names if not exists(name)] == []
    assert len(names) == len(set(names))


def test_quantizers_are_free_and_quantized_products_are_not() -> None:
    import torch.ao.quantization.fx._decomposed

    def rounded(x: Tensor) -> Tensor:
        codes = torch.ops.quantized_decomposed.quantize_per_tensor(x, 0.1, 0, -128, 127, torch.int8)
        return torch.ops.quantized_decomposed.dequantize_per_tensor(codes, 0.1, 0, -128, 127, torch.int8)

    assert count_work(rounded, torch.empty(2, 3)).entries == ()
    left, right = torch.empty(32, 16, dtype=torch.int8), torch.empty(16, 8, dtype=torch.int8)
    assert count_work(torch._int_mm, left, right).macs == 32 * 16 * 8
