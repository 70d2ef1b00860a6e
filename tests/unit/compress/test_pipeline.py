"""The whole pipeline on a small regression model: nothing here knows about translation."""

import errno
import json
from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from lite_nlp.compress.ledger import ReferenceModel, StageRow
from lite_nlp.compress.lnlp.container import read_container
from lite_nlp.compress.lnlp.encodings import EncodedTensor
from lite_nlp.compress.pipeline import CompressionOptions, run_pipeline
from lite_nlp.compress.significance import Scored, mean_measure
from lite_nlp.compress.stages import FINAL_FILE
from lite_nlp.core.errors import ModelError, OutputError
from tests.unit.compress.regression import (
    INPUTS,
    TARGETS,
    Regression,
    build_regression,
    compress,
    evaluate_model,
    load_regression,
    regression_finetuning,
    regression_subject,
)


def test_every_figure_is_that_of_the_file(tmp_path: Path) -> None:
    rows = compress(tmp_path, finetuning=regression_finetuning(), tolerance=0.2)
    assert [row.stage for row in rows] == ["original", "pruned", "finetuned", "kmeans", "entropy-coded"]
    assert rows[-1].file == FINAL_FILE
    assert {path.name for path in tmp_path.iterdir()} == {row.file for row in rows}
    weights = sum(parameter.numel() for parameter in build_regression().parameters())
    for row in rows:
        path = tmp_path / row.file
        container = read_container(path)
        state = container.state_dict()
        zeros = sum(int(np.sum(array == 0)) for array in state.values())
        assert row.size_bytes == path.stat().st_size
        assert row.ratio == pytest.approx(rows[0].size_bytes / row.size_bytes, abs=1e-3)
        assert row.sparsity == pytest.approx(zeros / weights, abs=1e-4)
        bits = 8 * sum(len(tensor.payload) for tensor in container.tensors.values()) / weights
        assert row.bits_per_weight == pytest.approx(bits, abs=1e-3)
        assert row.scores["bleu"] == pytest.approx(100 * (1 - evaluate_model(load_regression(path))))
        assert container.metadata["stage"] == row.stage
        assert container.files == {"config.toml": b"width = 48\n"}
        assert sum(row.bytes_by_kind.values()) == row.size_bytes
        assert {tensor.name: tensor.zeros for tensor in row.tensors} == {
            name: int(np.sum(array == 0)) for name, array in state.items()
        }
        for tensor in row.tensors:
            assert (
                tensor.size_bytes == sum(tensor.bytes_by_kind.values()) == len(container.tensors[tensor.name].payload)
            )
    sizes = [row.size_bytes for row in rows]
    assert sizes[0] > sizes[1] > sizes[3] > sizes[4]
    assert rows[1].sparsity > 0.4
    assert rows[-1].scores["bleu"] > 75
    assert [row["stage"] for row in read_container(tmp_path / FINAL_FILE).metadata["stages"]] == [
        row.stage for row in rows[:-1]
    ]
    json.dumps([row.as_dict() for row in rows])
    # Without examples there is nothing to resample.
    assert all(row.as_dict()["intervals"] == row.as_dict()["against_original"] == {} for row in rows)
    assert not any("reference_ratio" in row.as_dict() for row in rows)


def test_the_same_compression_writes_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contents = []
    for pace in (1.0, 7.3):
        monkeypatch.setattr("lite_nlp.compress.ledger.time.perf_counter", count(step=pace).__next__)
        (out := tmp_path / str(pace)).mkdir()
        rows = compress(out, target_bytes=5000)
        assert rows[-1].as_dict()["seconds"] == pace
        contents.append((out / FINAL_FILE).read_bytes())
    assert contents[0] == contents[1]


def _score_examples(model: nn.Module) -> Scored:
    """The mean of the scores of 64 inputs."""
    with torch.no_grad():
        errors = (model(INPUTS) - TARGETS).square().mean(dim=1) / TARGETS.var()
    measure = mean_measure((100 * (1 - errors)).numpy())
    outputs = [f"{error:.3f}" for error in errors]
    return Scored(scores={"bleu": measure.value}, measures={"bleu": measure}, outputs=outputs)


def test_stages_are_compared_with_the_original_and_a_reference_on_the_same_examples(tmp_path: Path) -> None:
    scored: list[nn.Module] = []

    def score(model: nn.Module) -> Scored:
        scored.append(model)
        return _score_examples(model)

    worse = build_regression()
    with torch.no_grad():
        worse.down.weight *= 0.5
    reference = ReferenceModel(name="half", size_bytes=99_000, macs=None, scored=_score_examples(worse))
    subject = replace(regression_subject(), score=score, reference=reference)
    rows = run_pipeline(build_regression(), out=tmp_path, subject=subject, options=CompressionOptions(tolerance=0.02))
    assert [row.stage for row in rows] == ["original", "pruned", "kmeans", "entropy-coded"]
    # The last two files hold the same weights: what one says, the other says too. So do the first two without zeros.
    assert len(scored) == 2 + bool(rows[1].sparsity)
    assert rows[2].scored is rows[3].scored
    assert rows[0].against_original == {}
    for row in rows[2:]:
        change = row.against_original["bleu"]
        assert change.difference == pytest.approx(row.scores["bleu"] - rows[0].scores["bleu"])
        assert change.low <= change.difference <= change.high
        low, high = row.scored.intervals()["bleu"]
        assert low <= row.scores["bleu"] <= high
        assert len(row.scored.outputs or ()) == 64
    assert rows[2].against_original["bleu"].p < 0.01
    for row in rows:
        assert row.reference_ratio == pytest.approx(99_000 / row.size_bytes, abs=1e-3)
        assert row.against_reference["bleu"].difference > 0
        content = row.as_dict()
        assert set(content["against_reference"]["bleu"]) == {"difference", "low", "high", "p"}
        json.dumps(content)
    # What a file holds of the stages before it are a few figures: the rest would cost bytes.
    held = read_container(tmp_path / FINAL_FILE).metadata["stages"]
    assert held == [row.embedded() for row in rows[:-1]]
    assert not {"bytes_by_kind", "intervals", "against_original", "against_reference"} & set(held[1])


