"""Export of a user's own encoder-decoder whose encoder is a recurrent layer of torch."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from lite_nlp.core.errors import ModelError, UsageError
from lite_nlp.decoding.search import SearchOptions, search
from lite_nlp.decoding.torch_model import TorchStepModel
from lite_nlp.export import Bounds, Bundle, ModelCard, Proof, create_engine, export_bundle, open_bundle
from lite_nlp.export.executorch_program import export_executorch
from lite_nlp.export.recurrence import traceable_recurrence
from lite_nlp.export.tracing import trace_model
from tests.unit.export.own_model import TOKENIZER, VOCAB_SIZE, OwnModel

BOUNDS = Bounds(source=24, capacity=20, executorch_batch=4)


class Recurrent(OwnModel):
    """An LSTM in both directions, then a GRU, over 16 channels."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(16, 8, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(16, 16, batch_first=True)

    def encode(self, src_tokens: Tensor, src_mask: Tensor) -> Tensor:
        mixed, _ = self.lstm(self.source(src_tokens) * src_mask.unsqueeze(-1))
        output, _ = self.gru(mixed)
        return output * src_mask.unsqueeze(-1)


class Packing(Recurrent):
    def encode(self, src_tokens: Tensor, src_mask: Tensor) -> Tensor:
        lengths = src_mask.sum(1).cpu()
        packed = pack_padded_sequence(self.source(src_tokens), lengths, batch_first=True, enforce_sorted=False)
        output, _ = pad_packed_sequence(self.gru(packed)[0], batch_first=True, total_length=src_tokens.shape[1])
        return output


class Looping(Recurrent):
    def encode(self, src_tokens: Tensor, src_mask: Tensor) -> Tensor:
        x = self.source(src_tokens)
        hidden, states = x.new_zeros(x.shape[0], 16), []
        for token in x.unbind(1):
            hidden = torch.tanh(self.mix(token) + hidden)
            states.append(hidden)
        return torch.stack(states, 1) * src_mask.unsqueeze(-1)


class Branching(Recurrent):
    def encode(self, src_tokens: Tensor, src_mask: Tensor) -> Tensor:
        x = super().encode(src_tokens, src_mask)
        return x if bool(src_mask.all()) else x * 2


def _build(kind: type[Recurrent]) -> Recurrent:
    torch.manual_seed(4)
    model = kind()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.7)
    return model.eval()


@pytest.fixture(scope="module")
def own() -> Recurrent:
    return _build(Recurrent)


@pytest.fixture(scope="module")
def bundle(own: Recurrent, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    path = tmp_path_factory.mktemp("own") / "own.zip"
    card = ModelCard(name="own", tokenizer_json=TOKENIZER)
    proof = Proof(reference=TorchStepModel(own), src_rows=[[5], [7, 8, 9]], options=SearchOptions(max_steps=4))
    export_bundle(path, model=own, card=card, bounds=BOUNDS, runtimes=["onnx"], proof=proof)
    return open_bundle(path)


def test_it_gives_the_tokens_that_torch_gives_for_any_length_and_batch(own: Recurrent, bundle: Bundle) -> None:
    random = np.random.default_rng(1)
    rows = [random.integers(3, VOCAB_SIZE, length).tolist() for length in range(1, 24)]
    engine = create_engine(bundle, runtime="onnx", threads=1)
    options = SearchOptions(max_steps=20)
    for batch in ([rows[0]], [rows[22]], rows[:3], rows):
        expected = [found.tokens for found in search(TorchStepModel(own), batch, options)]
        assert [found.tokens for found in search(engine, batch, options)] == expected


def test_its_work_is_that_of_the_layers(bundle: Bundle) -> None:
    # Both directions of 4 gates over 16 channels and 8 states, and 3 gates over 16 channels and states.
    per_token = 2 * 4 * 8 * (16 + 8) + 3 * 16 * (16 + 16)
    for runtime in ("torch", "onnx"):
        assert bundle.manifest.graphs[runtime]["encode"]["matmul"] == [[per_token, 1, 0]]


def test_executorch_says_what_it_does_not_run(own: Recurrent) -> None:
    with pytest.raises(ModelError, match=r"executorch: expected a model without recurrent layers.*runtimes=\['onnx'\]"):
        export_executorch(trace_model(own, BOUNDS))


def test_an_unknown_runtime(own: Recurrent, tmp_path: Path) -> None:
    card = ModelCard(name="own", tokenizer_json=TOKENIZER)
    with pytest.raises(UsageError, match=r"expected one of onnx, executorch, found 'onx'; did you mean 'onnx'\?"):
        export_bundle(tmp_path / "own.zip", model=own, card=card, bounds=BOUNDS, runtimes=["onx"])


def test_the_model_is_left_as_it_was(own: Recurrent, bundle: Bundle) -> None:
    assert "forward" not in vars(own.lstm)
    assert all(parameter.requires_grad for parameter in own.parameters())


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN:UserWarning")
@pytest.mark.parametrize(
    "layer",
    [
        nn.LSTM(5, 7, proj_size=3, num_layers=2, bidirectional=True),
        nn.GRU(5, 7, bias=False, batch_first=True),
        nn.RNN(5, 7, nonlinearity="relu", bidirectional=True),
        nn.RNN(5, 7, num_layers=2),
    ],
)
def test_the_loops_compute_what_the_layers_compute(layer: nn.RNNBase) -> None:
    layer = layer.eval()
    x = torch.randn(4, 3, 5, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected, ends = layer(x)
        with traceable_recurrence(layer):
            found, found_ends = layer(x)
            again, _ = layer(x, ends if not layer.batch_first else None)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(found_ends, ends)
    assert again.shape == expected.shape


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Packing, "padded tensor"),
        (Looping, r"encode and init_state: expected a graph for any batch, source length .* found source fixed at 5"),
        (Branching, "encode and init_state: expected a graph that does not depend on the numbers in its tensors"),
    ],
)
def test_what_cannot_be_traced_is_named_with_what_to_write_instead(kind: type[Recurrent], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        trace_model(_build(kind), BOUNDS)


@pytest.mark.parametrize(
    ("config", "found"), [(b'name = "own"\n', "found name"), (b"", "found nothing"), (b"=", "found an error")]
)
def test_a_configuration_that_the_commands_cannot_read_is_refused_at_once(
    own: Recurrent, tmp_path: Path, config: bytes, found: str
) -> None:
    card = ModelCard(name="own", tokenizer_json=TOKENIZER, config_toml=config)
    with pytest.raises(ModelError, match=rf"own: config.toml: expected .*{found}"):
        export_bundle(tmp_path / "own.zip", model=own, card=card, bounds=BOUNDS)
    assert list(tmp_path.iterdir()) == []
