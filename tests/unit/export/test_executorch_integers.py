"""Integer weights of ExecuTorch's programs: what a graph becomes, and what the lowered program computes."""

from collections import Counter
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.export import ExportedProgram, export

from lite_nlp.decoding.torch_model import TorchStepModel
from lite_nlp.export.counting.torch_programs import count_model_work
from lite_nlp.export.executorch_lowering import lower_programs, write_program
from lite_nlp.export.executorch_program import ExecuTorchProgram, export_executorch
from lite_nlp.export.executorch_rewriting import prepare_program
from lite_nlp.export.matrices import Form, Rounding, array_digest
from lite_nlp.export.rounding import quantize_blocks
from lite_nlp.export.runtime.engine import Engine
from lite_nlp.export.runtime.executorch import ExecuTorchRunner
from lite_nlp.export.runtime.executorch_methods import LoadedProgram, execute
from lite_nlp.export.runtime.quiet import quiet_libraries
from lite_nlp.export.runtime.rounded import BLOCK
from lite_nlp.export.tracing import TracedModel, trace_model
from lite_nlp.models.transformer import EncoderDecoder
from tests.unit.export.conftest import BOUNDS, build_wide, describe

ATEN, QUANTIZED = torch.ops.aten, torch.ops.quantized_decomposed
TYPES, WIDTH = 70, 24


class Tied(nn.Module):
    """A table that is also the output, two products of one input, and a product of too few outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(TYPES, WIDTH)
        self.left, self.right = nn.Linear(WIDTH, 64), nn.Linear(WIDTH, 64, bias=False)
        self.narrow, self.back = nn.Linear(64, 63), nn.Linear(64, WIDTH, bias=False)
        self.wide = nn.Linear(63, 64)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.table(tokens)
        hidden = self.wide(self.narrow(self.left(x) + self.right(x)))
        return nn.functional.linear(self.back(hidden), self.table.weight)


@pytest.fixture(scope="module")
def tied() -> tuple[Tied, ExportedProgram, ExportedProgram]:
    """The module, its traced graph, and that of integers."""
    torch.manual_seed(0)
    module = Tied().eval()
    with quiet_libraries(), torch.no_grad():
        traced = export(module, (torch.tensor([3, 5]),), dynamic_shapes=({0: torch.export.Dim("rows", min=1, max=8)},))
        return module, traced, prepare_program(traced, rounding=Rounding(precision="int8"))


def operators(program: ExportedProgram) -> Counter[Any]:
    return Counter(node.target for node in program.graph.nodes if node.op == "call_function")


def test_products_and_tables_become_integers(tied: tuple[Tied, ExportedProgram, ExportedProgram]) -> None:
    module, traced, quantized = tied
    found = operators(quantized)
    # left, right, wide and the output; narrow and back have few outputs. One rounding serves left and right.
    assert found[QUANTIZED.dequantize_per_channel.default] == 4
    assert found[QUANTIZED.quantize_per_token.default] == 3
    assert found[ATEN.linear.default] == 6
    sizes = Counter(
        (tensor.dtype, tuple(tensor.shape)) for tensor in quantized.state_dict.values() if tensor.dim() == 2
    )
    int8, fp32 = torch.int8, torch.float32
    assert sizes == {
        (int8, (TYPES, WIDTH)): 1,
        (int8, (64, WIDTH)): 2,
        (int8, (64, 63)): 1,
        (fp32, (63, 64)): 1,
        (fp32, (WIDTH, 64)): 1,
        # The scales that tokens look up, stored in the shape of a table.
        (fp32, (TYPES, 1)): 1,
    }
    assert not [target for target in operators(traced) if "quantize" in str(target)]
    assert set(traced.state_dict) == set(module.state_dict())


def test_no_part_of_the_program_is_of_constants_alone(tied: tuple[Tied, ExportedProgram, ExportedProgram]) -> None:
    # The matrices of products are, but the products are beside them.
    for node in tied[2].graph.nodes:
        if node.op == "call_function" and node.target is not QUANTIZED.dequantize_per_channel.default:
            assert not all(
                one.op == "placeholder" and one.name in _constants(tied[2]) for one in node.all_input_nodes
            ), node


def _constants(program: ExportedProgram) -> set[str]:
    return set(program.graph_signature.inputs_to_buffers) | set(program.graph_signature.inputs_to_parameters)


def _rounded_weight(linear: nn.Module) -> NDArray[np.float64]:
    """Each row to multiples of a whole part of its largest magnitude, of which two neighbours have up to 127."""
    rows = []
    for row in linear.weight.detach().double().numpy():
        sizes = [*np.abs(row), 0.0]
        largest = max(first + second for first, second in zip(sizes[::2], sizes[1::2], strict=False))
        step = max(sizes) / int(127 * max(sizes) / largest)
        rows.append(np.round(row / step) * step)
    return np.array(rows)


def _rounded_input(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each row to 256 levels from its least to its largest value, zero among them."""
    rows = []
    for row in x:
        low, high = min(row.min(), 0.0), max(row.max(), 0.0)
        step = (high - low) / 255
        zero = round(-128 - low / step)
        rows.append((np.clip(np.round(row / step) + zero, -128, 127) - zero) * step)
    return np.array(rows)


