from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from lite_nlp.compress.lnlp.container import read_container, write_container
from lite_nlp.compress.lnlp.encodings import decode_tensors
from lite_nlp.compress.prune.magnitude import prunable_parameters
from lite_nlp.compress.quantize.clustering import KMeansQuantizer
from lite_nlp.compress.quantize.protocol import Choice, QuantizedWeights
from lite_nlp.compress.stages import (
    dense_model,
    entropy_coded_model,
    model_tensors,
    pruned_model,
    quantized_model,
    quantized_vectors,
    set_weights,
)
from lite_nlp.core.errors import ModelError


class Tied(nn.Module):
    """Two names for one table, a norm, and an integer buffer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(100, 32)
        self.output = nn.Linear(32, 100)
        self.output.weight = self.embedding.weight
        self.norm = nn.BatchNorm1d(32)


def _quantize(parameters: Mapping[str, Tensor], levels: Mapping[str, int]) -> QuantizedWeights:
    arrays = {name: parameter.detach().numpy() for name, parameter in parameters.items()}
    plan = {name: Choice(levels=count, sparsity=0.0, bits=0.0, distortion=0.0) for name, count in levels.items()}
    return KMeansQuantizer().fit(arrays, plan, {name: np.ones_like(array) for name, array in arrays.items()})


def test_tied_tensors_are_stored_once(tmp_path: Path) -> None:
    model = Tied()
    tensors = model_tensors(model)
    assert tensors.aliases == {"output.weight": "embedding.weight"}
    assert tensors.num_weights == sum(parameter.numel() for parameter in model.parameters()) + 32 + 32 + 1
    path = tmp_path / "model.lnlp"
    write_container(path, tensors=dense_model(tensors.tensors), aliases=tensors.aliases, files={}, metadata={})
    state = {name: torch.from_numpy(array) for name, array in read_container(path).state_dict().items()}
    assert set(state) == set(model.state_dict())
    again = Tied()
    again.load_state_dict(state)
    assert all(torch.equal(tensor, again.state_dict()[name]) for name, tensor in model.state_dict().items())


def test_views_of_one_memory_with_other_shapes_are_not_tied() -> None:
    model = nn.Module()
    table = torch.arange(12.0)
    model.register_buffer("flat", table)
    model.register_buffer("square", table.view(3, 4))
    assert model_tensors(model).aliases == {}


def test_each_stage_decodes_to_what_it_should_and_gets_smaller() -> None:
    model = Tied()
    with torch.no_grad():
        model.embedding.weight[model.embedding.weight.abs() < 0.8] = 0
    tensors = model_tensors(model).tensors
    parameters = prunable_parameters(model)
    table = model.embedding.weight.detach().numpy()
    quantized = _quantize(parameters, dict.fromkeys(parameters, 16))
    stages = [
        dense_model(tensors),
        pruned_model(tensors),
        quantized_model(tensors, quantized),
        entropy_coded_model(tensors, quantized),
    ]
    sizes = [sum(len(tensor.payload) for tensor in stage.values()) for stage in stages]
    assert sizes == sorted(sizes, reverse=True)
    decoded = [decode_tensors(stage) for stage in stages]
    assert np.array_equal(decoded[0]["embedding.weight"], table)
    assert np.array_equal(decoded[1]["embedding.weight"], table)
    assert np.array_equal(decoded[2]["embedding.weight"], quantized.values()["embedding.weight"])
    assert np.array_equal(decoded[3]["embedding.weight"], quantized.values()["embedding.weight"])
    assert np.all(decoded[3]["embedding.weight"][table == 0] == 0)
    assert len(np.unique(decoded[3]["embedding.weight"])) <= 16
    assert decoded[3]["norm.num_batches_tracked"].dtype == np.int64


def test_vectors_take_as_few_bits_as_asked_for() -> None:
    model = Tied()
    with torch.no_grad():
        model.norm.weight.uniform_(-1, 1, generator=torch.Generator().manual_seed(1))
    tensors = model_tensors(model).tensors
    quantized = _quantize(prunable_parameters(model), {"embedding.weight": 16})
    plain = entropy_coded_model(tensors, quantized)
    coarse = entropy_coded_model(tensors, quantized, vectors=quantized_vectors(model, 5))
    assert len(coarse["norm.weight"].payload) < 0.7 * len(plain["norm.weight"].payload)
    found = decode_tensors(coarse)["norm.weight"]
    assert len(np.unique(found)) <= 32
    np.testing.assert_allclose(found, model.norm.weight.detach().numpy(), atol=1 / 15)
    assert coarse["norm.num_batches_tracked"] == plain["norm.num_batches_tracked"]


def test_dense_tensors_are_not_stored_with_a_bitmap() -> None:
    tensors = {"full": torch.ones(100), "empty": torch.zeros(100)}
    assert {name: tensor.encoding for name, tensor in pruned_model(tensors).items()} == {
        "full": "fp32",
        "empty": "pruned",
    }


def test_each_matrix_has_its_own_number_of_levels() -> None:
    torch.manual_seed(0)
    parameters = {"few": torch.randn(40, 40), "many": torch.randn(40, 40)}
    values = _quantize(parameters, {"few": 4, "many": 32}).values()
    assert {name: len(np.unique(array)) for name, array in values.items()} == {"few": 4, "many": 32}


def test_a_weight_that_is_no_number_is_refused() -> None:
    with pytest.raises(ModelError, match="expected finite weights"):
        _quantize({"w": torch.tensor([1.0, float("nan")])}, {"w": 4})


def test_parameters_take_the_values_of_their_centroids() -> None:
    model = Tied()
    parameters = prunable_parameters(model)
    quantized = _quantize(parameters, dict.fromkeys(parameters, 8))
    set_weights(parameters, quantized)
    assert np.array_equal(model.output.weight.detach().numpy(), quantized.values()["embedding.weight"])


def test_a_state_that_is_no_tensor_of_real_numbers_is_refused() -> None:
    class Extra(nn.Linear):
        def get_extra_state(self) -> dict[str, int]:
            return {"calls": 1}

    with pytest.raises(ModelError, match="Extra: _extra_state: expected a tensor of real numbers, found dict"):
        model_tensors(Extra(2, 2))
    with pytest.raises(ModelError, match=r"Linear: weight: expected a tensor of real numbers, found torch.complex64"):
        model_tensors(nn.Linear(2, 2, dtype=torch.complex64))
