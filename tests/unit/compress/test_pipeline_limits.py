"""Sizes to reach and losses to keep within, by the whole pipeline on a small regression model."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from lite_nlp.compress.ledger import StageRow
from lite_nlp.compress.metric import Metric
from lite_nlp.compress.pipeline import CompressionOptions, run_pipeline
from lite_nlp.compress.quantize.clustering import KMeansQuantizer
from lite_nlp.compress.stages import FINAL_FILE
from lite_nlp.core.errors import ModelError
from tests.unit.compress.regression import (
    build_regression,
    compress,
    evaluate_model,
    regression_finetuning,
    regression_subject,
)


@pytest.mark.parametrize("target_bytes", [9000, 5000, 3200])
def test_a_target_size_is_met_by_the_real_file(tmp_path: Path, target_bytes: int) -> None:
    rows = compress(tmp_path, finetuning=regression_finetuning(), target_bytes=target_bytes)
    assert 0.6 * target_bytes < (tmp_path / FINAL_FILE).stat().st_size <= target_bytes
    assert rows[-1].size_bytes <= target_bytes


@pytest.mark.parametrize("quantizer", ["kmeans", "grid"])
def test_a_plan_is_about_as_large_as_its_file_and_never_smaller(tmp_path: Path, quantizer: str) -> None:
    def score(model: nn.Module) -> dict[str, float]:
        return {
            name: 100 * (1 - evaluate_model(model)) / place for place, name in enumerate(("bleu", "chrf", "ter"), 1)
        }

    rows = run_pipeline(
        build_regression(),
        out=tmp_path,
        subject=replace(regression_subject(), score=score),
        options=CompressionOptions(target_bytes=4000, quantizer=quantizer),
    )
    assert rows[-1].plan is not None
    (compared,) = rows[-1].plan.compared
    assert 0 <= compared.size_bytes - rows[-1].size_bytes <= 40


def test_a_target_ratio_is_met(tmp_path: Path) -> None:
    assert compress(tmp_path, target_ratio=6.0)[-1].ratio >= 6.0


def test_an_unreachable_target_tells_the_smallest_size(tmp_path: Path) -> None:
    with pytest.raises(
        ModelError,
        match=r"cannot be compressed to 750 bytes; the smallest file, .* has 8\d\d bytes, \d+ too many, 1\.1",
    ):
        compress(tmp_path, target_bytes=750)


def test_largest_loss_backs_off_sparsity(tmp_path: Path) -> None:
    for name in ("careless", "careful"):
        (tmp_path / name).mkdir()
    careless = compress(tmp_path / "careless", tolerance=0.2)
    careful = compress(tmp_path / "careful", tolerance=0.2, max_loss=1.0)
    assert careless[0].scores["bleu"] - careless[-1].scores["bleu"] > 1.0
    assert careful[0].scores["bleu"] - careful[-1].scores["bleu"] <= 1.0
    assert careful[-1].size_bytes > careless[-1].size_bytes
    assert [row.stage for row in careful] == [row.stage for row in careless]


def test_largest_loss_of_a_metric_that_is_better_when_lower(tmp_path: Path) -> None:
    error = Metric(name="error", label="error", unit="of error", lower_is_better=True)
    subject = replace(
        regression_subject(), metric=error, score=lambda model: {"bleu": 0.0, "error": evaluate_model(model)}
    )
    sizes = []
    for max_loss in (0.2, 0.01):
        out = tmp_path / str(max_loss)
        out.mkdir()
        options = CompressionOptions(tolerance=0.02, max_loss=max_loss)
        rows = run_pipeline(build_regression(), out=out, subject=subject, options=options)
        # The loss allowed is used, from either side of the tolerance that the search begins with.
        assert 0.3 * max_loss < rows[-1].scores["error"] - rows[0].scores["error"] <= max_loss
        sizes.append(rows[-1].size_bytes)
    assert sizes[0] < sizes[1]
    with pytest.raises(
        ModelError, match=r"a loss of at most 0 of error; the smallest loss reached is 0\.000\d+ of error at"
    ):
        run_pipeline(build_regression(), out=tmp_path, subject=subject, options=CompressionOptions(max_loss=0))


def test_a_file_that_loses_more_than_the_search_saw_is_dropped(tmp_path: Path) -> None:
    working = build_regression()

    def score(model: nn.Module) -> dict[str, float]:
        """The search scores the model at hand, the ledger those read back."""
        return {"error": 0.02 if model is working else evaluate_model(model)}

    error = Metric(name="error", label="error", unit="of error", lower_is_better=True)
    dropped: list[StageRow] = []
    rows = run_pipeline(
        working,
        out=tmp_path,
        subject=replace(regression_subject(), metric=error, score=score),
        options=CompressionOptions(tolerance=0.001, max_loss=0.05),
        on_dropped=dropped.append,
    )
    assert rows[-1].scores["error"] - rows[0].scores["error"] <= 0.05
    # What was tried and lost too much is told, and its files are gone.
    assert dropped[-1].scores["error"] - rows[0].scores["error"] > 0.05
    assert {path.name for path in tmp_path.iterdir()} == {row.file for row in rows}


def test_an_impossible_loss_is_told(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"with a loss of at most 0 BLEU; the smallest loss reached is 0\.\d+ BLEU"):
        compress(tmp_path, max_loss=0)


def test_of_several_losses_that_are_too_large_the_smallest_is_told(tmp_path: Path) -> None:
    before = build_regression()
    files: list[nn.Module] = []

    def score(model: nn.Module) -> dict[str, float]:
        """Of files, each distinct one loses more than the one before it."""
        if all(torch.equal(*pair) for pair in zip(model.parameters(), before.parameters(), strict=True)):
            return {"bleu": 50.0}
        files.append(model)
        return {"bleu": 50.0 - len(files)}

    dropped: list[StageRow] = []
    with pytest.raises(ModelError) as told:
        run_pipeline(
            build_regression(),
            out=tmp_path,
            subject=replace(regression_subject(), score=score),
            options=CompressionOptions(max_loss=0, tolerance=0.05),
            on_dropped=dropped.append,
        )
    last = [row for row in dropped if row.file == FINAL_FILE]
    least = max(last, key=lambda row: row.scores["bleu"])
    assert len(last) == 4
    assert least is not last[-1]
    assert f"is {50 - least.scores['bleu']:.2f} BLEU at {least.size_bytes:,} bytes" in str(told.value)


def test_a_plan_that_loses_too_much_is_tried_once(tmp_path: Path) -> None:
    dropped: list[StageRow] = []
    with pytest.raises(ModelError, match="cannot be compressed with a loss of at most 0 BLEU"):
        run_pipeline(
            build_regression(),
            out=tmp_path,
            subject=regression_subject(),
            options=CompressionOptions(max_loss=0, tolerance=1e-12, quantizer="kmeans"),
            on_dropped=dropped.append,
        )
    # No plan is within this tolerance, nor within a fraction of it: the finest is taken for all.
    assert [row.file for row in dropped].count(FINAL_FILE) == 1


def test_target_and_largest_loss_that_contradict_each_other(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"cannot be compressed within 1,500 bytes with a loss of at most 0\.1 BLEU"):
        compress(tmp_path, target_bytes=1500, max_loss=0.1)


@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        ({"tolerance": 1e-3}, "grid"),
        # Nothing is within it: the finest grid loses less than four values for each matrix.
        ({"tolerance": 1e-12}, "grid"),
        ({"tolerance": 1e-3, "max_loss": 1.0}, "grid"),
        # Both are within it, and four values take fewer bytes.
        ({"tolerance": 1.0}, "kmeans"),
        ({"tolerance": 1e-3, "quantizer": "kmeans"}, "kmeans"),
    ],
)
def test_without_a_target_a_plan_that_is_tolerated_goes_before_one_that_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], chosen: str
) -> None:
    choices = KMeansQuantizer.choices
    monkeypatch.setattr(
        KMeansQuantizer, "choices", lambda *given: [choice for choice in choices(*given) if choice.levels == 4]
    )
    rows = compress(tmp_path, **{"quantizer": None} | options)
    assert rows[-2].stage == chosen
