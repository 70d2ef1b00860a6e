from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from lite_nlp.compress.lnlp.container import read_container, write_container
from lite_nlp.compress.lnlp.encodings import decode_tensors
from lite_nlp.compress.prune.magnitude import prunable_parameters
from lite_nlp.compress.stages import (
    cluster_parameters,
    clustered_model,
    dense_model,
    entropy_coded_model,
    model_tensors,
    pruned_model,
    recode_clusters,
    set_clusters,
)


class Tied(nn.Module):
    """Two names for one table, a norm, and an integer buffer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(100, 32)
        self.output = nn.Linear(32, 100)
        self.output.weight = self.embedding.weight
        self.norm = nn.BatchNorm1d(32)


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
    clusters = cluster_parameters(parameters, 16)
    stages = [
        dense_model(tensors),
        pruned_model(tensors),
        clustered_model(tensors, clusters),
        entropy_coded_model(tensors, clusters),
    ]
    sizes = [sum(len(tensor.payload) for tensor in stage.values()) for stage in stages]
    assert sizes == sorted(sizes, reverse=True)
    decoded = [decode_tensors(stage) for stage in stages]
    assert np.array_equal(decoded[0]["embedding.weight"], table)
    assert np.array_equal(decoded[1]["embedding.weight"], table)
    assert np.array_equal(decoded[2]["embedding.weight"], clusters["embedding.weight"].values())
    assert np.array_equal(decoded[3]["embedding.weight"], clusters["embedding.weight"].values())
    assert np.all(decoded[3]["embedding.weight"][table == 0] == 0)
    assert len(np.unique(decoded[3]["embedding.weight"])) <= 16
    assert decoded[3]["norm.num_batches_tracked"].dtype == np.int64


def test_dense_tensors_are_not_stored_with_a_bitmap() -> None:
    tensors = {"full": torch.ones(100), "empty": torch.zeros(100)}
    assert {name: tensor.encoding for name, tensor in pruned_model(tensors).items()} == {
        "full": "fp32",
        "empty": "pruned",
    }


def test_trained_centroids_are_put_in_order_and_merged() -> None:
    clusters = cluster_parameters({"w": torch.tensor([[0.0, 1.0, 2.0, 3.0]])}, 4)
    clusters["w"].codebook[:] = [0.0, 5.0, 1.0, 1.0]
    recoded = recode_clusters(clusters)["w"]
    assert recoded.codebook.tolist() == [0.0, 1.0, 5.0]
    assert recoded.values().tolist() == [[0.0, 5.0, 1.0, 1.0]]


def test_a_weight_that_is_no_number_is_refused() -> None:
    with pytest.raises(Exception, match="expected finite weights"):
        cluster_parameters({"w": torch.tensor([1.0, float("nan")])}, 4)


def test_parameters_take_the_values_of_their_centroids() -> None:
    model = Tied()
    parameters = prunable_parameters(model)
    clusters = cluster_parameters(parameters, 8)
    set_clusters(parameters, clusters)
    assert np.array_equal(model.output.weight.detach().numpy(), clusters["embedding.weight"].values())