def test_rounding_is_that_of_a_slow_computation(tied: tuple[Tied, ExportedProgram, ExportedProgram]) -> None:
    module, _, quantized = tied
    tokens = torch.tensor([0, 69, 7, 7, 12])

    def bias(linear: nn.Linear) -> NDArray[np.float64]:
        return linear.bias.detach().double().numpy()

    def plain(linear: nn.Linear) -> NDArray[np.float64]:
        return linear.weight.detach().double().numpy()

    table = _rounded_weight(module.table)
    x = table[tokens.numpy()]
    rounded = _rounded_input(x)
    hidden = rounded @ _rounded_weight(module.left).T + bias(module.left) + rounded @ _rounded_weight(module.right).T
    hidden = hidden @ plain(module.narrow).T + bias(module.narrow)
    hidden = _rounded_input(hidden) @ _rounded_weight(module.wide).T + bias(module.wide)
    expected = _rounded_input(hidden @ plain(module.back).T) @ table.T
    with torch.no_grad():
        found, unrounded = quantized.module()(tokens).numpy(), module(tokens).numpy()
    # A value in the middle between two levels may fall to either side in fp32.
    scale = np.abs(expected).max()
    assert np.abs(found - expected).max() < 0.004 * scale
    assert np.median(np.abs(found - expected)) < 1e-5 * scale < np.median(np.abs(found - unrounded))


