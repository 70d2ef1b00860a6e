"""The cases of benchmarks/counters, which trip up one counter or another; the integers are worked out by hand.

T = 30 tokens, C = 128 channels, H = 4 heads, K = 7 taps, V = 1000 words, F = 256 channels inside the FFN. The blocks of
this project's families come last; their sizes are in blocks.py.
"""

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from lite_nlp.budget.traced.counter import count_parameters, count_work

BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "counters"

#: Name, matrix products, convolutions, contractions, layer norms.
EXPECTED = [
    # 2 T^2 C = 2 x 900 x 128.
    ("F.scaled_dot_product_attention", 230_400, 0, 0, 0),
    ("attention with @", 230_400, 0, 0, 0),
    ("attention with einsum", 230_400, 0, 0, 0),
    ("attention with torch.matmul", 230_400, 0, 0, 0),
    # T C K = 30 x 128 x 7.
    ("LightConv: unfold, einsum", 26_880, 0, 0, 0),
    ("LightConv: unfold, multiply, sum", 0, 0, 26_880, 0),
    ("LightConv: depthwise F.conv1d", 0, 26_880, 0, 0),
    # Kernels T C H K = 107,520, taps 26,880.
    ("DynamicConv with einsum", 134_400, 0, 0, 0),
    # 4 T C^2 = 1,966,080 and the attention.
    ("nn.MultiheadAttention", 2_196_480, 0, 0, 0),
    # The same and 2 T C F = 1,966,080; two norms of T C.
    ("nn.TransformerEncoderLayer", 4_162_560, 0, 0, 7_680),
    # T C^2 = 491,520, once and three times.
    ("Linear with 3 parents, called once", 491_520, 0, 0, 0),
    ("Linear called 3 times in a loop", 1_474_560, 0, 0, 0),
    # T C V = 30 x 128 x 1000.
    ("tied output head through F.linear", 3_840_000, 0, 0, 0),
    ("tied output head as a module", 3_840_000, 0, 0, 0),
    # T C^2 in the encoder; 4 T C^2 + T C V over the steps; attention 2 C (1 + ... + 30) = 2 x 128 x 465 = 119,040.
    ("encoder and cached decode loop", 6_416_640, 0, 0, 0),
    # Attention on 64 channels 606,720; convolution 245,760 + 53,760 + bands 57,600 + 122,880; feed-forward 983,040.
    ("LSRA encoder layer", 2_069_760, 0, 0, 2 * 3_840),
    # SAFE 606,720 + 368,640; outer layers 2 x 4,162,560; shared one 2 x 9,192,960; way up and down 2 x 737,280. Norms:
    # two in SAFE (64 and 128 channels), two in each layer, one after each projection (192 and 128 channels).
    ("Subformer encoder, SAFE and sandwich", 29_160_960, 0, 0, 30 * (64 + 128 + 4 * 128 + 4 * 192 + 192 + 128)),
    # Per token: projections 24,576 + 16,384, reading 1,024 + 32; update of the state 1,024.
    ("T2R attention, token by token", 1_260_480, 0, 30_720, 0),
    # Building the weight 4 x 128 x 128, applying it 30 x 128 x 128.
    ("R2D2 Linear, weight built in the call", 557_056, 0, 0, 0),
]


def _load(name: str) -> ModuleType:
    sys.path.insert(0, str(BENCHMARK))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(BENCHMARK))


CASES = {case.name: case for case in (*_load("cases").CASES, *_load("blocks").BLOCKS)}


def test_every_case_is_tested() -> None:
    assert [name for name, *_ in EXPECTED] == list(CASES)


@pytest.mark.parametrize(("name", "matmul", "convolution", "contraction", "layer_norm"), EXPECTED)
def test_case_counts_as_derived_by_hand(
    name: str, matmul: int, convolution: int, contraction: int, layer_norm: int
) -> None:
    module, inputs = CASES[name].build()
    work = count_work(module, *inputs)
    assert work.by_kind() == {
        "matmul": matmul,
        "convolution": convolution,
        "contraction": contraction,
        "layer_norm": layer_norm,
        "batch_norm": 0,
    }
    assert CASES[name].macs == matmul + convolution + contraction


def test_a_linear_with_three_parents_has_its_parameters_once() -> None:
    module, _ = CASES["Linear with 3 parents, called once"].build()
    assert count_parameters(module).total == 128 * 128 + 128
    assert count_parameters(module).by_module == {"first.linear": 128 * 128 + 128}


def test_a_tied_table_is_counted_once() -> None:
    module, _ = CASES["tied output head as a module"].build()
    assert count_parameters(module).total == 1000 * 128


@pytest.mark.parametrize("name", [name for name, *_ in EXPECTED])
def test_counting_leaves_module_and_inputs_as_they_were(name: str) -> None:
    torch.manual_seed(0)
    module, inputs = CASES[name].build()
    before = module(*inputs)
    count_work(module, *inputs)
    assert torch.equal(module(*inputs), before)


def test_the_benchmark_shows_a_one_for_the_exact_count_only() -> None:
    run = _load("run")
    ours = run.measure("lite-nlp")
    assert ours == {case.name: case.macs for case in CASES.values()}
    *_, last, exact, near = run.table(
        {"ours": ours, "peer": {**ours, "F.scaled_dot_product_attention": 230_401.0}}
    ).splitlines()
    assert last == "| R2D2 Linear, weight built in the call | 557,056 | 1 | 1 |"
    assert exact == "| exact | | 19 of 19 | 18 of 19 |"
    assert near == "| within 2 % | | 19 of 19 | 19 of 19 |"
    assert [run.ratio(reported, 200) for reported in (200, 200.5, 0, 96, "ValueError")] == [
        "1",
        "~1",
        "0",
        "0.48",
        "error",
    ]
