import dataclasses
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from lite_nlp.artifacts.fused_decoder import FusedDecoder
from lite_nlp.budget.traced.counter import count_work
from lite_nlp.budget.traced.graphs import GraphWork, Polynomial
from lite_nlp.budget.traced.reconciliation import reconcile
from lite_nlp.config.model import EncoderDecoderConfig
from lite_nlp.core.errors import UnknownOperatorError
from lite_nlp.export.counting.onnx_search import count_beam_work, count_search_work
from lite_nlp.export.counting.onnx_walk import count_onnx_work
from lite_nlp.export.counting.torch_programs import (
    count_merged_work,
    count_model_work,
    count_program_work,
)
from lite_nlp.export.counting.torch_walk import count_program
from lite_nlp.export.executorch_edge import make_edge_program
from lite_nlp.export.executorch_rewriting import prepare_program
from lite_nlp.export.onnx_graphs import convert_model, export_onnx
from lite_nlp.export.runtime.layout import Bounds
from lite_nlp.export.runtime.quiet import quiet_libraries
from lite_nlp.export.tracing import TracedModel, trace_model
from lite_nlp.models.build import build_model
from tests.selection import select

FAMILIES = ["transformer", "lite-transformer-dynamic", "lite-transformer-lightweight", "lightconv"]


def _terms(work: GraphWork) -> dict[str, dict[str, str]]:
    return {
        graph: {kind: str(polynomial) for kind, polynomial in kinds.items() if polynomial}
        for graph, kinds in (("encode", work.encode), ("decode_step", work.decode_step))
    }


def test_the_model_by_hand(small) -> None:
    made = small("transformer")
    # D = 16, F = 24, V = 40; one layer each, pre-norm with a final one.
    encode = 4 * 16 * 16 + 2 * 16 * 24 + 2 * 16 * 16  # attention, feed-forward, keys and values of cross-attention
    step = 4 * 16 * 16 + 2 * 16 * 16 + 2 * 16 * 24 + 16 * 40  # attention, cross query and output, feed-forward, logits
    assert _terms(count_model_work(made.model, made.traced.state, made.traced.bounds)) == {
        "encode": {"matmul": f"{2 * 16} S^2 + {encode:,} S", "layer_norm": f"{3 * 16} S"},
        "decode_step": {"matmul": f"{2 * 16} S + {2 * 16} C + {step:,}", "layer_norm": f"{4 * 16}"},
    }


@pytest.mark.parametrize("name", FAMILIES)
def test_onnx_does_the_model_s_work(small, small_onnx, name: str) -> None:
    made, files = small(name), small_onnx(name)[0]
    bounds = made.traced.bounds
    work = count_onnx_work(encode=files.encode, decode_step=files.decode_step, bounds=bounds)
    assert work == count_model_work(made.model, made.traced.state, bounds)


def test_executorch_does_the_model_s_work(small, small_executorch) -> None:
    made = small("lite-transformer-dynamic")
    program = small_executorch("lite-transformer-dynamic")[0]
    assert program.work == count_model_work(made.model, made.traced.state, made.traced.bounds)


OPTIONS: dict[str, dict[str, Any]] = {
    "sandwich": {"family": "subformer", "sharing": "sandwich", "sandwich_dim": 24, "sandwich_ffn_dim": 40},
    "derived heads": {"family": "subformer", "sharing": "sandwich", "sandwich_heads": "width"},
    "safe": {"family": "subformer", "embedding": "safe", "embedding_dim": 8, "safe_dropout": True},
    "r2d2": {"family": "r2d2", "attention_linear": "r2d2", "ffn_linear": "quaternion", "linear_n": 4},
    "t2r": {"family": "t2r", "self_attention": "t2r", "cross_attention": "t2r"},
    "expanded": {"family": "t2r", "cross_attention": "elu", "attention_expansion": 2},
    "few heads": {"family": "transformer", "head_dim": 6, "cross_num_heads": 3, "cross_head_dim": 2},
    "random": {"family": "t2r", "self_attention": "random-features", "cross_attention": "random-features"},
}


def _build(**options: Any) -> nn.Module:
    sizes = {"self_feature_size": 6, "cross_feature_size": 4} if "self_attention" in options else {}
    layers = 3 if "sharing" in options else 1
    config = EncoderDecoderConfig(
        src_vocab_size=40,
        tgt_vocab_size=40,
        embed_dim=16,
        ffn_dim=24,
        num_encoder_layers=layers,
        num_decoder_layers=layers,
        num_heads=2,
        max_positions=32,
        **{**options, **sizes},
    )
    torch.manual_seed(5)
    return build_model(config).eval()


#: Options whose searches are counted every time, in as many ways to attend, share and multiply; and those whose graphs
#: are, in all ways but for two whose parts others have.
SEARCHED = ("sandwich", "r2d2", "t2r")
COUNTED = (*SEARCHED, "safe", "expanded", "few heads")