def test_finetuning_can_be_left_out(tmp_path: Path) -> None:
    rows = compress(tmp_path)
    assert [row.stage for row in rows] == ["original", "pruned", "kmeans", "entropy-coded"]


def test_weights_that_are_not_finite_are_named_before_anything_is_written(tmp_path: Path) -> None:
    model = build_regression()
    with torch.no_grad():
        model.down.weight[0, 0] = torch.nan
    with pytest.raises(ModelError, match=r"regression: down\.weight: expected finite weights, found 1 of [\d,]+ not"):
        run_pipeline(model, out=tmp_path, subject=regression_subject(), options=CompressionOptions())
    assert list(tmp_path.iterdir()) == []


def test_a_score_that_is_no_number_beside_the_metric_is_told(tmp_path: Path) -> None:
    subject = replace(regression_subject(), score=lambda _: {"bleu": 1.0, "loss": float("nan")})
    with pytest.raises(ModelError, match="regression: expected a finite loss, found nan"):
        run_pipeline(build_regression(), out=tmp_path, subject=subject, options=CompressionOptions())


def test_structured_pruning_changes_the_model_that_is_written(tmp_path: Path) -> None:
    def shrink(model: nn.Module) -> nn.Module:
        assert isinstance(model, Regression)
        smaller = Regression()
        smaller.load_state_dict(model.state_dict())
        with torch.no_grad():
            smaller.up.weight[::2] = 0
        return smaller

    rows = run_pipeline(
        build_regression(),
        out=tmp_path,
        subject=regression_subject(),
        options=CompressionOptions(tolerance=0.01, quantizer="kmeans"),
        shrink=shrink,
    )
    assert [row.stage for row in rows[:3]] == ["original", "structured", "pruned"]
    assert rows[0].sparsity == 0
    assert rows[1].sparsity > 0.2


def _quantized(tmp_path: Path) -> tuple[Regression, dict[str, EncodedTensor]]:
    """A model read from a compressed file, and the tensors of that file."""
    compress(tmp_path, tolerance=1e-3)
    return load_regression(tmp_path / FINAL_FILE), read_container(tmp_path / FINAL_FILE).tensors


def _compress_again(
    tmp_path: Path, model: nn.Module, stored: dict[str, EncodedTensor], options: CompressionOptions
) -> list[StageRow]:
    (out := tmp_path / "again").mkdir()
    subject = replace(regression_subject(), stored=stored)
    return run_pipeline(model, out=out, subject=subject, options=options)


@pytest.mark.parametrize(
    "options",
    [
        CompressionOptions(tolerance=1e-5),
        CompressionOptions(target_bytes=9000),
        CompressionOptions(max_loss=0.0),
    ],
)
def test_what_was_quantized_before_is_kept_where_it_is_small_enough(
    tmp_path: Path, options: CompressionOptions
) -> None:
    model, stored = _quantized(tmp_path)
    rows = _compress_again(tmp_path, model, stored, options)
    assert [row.stage for row in rows] == ["original", "entropy-coded"]
    assert rows[0].scores == rows[1].scores
    assert rows[-1].plan is None
    again = read_container(tmp_path / "again" / FINAL_FILE)
    assert again.tensors == stored
    assert {path.name for path in (tmp_path / "again").iterdir()} == {row.file for row in rows}


def test_a_smaller_target_quantizes_anew(tmp_path: Path) -> None:
    model, stored = _quantized(tmp_path)
    size = (tmp_path / FINAL_FILE).stat().st_size
    rows = _compress_again(tmp_path, model, stored, CompressionOptions(target_bytes=round(0.8 * size)))
    assert rows[-1].size_bytes <= 0.8 * size
    assert rows[-1].plan is not None


def test_a_model_trained_since_it_was_quantized_is_quantized_anew(tmp_path: Path) -> None:
    model, stored = _quantized(tmp_path)
    with torch.no_grad():
        model.down.bias.add_(0.5)
    rows = _compress_again(tmp_path, model, stored, CompressionOptions(target_bytes=9000))
    assert rows[-1].plan is not None
    written = load_regression(tmp_path / "again" / FINAL_FILE)
    assert torch.allclose(written.down.bias, model.down.bias, atol=0.05)


def test_the_model_is_as_before(tmp_path: Path) -> None:
    model = build_regression()
    run_pipeline(
        model,
        out=tmp_path,
        subject=regression_subject(),
        options=CompressionOptions(),
        finetuning=regression_finetuning(),
    )
    assert all(
        torch.equal(tensor, model.state_dict()[name]) for name, tensor in build_regression().state_dict().items()
    )


def test_a_full_disk_midway_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = Path.write_bytes

    def full(self: Path, content: bytes) -> int:
        if "kmeans" in self.name:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(self, content)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OutputError, match=r"kmeans.lnlp: could not be written, .*No space left on device"):
        compress(tmp_path)
    assert not (tmp_path / FINAL_FILE).exists()


def test_a_model_with_nothing_to_prune_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="LayerNorm: expected weight matrices"):
        run_pipeline(nn.LayerNorm(3), out=tmp_path, subject=regression_subject(), options=CompressionOptions())
    assert list(tmp_path.iterdir()) == []
