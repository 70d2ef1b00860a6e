"""``compress_module`` and ``load_compressed`` on modules of other people: a CNN, an LSTM, by a score of one's own."""

import copy
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from lite_nlp.compress import compress_module, load_compressed, read_container
from lite_nlp.compress.compressed import LEDGER_FILES
from lite_nlp.compress.work import Work
from lite_nlp.core.errors import ModelError
from tests.unit.compress.small_modules import (
    Batch,
    Images,
    Tagger,
    accuracy_of,
    batch_loss,
    image_batches,
    tag_batches,
    trained,
)


@pytest.fixture(scope="module")
def lstm() -> nn.Module:
    torch.manual_seed(0)
    return trained(Tagger(), tag_batches(), 80)


def _check_files(
    rows: list[Any], out: Path, fresh: Callable[[], nn.Module], score: Callable[[nn.Module], float], metric: str
) -> None:
    """Every file decodes into a fresh module that has the score of its row."""
    for row in rows:
        module = fresh()
        load_compressed(out / row.file, module)
        with torch.no_grad():
            assert score(module.eval()) == pytest.approx(row.scores[metric])
        assert row.size_bytes == (out / row.file).stat().st_size
        assert row.ratio == pytest.approx(rows[0].size_bytes / row.size_bytes, abs=1e-3)


def _check_ledger(rows: list[Any], out: Path) -> None:
    """Beside the models are the files that the command writes, with the same figures."""
    assert {path.name for path in out.iterdir()} == {*(row.file for row in rows), *LEDGER_FILES}
    ledger = json.loads((out / "ledger.json").read_text(encoding="utf-8"))
    assert ledger["stages"] == json.loads(json.dumps([row.as_dict() for row in rows]))
    assert (ledger["model"], ledger["text"], ledger["metric"], ledger["lower_is_better"]) == (
        "Images", "", "accuracy", False,
    )  # fmt: skip
    names = [matrix["name"] for matrix in ledger["plan"]["matrices"]]
    assert names == ["features.3.weight", "classify.weight"]
    page = (out / "compression.html").read_text(encoding="utf-8")
    for words in ("accuracy before", "Why each matrix has the bits that it has", "features.3.weight"):
        assert words in page
    assert "scored on" not in page
    assert "features.3.weight" in (out / "plan.svg").read_text(encoding="utf-8")


def test_a_cnn(cnn: nn.Module, tmp_path: Path) -> None:
    batches, out = image_batches(), tmp_path / "small"
    score = accuracy_of(batches)
    rows = compress_module(
        cnn,
        out=out,
        score=score,
        metric="accuracy",
        batches=batches,
        loss=batch_loss,
        target_ratio=5,
        finetune_steps=20,
        example_inputs=(torch.zeros(1, 1, 8, 8),),
    )
    assert (rows[0].stage, rows[-1].stage) == ("original", "entropy-coded")
    assert rows[-1].ratio >= 5
    assert rows[0].scores["accuracy"] > 90
    assert rows[-1].scores["accuracy"] > 80
    # Convolutions of 16 x 1 and 32 x 16 kernels of 9 over 64 places, and the Linear.
    assert {row.macs for row in rows} == {16 * 9 * 64 + 32 * 16 * 9 * 64 + 512 * 4}
    _check_files(rows, out, Images, score, "accuracy")
    _check_ledger(rows, out)
    container = read_container(out / "model.lnlp")
    assert container.metadata["name"] == "Images"
    encodings = {name: tensor.encoding for name, tensor in container.tensors.items()}
    assert encodings["features.3.weight"].startswith(("kmeans", "grid"))
    assert encodings["features.1.running_var"] == "fp16"
    assert encodings["features.1.num_batches_tracked"] == "int64"


def test_channels_are_removed_first(cnn: nn.Module, tmp_path: Path) -> None:
    batches, out, image = image_batches(), tmp_path / "small", torch.zeros(1, 1, 8, 8)
    score = accuracy_of(batches)
    arguments: dict[str, Any] = {"score": score, "metric": "accuracy", "batches": batches, "loss": batch_loss}
    rows = compress_module(
        cnn, out=out, **arguments, structured=0.4, example_inputs=(image,), target_ratio=8, finetune_steps=20
    )
    assert [row.stage for row in rows[:2]] == ["original", "structured"]
    whole = 16 * 9 * 64 + 32 * 16 * 9 * 64 + 512 * 4
    assert rows[0].macs == whole
    assert {row.macs for row in rows[1:]} == {rows[1].macs}
    assert (rows[1].macs or whole) <= 0.6 * whole
    assert rows[1].size_bytes < 0.8 * rows[0].size_bytes
    assert rows[-1].scores["accuracy"] > 80
    _check_files(rows, out, Images, score, "accuracy")
    structured = json.loads((out / "ledger.json").read_text(encoding="utf-8"))["structured"]
    assert structured["macs"] == {"before": whole, "after": rows[1].macs}
    assert {part["key"] for part in structured["removed"]} <= {"features.0", "features.3"}
    assert "channels of features." in (out / "compression.html").read_text(encoding="utf-8")
    # What is left is a module of its own: it runs, is counted, and is loaded into again.
    restored = load_compressed(out / "model.lnlp", Images())
    assert restored(image).shape == (1, 4)
    assert load_compressed(out / "model.lnlp", restored) is restored
    with pytest.raises(ModelError, match=r"of shape \[\d+, .* in place of \[5, 512\]"):
        other = Images()
        other.classify = nn.Linear(512, 5)
        load_compressed(out / "model.lnlp", other)


