"""The whole pipeline on a small regression model: nothing here knows about translation."""

import errno
import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import repeat
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lite_nlp.compress.finetune import FinetuneOptions
from lite_nlp.compress.ledger import CompressionSubject, StageRow
from lite_nlp.compress.lnlp.container import read_container
from lite_nlp.compress.metric import Metric
from lite_nlp.compress.pipeline import CompressionOptions, Finetuning, run_pipeline
from lite_nlp.compress.stages import FINAL_FILE
from lite_nlp.core.errors import ModelError, OutputError

WIDTH = 48


class Regression(nn.Module):
    """Two layers; half of the hidden units do nothing, so that there is something to prune."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(WIDTH, 64)
        self.down = nn.Linear(64, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(torch.relu(self.up(x)))  # type: ignore[no-any-return]


def _model() -> Regression:
    torch.manual_seed(0)
    model = Regression()
    with torch.no_grad():
        model.up.weight[::2] *= 0.01
        model.down.weight[:, ::2] *= 0.01
    return model


INPUTS = torch.randn(64, WIDTH, generator=torch.Generator().manual_seed(1))
TARGETS = _model()(INPUTS).detach()


def _loss(model: nn.Module, _: object = None) -> Tensor:
    return F.mse_loss(model(INPUTS), TARGETS) / TARGETS.var()


def _evaluate(model: nn.Module) -> float:
    with torch.no_grad():
        return float(_loss(model))


def _load(path: Path) -> nn.Module:
    model = Regression()
    state = read_container(path).state_dict()
    model.load_state_dict({name: torch.from_numpy(array) for name, array in state.items()})
    return model


def _subject() -> CompressionSubject:
    return CompressionSubject(
        name="regression",
        files=lambda _: {"config.toml": b"width = 48\n"},
        load=_load,
        metric=Metric(name="bleu", label="BLEU", unit="BLEU"),
        score=lambda model: {"bleu": 100 * (1 - _evaluate(model))},
        evaluate=_evaluate,
        count_macs=lambda _: 2 * WIDTH * 64,
    )


def _finetuning() -> Finetuning:
    def batches() -> Iterator[int]:
        return repeat(0)

    return Finetuning(
        batches=batches,
        loss=_loss,
        pruned=FinetuneOptions(steps=20, learning_rate=1e-3),
        quantized=FinetuneOptions(steps=10, learning_rate=1e-4),
    )


def _compress(out: Path, *, finetuning: Finetuning | None = None, **options: object) -> list[StageRow]:
    return run_pipeline(
        _model(),
        out=out,
        subject=_subject(),
        options=CompressionOptions(**options),  # type: ignore[arg-type]
        finetuning=finetuning,
    )


def test_every_figure_is_that_of_the_file(tmp_path: Path) -> None:
    rows = _compress(tmp_path, finetuning=_finetuning(), tolerance=0.02)
    assert [row.stage for row in rows] == ["original", "pruned", "finetuned", "kmeans", "entropy-coded"]
    assert rows[-1].file == FINAL_FILE
    assert {path.name for path in tmp_path.iterdir()} == {row.file for row in rows}
    weights = sum(parameter.numel() for parameter in _model().parameters())
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
        assert row.scores["bleu"] == pytest.approx(100 * (1 - _evaluate(_load(path))))
        assert container.metadata["stage"] == row.stage
        assert container.files == {"config.toml": b"width = 48\n"}
    sizes = [row.size_bytes for row in rows]
    assert sizes[0] > sizes[1] > sizes[3] > sizes[4]
    assert rows[1].sparsity > 0.4
    assert rows[-1].scores["bleu"] > 97
    assert [row["stage"] for row in read_container(tmp_path / FINAL_FILE).metadata["stages"]] == [
        row.stage for row in rows[:-1]
    ]
    json.dumps([row.as_dict() for row in rows])


def test_finetuning_can_be_left_out(tmp_path: Path) -> None:
    rows = _compress(tmp_path)
    assert [row.stage for row in rows] == ["original", "pruned", "kmeans", "entropy-coded"]


@pytest.mark.parametrize("target_bytes", [9000, 5000, 3200])
def test_a_target_size_is_met_by_the_real_file(tmp_path: Path, target_bytes: int) -> None:
    rows = _compress(tmp_path, finetuning=_finetuning(), target_bytes=target_bytes)
    assert 0.6 * target_bytes < (tmp_path / FINAL_FILE).stat().st_size <= target_bytes
    assert rows[-1].size_bytes <= target_bytes


def test_a_target_ratio_is_met(tmp_path: Path) -> None:
    assert _compress(tmp_path, target_ratio=6.0)[-1].ratio >= 6.0


def test_an_unreachable_target_tells_the_smallest_size(tmp_path: Path) -> None:
    with pytest.raises(
        ModelError, match=r"regression: cannot be compressed to 500 bytes; the smallest file .* has \d+ bytes"
    ):
        _compress(tmp_path, target_bytes=500)


def test_largest_loss_backs_off_sparsity(tmp_path: Path) -> None:
    for name in ("careless", "careful"):
        (tmp_path / name).mkdir()
    careless = _compress(tmp_path / "careless", tolerance=0.2)
    careful = _compress(tmp_path / "careful", tolerance=0.2, max_loss=1.0)
    assert careless[0].scores["bleu"] - careless[-1].scores["bleu"] > 1.0
    assert careful[0].scores["bleu"] - careful[-1].scores["bleu"] <= 1.0
    assert careful[-1].sparsity < careless[-1].sparsity
    assert [row.stage for row in careful] == [row.stage for row in careless]


def test_largest_loss_of_a_metric_that_is_better_when_lower(tmp_path: Path) -> None:
    error = Metric(name="error", label="error", unit="of error", lower_is_better=True)
    subject = replace(_subject(), metric=error, score=lambda model: {"bleu": 0.0, "error": _evaluate(model)})
    rows: dict[float, list[StageRow]] = {}
    dropped: dict[float, list[StageRow]] = {1.0: [], 0.01: []}
    for max_loss in (1.0, 0.01):
        out = tmp_path / str(max_loss)
        out.mkdir()
        options = CompressionOptions(tolerance=0.2, max_loss=max_loss)
        rows[max_loss] = run_pipeline(
            _model(), out=out, subject=subject, options=options, on_dropped=dropped[max_loss].append
        )
    lost = {max_loss: found[-1].scores["error"] - found[0].scores["error"] for max_loss, found in rows.items()}
    assert 0.01 < lost[1.0] <= 0.2
    assert 0.0 < lost[0.01] <= 0.01
    # What was tried and lost too much is told, and its files are gone.
    assert dropped[1.0] == []
    assert dropped[0.01][-1].scores["error"] - rows[0.01][0].scores["error"] > 0.01
    assert {path.name for path in (tmp_path / "0.01").iterdir()} == {row.file for row in rows[0.01]}
    with pytest.raises(
        ModelError, match=r"a loss of at most -1 of error; the smallest loss reached is 0\.\d+ of error at"
    ):
        run_pipeline(_model(), out=tmp_path, subject=subject, options=CompressionOptions(max_loss=-1))


def test_an_impossible_loss_is_told(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"with a loss of at most -1 BLEU; the smallest loss reached is 0\.\d+ BLEU"):
        _compress(tmp_path, max_loss=-1)


def test_target_and_largest_loss_that_contradict_each_other(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"cannot be compressed within 1,900 bytes with a loss of at most 0\.1 BLEU"):
        _compress(tmp_path, target_bytes=1900, max_loss=0.1)


def test_structured_pruning_changes_the_model_that_is_written(tmp_path: Path) -> None:
    def shrink(model: nn.Module) -> nn.Module:
        assert isinstance(model, Regression)
        smaller = Regression()
        smaller.load_state_dict(model.state_dict())
        with torch.no_grad():
            smaller.up.weight[::2] = 0
        return smaller

    rows = run_pipeline(
        _model(), out=tmp_path, subject=_subject(), options=CompressionOptions(tolerance=0.01), shrink=shrink
    )
    assert [row.stage for row in rows[:3]] == ["original", "structured", "pruned"]
    assert rows[0].sparsity == 0
    assert rows[1].sparsity > 0.2


def test_the_model_is_as_before(tmp_path: Path) -> None:
    model = _model()
    run_pipeline(model, out=tmp_path, subject=_subject(), options=CompressionOptions(), finetuning=_finetuning())
    assert all(torch.equal(tensor, model.state_dict()[name]) for name, tensor in _model().state_dict().items())


def test_a_full_disk_midway_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = Path.write_bytes

    def full(self: Path, content: bytes) -> int:
        if "kmeans" in self.name:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(self, content)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OutputError, match=r"kmeans.lnlp: could not be written, .*No space left on device"):
        _compress(tmp_path)
    assert not (tmp_path / FINAL_FILE).exists()


def test_a_model_with_nothing_to_prune_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="LayerNorm: expected weight matrices"):
        run_pipeline(nn.LayerNorm(3), out=tmp_path, subject=_subject(), options=CompressionOptions())
    assert list(tmp_path.iterdir()) == []
