"""``compress_module`` on weights, buffers and scores out of the ordinary."""

import copy
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lite_nlp.compress import compress_module, load_compressed, read_container
from lite_nlp.core.errors import ModelError


def test_a_frozen_module_is_compressed_and_stays_frozen(tmp_path: Path) -> None:
    module = _normed().requires_grad_(False)
    rows = compress_module(
        module,
        out=tmp_path / "small",
        score=lambda model: float(_normed_error(model)),
        lower_is_better=True,
        batches=[0],
        loss=_normed_error,
        tolerance=1e-3,
        finetune_steps=1,
    )
    assert rows[-1].scores["score"] <= 2e-3
    assert not module.weight.requires_grad


def test_a_module_of_half_precision_stays_one(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = nn.Linear(64, 64, dtype=torch.bfloat16)
    rows = compress_module(
        module,
        out=tmp_path / "small",
        score=lambda model: -float((model.weight - module.weight).abs().mean()),  # type: ignore[operator, union-attr]
        batches=[torch.zeros(1)],
        loss=lambda model, _: (model.weight - module.weight.detach()).square().sum(),  # type: ignore[operator, union-attr]
        finetune_steps=2,
    )
    assert rows[-1].scores["score"] > -0.02
    fresh = nn.Linear(64, 64, dtype=torch.bfloat16)
    load_compressed(tmp_path / "small" / "original.lnlp", fresh)
    assert torch.equal(fresh.weight, module.weight)
    assert fresh.weight.dtype == torch.bfloat16


class Normed(nn.Linear):
    """A layer whose rows have length 1, which rows of zeros cannot have."""

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight / self.weight.norm(dim=1, keepdim=True))


def _normed() -> Normed:
    module = Normed(32, 16, bias=False)
    with torch.no_grad():
        module.weight.copy_(torch.randn(16, 32, generator=torch.Generator().manual_seed(0)))
        module.weight[0] *= 0.1
    return module


NORMED_INPUTS = torch.eye(32)
NORMED_OUTPUTS = _normed()(NORMED_INPUTS).detach()


def _normed_error(model: nn.Module, _: object = None) -> Tensor:
    return F.mse_loss(model(NORMED_INPUTS), NORMED_OUTPUTS)


def test_weights_too_coarse_to_compute_with_are_the_worst_and_no_error(tmp_path: Path) -> None:
    found: list[float] = []

    def evaluate(model: nn.Module) -> float:
        found.append(float(_normed_error(model)))
        return found[-1]

    rows = compress_module(
        _normed(),
        out=tmp_path / "small",
        score=_normed_error,
        lower_is_better=True,
        evaluate=evaluate,
        tolerance=1e-3,
        quantizer="kmeans",
    )
    assert any(math.isnan(value) for value in found)
    assert rows[-1].scores["score"] <= 2e-3
    ledger = json.loads((tmp_path / "small" / "ledger.json").read_text(encoding="utf-8"))
    (matrix,) = ledger["plan"]["matrices"]
    assert max(probe["measured"] for probe in matrix["probes"]) == 1e30


def test_a_search_for_the_largest_loss_passes_over_scores_that_are_no_numbers(tmp_path: Path) -> None:
    rows = compress_module(
        _normed(),
        out=tmp_path / "small",
        score=_normed_error,
        lower_is_better=True,
        tolerance=1e-3,
        max_loss=2e-3,
        quantizer="kmeans",
    )
    assert rows[-1].scores["score"] <= 2e-3


def test_a_vector_that_is_not_all_finite_is_kept(tmp_path: Path) -> None:
    module = _normed()
    module.register_parameter("mask", nn.Parameter(torch.tensor([0.0, -math.inf, math.nan])))
    compress_module(module, out=tmp_path / "small", score=lambda _: 1.0)
    held = load_compressed(tmp_path / "small" / "model.lnlp", copy.deepcopy(module))
    torch.testing.assert_close(held.mask, module.mask, equal_nan=True, rtol=0, atol=0)