def test_an_lstm(lstm: nn.Module, tmp_path: Path) -> None:
    batches, out = tag_batches(), tmp_path / "small"

    def perplexity(model: nn.Module) -> float:
        return math.exp(sum(float(batch_loss(model, batch)) for batch in batches) / len(batches))

    rows = compress_module(
        lstm,
        out=out,
        score=perplexity,
        metric="perplexity",
        lower_is_better=True,
        batches=batches,
        loss=batch_loss,
        max_loss=0.5,
        finetune_steps=5,
    )
    assert "perplexity over file size, lower is better" in (out / "size-quality.svg").read_text(encoding="utf-8")
    lost = rows[-1].scores["perplexity"] - rows[0].scores["perplexity"]
    assert lost <= 0.5
    assert rows[-1].ratio > 2.5
    assert rows[-1].macs is None
    _check_files(rows, out, Tagger, perplexity, "perplexity")
    container = read_container(out / "model.lnlp")
    assert container.aliases == {"output.weight": "embed.weight"}
    recurrent = ("lstm.weight_ih_l0", "lstm.weight_hh_l0", "lstm.weight_ih_l0_reverse", "lstm.weight_hh_l0_reverse")
    assert all(container.tensors[name].encoding.startswith(("kmeans", "grid")) for name in recurrent)


def test_a_score_alone_is_enough(cnn: nn.Module, tmp_path: Path) -> None:
    score = accuracy_of(image_batches())
    rows = compress_module(cnn, out=tmp_path / "small", score=score)
    assert [row.stage for row in rows] == ["original", "pruned", "kmeans", "entropy-coded"]
    # Guided by the score itself: at most a hundredth of it may be lost.
    assert rows[-1].scores["score"] >= 0.985 * rows[0].scores["score"]
    assert rows[-1].ratio > 4


def test_scores_of_single_examples_give_intervals_and_paired_tests(cnn: nn.Module, tmp_path: Path) -> None:
    batches = image_batches()

    def hits(model: nn.Module) -> Tensor:
        return 100 * torch.cat([(model(inputs).argmax(-1) == labels).float() for inputs, labels in batches])

    rows = compress_module(cnn, out=tmp_path / "small", score=hits, metric="accuracy", target_ratio=12)
    single = accuracy_of(batches)
    for row in rows:
        module = load_compressed(tmp_path / "small" / row.file, Images()).eval()
        with torch.no_grad():
            assert row.scores["accuracy"] == pytest.approx(single(module))
        assert sum(row.bytes_by_kind.values()) == row.size_bytes
    last = rows[-1].as_dict()
    change = last["against_original"]["accuracy"]
    assert change["difference"] == pytest.approx(rows[-1].scores["accuracy"] - rows[0].scores["accuracy"], abs=1e-3)
    low, high = last["intervals"]["accuracy"]
    assert low <= rows[-1].scores["accuracy"] <= high


def test_the_module_of_the_caller_is_not_touched(cnn: nn.Module, tmp_path: Path) -> None:
    before = copy.deepcopy(cnn.state_dict())
    cnn.train()
    compress_module(
        cnn, out=tmp_path / "small", score=lambda _: 1.0, batches=image_batches(), loss=batch_loss, finetune_steps=2
    )
    assert cnn.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in cnn.state_dict().items())
    assert all(parameter.requires_grad for parameter in cnn.parameters())


def test_recurrent_layers_are_fine_tuned_without_cudnn(lstm: nn.Module, cnn: nn.Module, tmp_path: Path) -> None:
    # In evaluation mode cuDNN has a backward pass for convolutions but not for recurrent layers.
    enabled: dict[str, set[bool]] = {}
    for name, module, batches in (("lstm", lstm, tag_batches()), ("cnn", cnn, image_batches())):
        seen = enabled.setdefault(name, set())

        def loss(model: nn.Module, batch: Batch, seen: set[bool] = seen) -> Tensor:
            if torch.is_grad_enabled():
                seen.add(torch.backends.cudnn.enabled)
            return batch_loss(model, batch)

        compress_module(
            module,
            out=tmp_path / name,
            score=lambda _: 1.0,
            batches=batches,
            loss=loss,
            finetune_steps=1,
            tolerance=0.0,
        )
    assert enabled == {"lstm": {False}, "cnn": {True}}
    assert torch.backends.cudnn.enabled


