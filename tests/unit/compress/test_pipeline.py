"""The whole pipeline on a small regression model: nothing here knows about translation."""

import errno
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count, repeat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lite_nlp.compress.ledger import CompressionSubject, ReferenceModel, StageRow
from lite_nlp.compress.lnlp.container import read_container
from lite_nlp.compress.lnlp.encodings import EncodedTensor
from lite_nlp.compress.metric import Metric
from lite_nlp.compress.pipeline import CompressionOptions, run_pipeline
from lite_nlp.compress.quantize.clustering import KMeansQuantizer
from lite_nlp.compress.significance import Scored, mean_measure
from lite_nlp.compress.stages import FINAL_FILE
from lite_nlp.compress.tuning import TuningOptions
from lite_nlp.compress.weight_tuner import Finetuning
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


def _load(path: Path) -> Regression:
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
        informing=lambda: [0],
        information=_loss,
        count_macs=lambda _: 2 * WIDTH * 64,
    )


def _finetuning() -> Finetuning:
    def batches() -> Iterator[int]:
        return repeat(0)

    return Finetuning(
        batches=batches,
        loss=_loss,
        options=TuningOptions(steps=30),
    )


def compress(
    out: Path,
    *,
    finetuning: Finetuning | None = None,
    on_evaluation: Callable[[], None] = lambda: None,
    **options: object,
) -> list[StageRow]:
    def evaluate(model: nn.Module) -> float:
        on_evaluation()
        return _evaluate(model)

    return run_pipeline(
        _model(),
        out=out,
        subject=replace(_subject(), evaluate=evaluate),
        options=CompressionOptions(**{"quantizer": "kmeans"} | options),  # type: ignore[arg-type]
        finetuning=finetuning,
    )


def test_every_figure_is_that_of_the_file(tmp_path: Path) -> None:
    rows = compress(tmp_path, finetuning=_finetuning(), tolerance=0.2)
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

    worse = _model()
    with torch.no_grad():
        worse.down.weight *= 0.5
    reference = ReferenceModel(name="half", size_bytes=99_000, macs=None, scored=_score_examples(worse))
    subject = replace(_subject(), score=score, reference=reference)
    rows = run_pipeline(_model(), out=tmp_path, subject=subject, options=CompressionOptions(tolerance=0.02))
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


@pytest.mark.parametrize("target_bytes", [9000, 5000, 3200])
def test_a_target_size_is_met_by_the_real_file(tmp_path: Path, target_bytes: int) -> None:
    rows = compress(tmp_path, finetuning=_finetuning(), target_bytes=target_bytes)
    assert 0.6 * target_bytes < (tmp_path / FINAL_FILE).stat().st_size <= target_bytes
    assert rows[-1].size_bytes <= target_bytes