@pytest.mark.parametrize("values", [[-1.0, -1.0], [1.0, -1.0], [1.0, 0.0], [1.0, 1.0 - 2**-24]])
def test_a_vector_at_the_ends_of_float32_stays_finite(tmp_path: Path, values: list[float]) -> None:
    module = _normed()
    greatest = torch.finfo(torch.float32).max
    module.register_parameter("mask", nn.Parameter((torch.tensor(values).double() * greatest).float()))
    compress_module(module, out=tmp_path / "small", score=lambda _: 1.0)
    held = load_compressed(tmp_path / "small" / "model.lnlp", copy.deepcopy(module))
    torch.testing.assert_close(held.mask, module.mask, rtol=0, atol=0)


def test_weights_near_the_greatest_float_are_compressed(tmp_path: Path) -> None:
    module = _normed()
    with torch.no_grad():
        module.weight *= 1e30

    def error(model: nn.Module) -> Tensor:
        return (model.weight / 1e30 - module.weight / 1e30).square().mean()  # type: ignore[operator]

    rows = compress_module(module, out=tmp_path / "small", score=error, lower_is_better=True, tolerance=1e-3)
    assert rows[-1].scores["score"] <= 2e-3


def test_weights_whose_squares_are_no_floats_are_fine_tuned(tmp_path: Path) -> None:
    module = _normed()
    with torch.no_grad():
        module.weight *= 1e25

    def error(model: nn.Module, _: object = None) -> Tensor:
        return (model.weight / 1e25 - module.weight / 1e25).square().mean()  # type: ignore[operator]

    rows = compress_module(
        module,
        out=tmp_path / "small",
        score=lambda model: float(error(model)),
        lower_is_better=True,
        batches=[0],
        loss=error,
        finetune_steps=4,
        tolerance=1e-3,
        quantizer="kmeans",
    )
    assert rows[-1].scores["score"] <= 2e-3


@pytest.mark.parametrize("quantizer", ["kmeans", "grid"])
def test_weights_below_the_least_normal_float_are_compressed(tmp_path: Path, quantizer: str) -> None:
    module = _normed()
    nn.init.constant_(module.weight, 1e-45)
    rows = compress_module(module, out=tmp_path / "small", score=lambda _: 1.0, quantizer=quantizer)
    assert rows[-1].ratio > 4


def test_a_file_whose_score_is_no_number_is_an_error(tmp_path: Path) -> None:
    def score(model: nn.Module) -> float:
        return 1.0 if torch.equal(model.weight, _normed().weight) else math.nan  # type: ignore[arg-type]

    with pytest.raises(ModelError, match="Normed: expected a finite score, found nan"):
        compress_module(_normed(), out=tmp_path / "small", score=score, evaluate=lambda _: 0.0)
    assert list(tmp_path.iterdir()) == []


def test_a_file_without_a_score_has_lost_more_than_is_allowed(tmp_path: Path) -> None:
    whole = _normed()
    searched: list[nn.Module] = []

    def score(model: nn.Module) -> float:
        """No number for files of so few values that the search, which sees the module at work, allows."""
        searched[:] = searched or [model]
        few = len(torch.unique(model.weight)) < 150
        return math.nan if few and model is not searched[0] else float(_normed_error(model))

    options: dict[str, Any] = {"score": score, "lower_is_better": True, "quantizer": "kmeans", "tolerance": 1e-3}
    with pytest.raises(ModelError, match="Normed: expected a finite score, found nan"):
        compress_module(whole, out=tmp_path / "small", **options)
    rows = compress_module(whole, out=tmp_path / "small", max_loss=1e-3, **options)
    assert rows[-1].scores["score"] <= 1e-3
    # Nothing is left of the attempts before.
    assert {path.name for path in (tmp_path / "small").glob("*.lnlp")} == {row.file for row in rows}


def test_of_files_without_a_score_none_keeps_within_a_loss(tmp_path: Path) -> None:
    def score(model: nn.Module) -> float:
        return 1.0 if torch.equal(model.weight, _normed().weight) else math.nan  # type: ignore[arg-type]

    message = "Normed: cannot be compressed with a loss of at most 1 of score; no file reached has a finite score"
    with pytest.raises(ModelError, match=message):
        compress_module(_normed(), out=tmp_path / "small", score=score, max_loss=1)
    assert list(tmp_path.iterdir()) == []