def test_an_interrupted_call_goes_on_where_it_was_told_to(
    cnn: nn.Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches, steps = image_batches(), 0
    # A state after every step.
    monkeypatch.setattr(Work, "due", lambda work: True)

    def counted(model: nn.Module, batch: Batch) -> Tensor:
        nonlocal steps
        steps += model.training or torch.is_grad_enabled()
        if steps == stop:
            raise KeyboardInterrupt
        return batch_loss(model, batch)

    def run(name: str, **options: Any) -> bytes:
        nonlocal steps
        steps = 0
        compress_module(
            cnn,
            out=tmp_path / name,
            score=accuracy_of(batches),
            batches=batches,
            loss=counted,
            target_ratio=6,
            finetune_steps=12,
            gradient_accumulation=2,
            cycles=2,
            **options,
        )
        return (tmp_path / name / "model.lnlp").read_bytes()

    stop = -1
    whole, all_steps = run("whole"), steps
    assert list(tmp_path.iterdir()) == [tmp_path / "whole"]
    stop = all_steps - 3
    with pytest.raises(KeyboardInterrupt):
        run("cut")
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["cut.partial", "whole"]
    stop = -1
    assert run("cut", resume=True) == whole
    assert steps < all_steps / 2
    # Without being told to it begins anew, and another call's work is no help.
    for options in ({}, {"resume": True, "max_loss": 90.0}):
        stop = all_steps - 3
        with pytest.raises(KeyboardInterrupt):
            run("cut", force=True)
        stop = -1
        run("cut", force=True, **options)
        assert steps >= all_steps
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["cut", "whole"]


def test_another_module_is_a_reference(cnn: nn.Module, tmp_path: Path) -> None:
    batches = image_batches()
    torch.manual_seed(7)
    other, given = Images(), {name: value.clone() for name, value in cnn.state_dict().items()}
    rows = compress_module(
        cnn,
        out=tmp_path / "small",
        score=lambda model: 100 * torch.cat([(model(x).argmax(-1) == y).flatten().float() for x, y in batches]),
        metric="accuracy",
        reference=other,
        example_inputs=(batches[0][0],),
    )
    ledger = json.loads((tmp_path / "small" / "ledger.json").read_text(encoding="utf-8"))
    assert ledger["reference"]["model"] == "Images"
    assert ledger["reference"]["macs"] == rows[0].macs
    # Of the same architecture: as fp32 it is as large, but for what its file embeds.
    assert ledger["reference"]["size_bytes"] == pytest.approx(rows[0].size_bytes, abs=100)
    accuracy = accuracy_of(batches)(other)
    assert ledger["reference"]["scores"] == {"accuracy": pytest.approx(accuracy)}
    last = rows[-1]
    assert last.reference_ratio == pytest.approx(ledger["reference"]["size_bytes"] / last.size_bytes, abs=1e-3)
    assert last.against_reference["accuracy"].difference == pytest.approx(last.scores["accuracy"] - accuracy)
    assert all(torch.equal(value, given[name]) for name, value in cnn.state_dict().items())


def test_evaluate_takes_the_place_of_the_loss_as_a_guide(cnn: nn.Module, tmp_path: Path) -> None:
    calls: list[bool] = []

    def evaluate(model: nn.Module) -> float:
        calls.append(model.training or torch.is_grad_enabled())
        return 0.0

    rows = compress_module(cnn, out=tmp_path / "small", score=lambda _: 1.0, evaluate=evaluate)
    # Nothing that is done to the weights is worse than anything else.
    assert rows[-1].bits_per_weight < 2.5
    assert calls
    assert not any(calls)


def test_files_and_name_are_embedded(cnn: nn.Module, tmp_path: Path) -> None:
    compress_module(
        cnn, out=tmp_path / "small", score=lambda _: 1.0, name="digits", files={"labels.txt": b"a\nb\n"}, tolerance=0.0
    )
    container = read_container(tmp_path / "small" / "model.lnlp")
    assert container.metadata["name"] == "digits"
    assert container.files == {"labels.txt": b"a\nb\n"}


def test_progress_is_reported(cnn: nn.Module, tmp_path: Path) -> None:
    class Recorded:
        started: list[str] = []  # noqa: RUF012
        steps = 0

        def start(self, task: str, total: int | None) -> None:
            self.started.append(task)

        def advance(self, steps: int = 1, figures: str = "") -> None:
            self.steps += steps

    progress = Recorded()
    compress_module(cnn, out=tmp_path / "small", score=lambda _: 1.0, progress=progress)
    assert progress.started == ["importance of the weights", "sensitivity", "planning (kmeans)"]
    assert progress.steps > 4


def test_weights_loaded_are_those_of_the_file(lstm: nn.Module, tmp_path: Path) -> None:
    compress_module(lstm, out=tmp_path / "small", score=lambda _: 1.0, tolerance=0.0)
    fresh = Tagger()
    load_compressed(tmp_path / "small" / "model.lnlp", fresh)
    state = read_container(tmp_path / "small" / "model.lnlp").state_dict()
    assert all(np.array_equal(tensor.numpy(), state[name]) for name, tensor in fresh.state_dict().items())
    assert fresh.output.weight is fresh.embed.weight