@pytest.mark.parametrize("quantizer", ["kmeans", "grid"])
def test_a_plan_is_about_as_large_as_its_file_and_never_smaller(tmp_path: Path, quantizer: str) -> None:
    def score(model: nn.Module) -> dict[str, float]:
        return {name: 100 * (1 - _evaluate(model)) / place for place, name in enumerate(("bleu", "chrf", "ter"), 1)}

    rows = run_pipeline(
        _model(),
        out=tmp_path,
        subject=replace(_subject(), score=score),
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
    subject = replace(_subject(), metric=error, score=lambda model: {"bleu": 0.0, "error": _evaluate(model)})
    sizes = []
    for max_loss in (0.2, 0.01):
        out = tmp_path / str(max_loss)
        out.mkdir()
        options = CompressionOptions(tolerance=0.02, max_loss=max_loss)
        rows = run_pipeline(_model(), out=out, subject=subject, options=options)
        # The loss allowed is used, from either side of the tolerance that the search begins with.
        assert 0.3 * max_loss < rows[-1].scores["error"] - rows[0].scores["error"] <= max_loss
        sizes.append(rows[-1].size_bytes)
    assert sizes[0] < sizes[1]
    with pytest.raises(
        ModelError, match=r"a loss of at most 0 of error; the smallest loss reached is 0\.000\d+ of error at"
    ):
        run_pipeline(_model(), out=tmp_path, subject=subject, options=CompressionOptions(max_loss=0))


def test_a_file_that_loses_more_than_the_search_saw_is_dropped(tmp_path: Path) -> None:
    working = _model()

    def score(model: nn.Module) -> dict[str, float]:
        """The search scores the model at hand, the ledger those read back."""
        return {"error": 0.02 if model is working else _evaluate(model)}

    error = Metric(name="error", label="error", unit="of error", lower_is_better=True)
    dropped: list[StageRow] = []
    rows = run_pipeline(
        working,
        out=tmp_path,
        subject=replace(_subject(), metric=error, score=score),
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
    before = _model()
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
            _model(),
            out=tmp_path,
            subject=replace(_subject(), score=score),
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
            _model(),
            out=tmp_path,
            subject=_subject(),
            options=CompressionOptions(max_loss=0, tolerance=1e-12, quantizer="kmeans"),
            on_dropped=dropped.append,
        )
    # No plan is within this tolerance, nor within a fraction of it: the finest is taken for all.
    assert [row.file for row in dropped].count(FINAL_FILE) == 1


def test_weights_that_are_not_finite_are_named_before_anything_is_written(tmp_path: Path) -> None:
    model = _model()
    with torch.no_grad():
        model.down.weight[0, 0] = torch.nan
    with pytest.raises(ModelError, match=r"regression: down\.weight: expected finite weights, found 1 of [\d,]+ not"):
        run_pipeline(model, out=tmp_path, subject=_subject(), options=CompressionOptions())
    assert list(tmp_path.iterdir()) == []


def test_a_score_that_is_no_number_beside_the_metric_is_told(tmp_path: Path) -> None:
    subject = replace(_subject(), score=lambda _: {"bleu": 1.0, "loss": float("nan")})
    with pytest.raises(ModelError, match="regression: expected a finite loss, found nan"):
        run_pipeline(_model(), out=tmp_path, subject=subject, options=CompressionOptions())


def test_target_and_largest_loss_that_contradict_each_other(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"cannot be compressed within 1,500 bytes with a loss of at most 0\.1 BLEU"):
        compress(tmp_path, target_bytes=1500, max_loss=0.1)


def test_structured_pruning_changes_the_model_that_is_written(tmp_path: Path) -> None:
    def shrink(model: nn.Module) -> nn.Module:
        assert isinstance(model, Regression)
        smaller = Regression()
        smaller.load_state_dict(model.state_dict())
        with torch.no_grad():
            smaller.up.weight[::2] = 0
        return smaller

    rows = run_pipeline(
        _model(),
        out=tmp_path,
        subject=_subject(),
        options=CompressionOptions(tolerance=0.01, quantizer="kmeans"),
        shrink=shrink,
    )
    assert [row.stage for row in rows[:3]] == ["original", "structured", "pruned"]
    assert rows[0].sparsity == 0
    assert rows[1].sparsity > 0.2


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


def _quantized(tmp_path: Path) -> tuple[Regression, dict[str, EncodedTensor]]:
    """A model read from a compressed file, and the tensors of that file."""
    compress(tmp_path, tolerance=1e-3)
    return _load(tmp_path / FINAL_FILE), read_container(tmp_path / FINAL_FILE).tensors


def _compress_again(
    tmp_path: Path, model: nn.Module, stored: dict[str, EncodedTensor], options: CompressionOptions
) -> list[StageRow]:
    (out := tmp_path / "again").mkdir()
    subject = replace(_subject(), stored=stored)
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
    written = _load(tmp_path / "again" / FINAL_FILE)
    assert torch.allclose(written.down.bias, model.down.bias, atol=0.05)


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
        compress(tmp_path)
    assert not (tmp_path / FINAL_FILE).exists()


def test_a_model_with_nothing_to_prune_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="LayerNorm: expected weight matrices"):
        run_pipeline(nn.LayerNorm(3), out=tmp_path, subject=_subject(), options=CompressionOptions())
    assert list(tmp_path.iterdir()) == []