def test_the_largest_loss_is_searched_for_where_the_score_is_zero_before(tmp_path: Path) -> None:
    def error(model: nn.Module) -> Tensor:
        return (model.weight - _normed().weight).square().mean()  # type: ignore[operator]

    assert not error(_normed())
    options: dict[str, Any] = {"score": error, "lower_is_better": True}
    sizes = []
    for max_loss in (None, 1e-3, 1e-1):
        rows = compress_module(_normed(), out=tmp_path / f"{max_loss}", max_loss=max_loss, **options)
        sizes.append(rows[-1].size_bytes)
        assert rows[-1].scores["score"] <= (max_loss or math.inf)
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) == 3
    # Small units have more than two decimals.
    with pytest.raises(ModelError, match=r"the smallest loss reached is \d\.?\d?e-0\d of score"):
        compress_module(_normed(), out=tmp_path / "none", max_loss=1e-12, **options)


class Words(nn.Module):
    """A table and an output layer of its shape."""

    def __init__(self, *, sparse: bool = False, shared: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(40, 16, sparse=sparse)
        self.output = nn.Linear(16, 40, bias=False)
        if shared:
            # The same memory, but another parameter.
            self.output.weight = nn.Parameter(self.embed.weight)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.output(self.embed(tokens))  # type: ignore[no-any-return]


WORDS = torch.arange(40)


def _words_loss(model: nn.Module, _: object = None) -> Tensor:
    return F.cross_entropy(model(WORDS), WORDS)


def test_tables_with_sparse_gradients_are_fine_tuned(tmp_path: Path) -> None:
    found = []
    for sparse in (True, False):
        module = Words(sparse=sparse)
        rows = compress_module(
            module,
            out=tmp_path / f"{sparse}",
            score=_words_loss,
            lower_is_better=True,
            batches=[0],
            loss=_words_loss,
            finetune_steps=4,
        )
        assert module.embed.sparse is sparse
        found.append([row.scores for row in rows])
    assert found[0] == found[1]


def test_parameters_on_the_same_memory_are_tied(tmp_path: Path) -> None:
    module = Words(shared=True)
    assert module.output.weight is not module.embed.weight
    rows = compress_module(
        module,
        out=tmp_path / "small",
        score=_words_loss,
        lower_is_better=True,
        batches=[0],
        loss=_words_loss,
        finetune_steps=4,
    )
    assert read_container(tmp_path / "small" / "model.lnlp").aliases == {"output.weight": "embed.weight"}
    load_compressed(tmp_path / "small" / "model.lnlp", module)
    assert _words_loss(module).item() == pytest.approx(rows[-1].scores["score"])


@pytest.mark.parametrize(
    ("buffer", "most"),
    [
        (torch.ones(128, 128, dtype=torch.bool).tril(), 2_100),
        (torch.full((128, 128), -math.inf).triu(1), 2_100),
        (torch.arange(128).remainder(3), 50),
        (torch.arange(4096.0), 4 * 4096),
        (torch.tensor(2**40), 8),
        (torch.tensor([2**63 - 1, 2**24 + 1]), 16),
        (torch.zeros(0), 0),
    ],
    ids=["bool", "infinite", "kinds", "whole", "count", "large", "empty"],
)
def test_masks_and_whole_numbers_are_kept_exactly_in_few_bytes(tmp_path: Path, buffer: Tensor, most: int) -> None:
    module = nn.Linear(64, 64)
    module.register_buffer("held", buffer)
    compress_module(module, out=tmp_path / "small", score=lambda _: 1.0)
    fresh = nn.Linear(64, 64)
    fresh.register_buffer("held", torch.zeros_like(buffer))
    load_compressed(tmp_path / "small" / "model.lnlp", fresh)
    assert torch.equal(fresh.held, buffer)
    container = read_container(tmp_path / "small" / "model.lnlp")
    assert len(container.tensors["held"].payload) <= most
