"""The benchmark of closeness: divergence and agreement of predictions, and equal outputs."""

import math
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import Tensor, nn

from lite_nlp.artifacts.models import list_shipped
from lite_nlp.data.pairs.batches import collate
from tests.unit.benchmarks.scripts import loaded


@pytest.fixture(scope="module")
def benchmark() -> Iterator[ModuleType]:
    with loaded("closeness") as found:
        yield found["closeness"]


class Fixed(nn.Module):
    """The same probabilities of a vocabulary of 8 for every target token; the last two types share what is left."""

    def __init__(self, *probabilities: float) -> None:
        super().__init__()
        rest = (1 - sum(probabilities)) / 2
        self.probabilities = torch.tensor([*probabilities, rest, rest])

    def forward(self, src_tokens: Tensor, src_mask: Tensor, tgt_tokens: Tensor) -> Tensor:
        return self.probabilities.log().expand(*tgt_tokens.shape, 8)


def test_the_divergence_is_of_the_model_from_the_original(benchmark: ModuleType) -> None:
    original, model = Fixed(0.5, 0.1, 0.1, 0.1, 0.1, 0.05), Fixed(0.25, 0.35, 0.1, 0.1, 0.1, 0.05)
    batches = [collate([[4, 5], [6]], [[5, 6, 7], [4]]), collate([[7]], [[5]])]
    found = benchmark.closeness(original, model, batches)
    assert found.divergence == pytest.approx(0.5 * math.log(0.5 / 0.25) + 0.1 * math.log(0.1 / 0.35), abs=1e-6)
    assert found.agreement == 0
    same = benchmark.closeness(original, original, batches)
    assert (same.divergence, same.agreement) == (0, 1)


def test_equal_outputs_are_counted(benchmark: ModuleType) -> None:
    assert benchmark.same_share(["a", "b", "c", "d"], ["a", "x", "c", "D"]) == 0.5


def test_bytes_are_of_whatever_names_a_model(benchmark: ModuleType, tmp_path: Path) -> None:
    """A shipped name is no path; a directory's own size says nothing of what is in it."""
    (tmp_path / "model.safetensors").write_bytes(bytes(1234))
    (tmp_path / "small.lnlp").write_bytes(bytes(99))
    (shipped, *_) = list_shipped()
    found = [benchmark.stored_bytes(str(model)) for model in (tmp_path, tmp_path / "small.lnlp", shipped.name)]
    assert found == [1234, 99, shipped.path.stat().st_size]