class Looked(nn.Module):
    """A table that is also the output, of blocks of 4 bits, and a product of another matrix, cut into two."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(TYPES, 2 * BLOCK)
        self.cut = nn.Linear(2 * BLOCK, 2 * 64)

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        first, second = self.cut(self.table(tokens)).split(64, dim=-1)
        return self.table(tokens), nn.functional.linear(first + second, self.table.weight)


def _rounded_blocks(module: nn.Module) -> NDArray[np.float64]:
    return quantize_blocks(module.weight.detach().numpy()).restored().astype(np.float64)


@pytest.mark.parametrize("sizes", [(5,), (2, 3)])
def test_tables_and_products_of_four_bits_in_the_runtime(sizes: tuple[int, ...]) -> None:
    torch.manual_seed(1)
    module = Looked().eval()
    forms = {array_digest(weight.detach().numpy()): "int4" for weight in (module.table.weight, module.cut.weight)}
    tokens = torch.randint(0, TYPES, sizes)
    dims = {axis: torch.export.Dim(f"size{axis}", min=1, max=8) for axis in range(len(sizes))}
    with quiet_libraries(), torch.no_grad():
        traced = export(module, (tokens,), dynamic_shapes=(dims,))
        prepared = prepare_program(traced, rounding=Rounding(precision="mixed", forms=forms))
        # Both parts have the form of the matrix that they are rows of.
        assert operators(prepared)[QUANTIZED.dequantize_per_channel_group.default] == 3
        content = bytes(write_program(lower_programs({"forward": prepared}), {}).buffer)
    stored = {tuple(tensor.shape): tensor.dtype for tensor in prepared.state_dict.values()}
    assert stored[TYPES, BLOCK] == torch.uint8
    program = LoadedProgram(content, threads=1)
    rows, found = (value.numpy() for value in execute(program.method("forward"), [tokens]))

    table = _rounded_blocks(module.table)
    np.testing.assert_allclose(rows, table[tokens.numpy()], rtol=1e-6)
    x = _rounded_input(table[tokens.numpy().reshape(-1)])
    cut = x @ _rounded_blocks(module.cut).T + module.cut.bias.detach().numpy()
    expected = _rounded_input(cut[:, :64] + cut[:, 64:]) @ table.T
    error = np.abs(found.reshape(expected.shape) - expected)
    # As above, a value in the middle between two levels may fall to either side.
    assert error.max() < 0.01 * np.abs(expected).max()
    assert np.median(error) < 2e-3 * np.abs(expected).max()


class Repeated(nn.Module):
    """Layers that share their weights, as the Subformer's do, with something else between them."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 64), nn.Linear(64, 64)
        self.narrow = nn.Linear(64, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(3):
            x = x + self.narrow(self.down(self.up(x).relu()).softmax(dim=-1))
        return x


def test_layers_that_share_their_weights_are_lowered() -> None:
    torch.manual_seed(2)
    module = Repeated().eval()
    x = torch.randn(3, WIDTH)
    with quiet_libraries(), torch.no_grad():
        traced = export(module, (x,), dynamic_shapes=({0: torch.export.Dim("rows", min=1, max=8)},))
        prepared = prepare_program(traced, rounding=Rounding(precision="int8"))
        # Two of the matrices have 64 outputs at least. Each product reads its own, and they are stored once.
        assert operators(prepared)[QUANTIZED.dequantize_per_channel.default] == 6
        assert sum(tensor.dtype == torch.int8 for tensor in prepared.state_dict.values()) == 2
        content = bytes(write_program(lower_programs({"forward": prepared}), {}).buffer)
        expected = module(x).numpy()
    program = LoadedProgram(content, threads=1)
    (found,) = execute(program.method("forward"), [x])
    np.testing.assert_allclose(found.numpy(), expected, atol=0.02 * np.abs(expected).max())


@pytest.fixture(scope="module")
def model() -> EncoderDecoder:
    return build_wide()


@pytest.fixture(scope="module")
def traced(model: EncoderDecoder) -> TracedModel:
    return trace_model(model, BOUNDS)


@pytest.fixture(scope="module", params=["int8", "mixed"])
def rounding(request: pytest.FixtureRequest, model: EncoderDecoder) -> Rounding:
    if request.param == "int8":
        return Rounding(precision="int8")
    forms: dict[bytes, Form] = {}
    for name, weight in model.named_parameters():
        if weight.dim() == 2 and not name.endswith("out_proj.weight"):
            narrow: Form = "int4" if "embedding" in name or "ffn" in name else "int8"
            forms[array_digest(weight.detach().numpy())] = narrow
    return Rounding(precision="mixed", forms=forms)


@pytest.fixture(scope="module")
def program(traced: TracedModel, rounding: Rounding) -> ExecuTorchProgram:
    return export_executorch(traced, rounding=rounding)


@pytest.fixture(scope="module")
def engine(traced: TracedModel, program: ExecuTorchProgram) -> Engine:
    manifest = describe(traced)
    vocabulary = manifest.vocabulary.model_copy(update={"src_size": 160, "tgt_size": 160})
    manifest = manifest.model_copy(update={"vocabulary": vocabulary})
    return Engine(manifest, ExecuTorchRunner(manifest.layout, program.content, threads=1))


def test_the_work_stays(model: EncoderDecoder, traced: TracedModel, program: ExecuTorchProgram) -> None:
    assert program.work == count_model_work(model, traced.state, BOUNDS)


def test_the_output_is_delegated_too(program: ExecuTorchProgram, rounding: Rounding) -> None:
    step = program.calls["decode_step"]
    products = ("aten::mm.out", "aten::linear.out", "aten::addmm.out", "aten::bmm.out")
    assert step.delegated > 0
    assert not [kernel for kernel in step.kernels if kernel in products or kernel.startswith("quantized_decomposed")]
    assert not [kernel for kernel in step.kernels if "layer_norm" in kernel or "sigmoid" in kernel]
    # Rows of the table, their scales, and of bytes the two levels.
    assert step.kernels["aten::embedding.out"] == (2 if rounding.precision == "int8" else 3)


def test_bytes_are_those_of_integers(model: EncoderDecoder, program: ExecuTorchProgram, rounding: Rounding) -> None:
    def stored(name: str, weight: Tensor) -> float:
        form = rounding.form(array_digest(weight.detach().numpy())) if weight.dim() == 2 else "fp32"
        # The table is stored for products and for look-ups.
        return {"fp32": 4, "int8": 1, "int4": 0.5}[form] * weight.numel() * (2 if "embedding" in name else 1)

    weights = sum(stored(name, weight) for name, weight in model.named_parameters())
    fp32 = sum(4 * weight.numel() for weight in model.parameters())
    assert weights < len(program.content) < weights + 0.2 * fp32


def _with_blocks(model: EncoderDecoder, rounding: Rounding) -> EncoderDecoder:
    """The model with those matrices rounded that have 4 bits, which random weights do not bear."""
    rounded = deepcopy(model)
    for weight in rounded.parameters():
        values = weight.detach().numpy()
        if rounding.forms.get(array_digest(values)) == "int4":
            values[...] = quantize_blocks(values).restored()
    return rounded


@pytest.mark.parametrize(("rows", "source", "capacity"), [(1, 1, 1), (4, 24, 20), (9, 6, 3)])
def test_logits_are_close_to_those_of_torch_at_all_sizes(
    model: EncoderDecoder, engine: Engine, rounding: Rounding, rows: int, source: int, capacity: int
) -> None:
    reference, random = TorchStepModel(_with_blocks(model, rounding)), np.random.default_rng(1)
    tokens = random.integers(3, 160, (rows, source))
    mask = np.ones((rows, source), np.bool_)
    mask[-1, source // 2 + 1 :] = False
    state, expected_state = engine.start(tokens, mask, capacity), reference.start(tokens, mask, capacity)
    # The first row alone, which what is beside it in the batch must not change.
    alone = engine.start(tokens[:1], mask[:1], capacity)
    for _ in range(capacity):
        fed = random.integers(3, 160, rows)
        logits, state = engine.step(fed, state)
        expected, expected_state = reference.step(fed, expected_state)
        error = np.sqrt(np.mean((logits - expected) ** 2))
        assert 0 < error < 0.15 * np.sqrt(np.mean(expected**2))
        single, alone = engine.step(fed[:1], alone)
        np.testing.assert_allclose(single, logits[:1], atol=1e-3 * np.abs(expected).max())


def test_a_cache_that_becomes_longer_again(engine: Engine) -> None:
    def logits(rows: int, source: int, capacity: int) -> NDArray[np.float32]:
        tokens = np.arange(3, 3 + rows * source).reshape(rows, source)
        state = engine.start(tokens, np.ones((rows, source), np.bool_), capacity)
        for token in (5, 9):
            found, state = engine.step(np.full(rows, token), state)
        return found

    # With changes of shape in XNNPACK the last is wrong, and right again after a call with more rows.
    logits(2, 9, 12)
    before = logits(1, 9, 12)
    logits(1, 1, 2)
    np.testing.assert_array_equal(logits(1, 9, 12), before)