@cache
def _traced(name: str) -> tuple[nn.Module, TracedModel, GraphWork]:
    """A model with these options, its graphs, and the work that they are to do."""
    model, bounds = _build(**OPTIONS[name]), Bounds(source=9, capacity=10, executorch_batch=4)
    traced = trace_model(model, bounds)
    return model, traced, count_model_work(model, traced.state, bounds)


@pytest.mark.parametrize("name", select(OPTIONS, COUNTED))
def test_every_option_gives_graphs_that_do_the_model_s_work(name: str) -> None:
    _, traced, expected = _traced(name)
    with quiet_libraries():
        programs = {"encode": prepare_program(traced.encode), "decode_step": prepare_program(traced.decode_step)}
    # What ExecuTorch's lowering starts from; the lowering itself takes most of a minute.
    assert count_program_work(programs, traced.state, traced.bounds) == expected
    encode, decode_step = (graph.SerializeToString() for graph in convert_model(traced))
    assert count_onnx_work(encode=encode, decode_step=decode_step, bounds=traced.bounds) == expected


@pytest.mark.parametrize("name", select(OPTIONS, SEARCHED))
def test_every_option_gives_searches_that_do_the_model_s_work(name: str) -> None:
    model, traced, expected = _traced(name)
    files = export_onnx(traced, FusedDecoder(model))
    assert count_search_work(files.greedy, traced.bounds) == expected
    assert count_beam_work(files.beam, traced.bounds) == expected.decode_step


def test_shared_layers_project_the_source_once_in_onnx() -> None:
    model, bounds = _build(family="subformer", sharing="all"), Bounds(source=9, capacity=10, executorch_batch=4)
    traced = trace_model(model, bounds)
    encode, decode_step = (graph.SerializeToString() for graph in convert_model(traced))
    columns = {
        "torch": count_model_work(model, traced.state, bounds),
        "onnx": count_onnx_work(encode=encode, decode_step=decode_step, bounds=bounds),
    }
    # Three layers with the same weights: two of three projections to keys and values of 16 channels each.
    saved = columns["torch"].encode["matmul"] - columns["onnx"].encode["matmul"]
    assert saved == Polynomial(((2 * 2 * 16 * 16, 1, 0),))
    merged = count_merged_work(traced)
    assert merged == columns["onnx"]
    assert reconcile(columns, merged=merged).agrees
    assert not reconcile({**columns, "executorch": dataclasses.replace(merged, decode_step={})}, merged=merged).agrees


class _Repeats(nn.Module):
    """Multiplies by one matrix twice, and by another of the same size."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.ones(8, 8))
        self.second = nn.Parameter(torch.ones(8, 8))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([(x @ self.first).relu(), (x @ self.first).tanh(), x @ self.second, (x + 1) @ self.first])


def test_equal_computations_are_merged_and_no_others() -> None:
    x = torch.ones(4, 8)
    program = torch.export.export(_Repeats(), (x,))
    assert count_program(program, x).by_kind()["matmul"] == 4 * (4 * 8 * 8)
    assert count_program(program, x, merge_equal=True).by_kind()["matmul"] == 3 * (4 * 8 * 8)


class _Determinant(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.linalg.inv(x)


def test_an_operator_without_a_formula_is_named() -> None:
    x = torch.eye(3)
    program = torch.export.export(_Determinant(), (x,))
    with pytest.raises(UnknownOperatorError, match=r"aten\.linalg_inv"):
        count_program(program, x)


class _ByHand(nn.Module):
    """A contraction written by hand, of views, a product and a sum, beside products and a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4)
        self.output = nn.Linear(4, 6)

    def forward(self, x: Tensor) -> Tensor:
        rows = x.shape[0]
        outer = x.unsqueeze(1) * x.unsqueeze(0).exp()
        summed = outer.permute(1, 2, 0).sum(dim=2)
        return self.output(self.norm(summed)).reshape(rows * 2, 3) @ x.new_ones(3, rows) / rows


def _edge(module: nn.Module, x: Tensor, **options: Any) -> torch.export.ExportedProgram:
    with quiet_libraries(), torch.no_grad():
        from executorch.exir import EdgeCompileConfig

        config = EdgeCompileConfig(_check_ir_validity=False, _skip_dim_order=True)
        return make_edge_program(torch.export.export(module.eval(), (x,), **options).run_decompositions({}), config)


def test_a_lowered_program_is_counted_at_any_size_without_being_run() -> None:
    sizes = ({0: torch.export.Dim("rows", min=2, max=16)},)
    program = _edge(_ByHand(), torch.ones(5, 4), dynamic_shapes=sizes)
    for rows in (2, 3, 16):
        expected = count_work(_ByHand().eval(), torch.ones(rows, 4)).by_kind()
        assert expected["contraction"] == rows * rows * 4
        assert count_program(program, torch.ones(rows, 4)).by_kind() == expected


def test_an_operator_without_a_formula_is_named_in_a_lowered_program() -> None:
    program = _edge(_Determinant(), torch.eye(3))
    with pytest.raises(UnknownOperatorError, match=r"aten\.linalg_inv"):
        count_program(program, torch.eye(3))
