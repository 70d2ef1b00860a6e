"""``compress_module`` and ``load_compressed`` on modules of other people: a CNN, an LSTM, by a score of one's own."""

import copy
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lite_nlp.compress import compress_module, load_compressed, read_container
from lite_nlp.compress.compressed import LEDGER_FILES
from lite_nlp.compress.work import Work
from lite_nlp.core.errors import ContainerError, CountError, ModelError, OutputError, UsageError

Batch = tuple[Tensor, Tensor]


class Images(nn.Module):
    """A CNN with batch normalization."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU()
        )
        self.classify = nn.Linear(32 * 16, 4)

    def forward(self, images: Tensor) -> Tensor:
        return self.classify(F.max_pool2d(self.features(images), 2).flatten(1))  # type: ignore[no-any-return]


class Tagger(nn.Module):
    """A bidirectional LSTM whose output layer shares the table of its embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 48)
        self.lstm = nn.LSTM(48, 24, bidirectional=True, batch_first=True)
        self.output = nn.Linear(48, 50)
        self.output.weight = self.embed.weight

    def forward(self, tokens: Tensor) -> Tensor:
        return self.output(self.lstm(self.embed(tokens))[0])  # type: ignore[no-any-return]


def _image_batches() -> list[Batch]:
    generator = torch.Generator().manual_seed(0)
    patterns = torch.randn(4, 1, 8, 8, generator=generator)
    labels = torch.arange(96) % 4
    images = patterns[labels] + 0.7 * torch.randn(96, 1, 8, 8, generator=generator)
    return list(zip(images.split(32), labels.split(32), strict=True))


def _tag_batches() -> list[Batch]:
    tokens = torch.randint(0, 50, (48, 10), generator=torch.Generator().manual_seed(0))
    # The tag is the token before, so that the recurrent weights are needed.
    return list(zip(tokens.split(16), tokens.roll(1, dims=1).split(16), strict=True))


def _loss(model: nn.Module, batch: Batch) -> Tensor:
    logits = model(batch[0])
    return F.cross_entropy(logits.flatten(0, -2), batch[1].flatten())


def _accuracy(batches: list[Batch]) -> Callable[[nn.Module], float]:
    def accuracy(model: nn.Module) -> float:
        hits = torch.cat([(model(inputs).argmax(-1) == labels).flatten() for inputs, labels in batches])
        return 100 * float(hits.float().mean())

    return accuracy


def _trained(module: nn.Module, batches: list[Batch], rounds: int) -> nn.Module:
    optimizer = torch.optim.Adam(module.parameters(), lr=5e-3)
    for _ in range(rounds):
        for batch in batches:
            optimizer.zero_grad()
            _loss(module, batch).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return module


@pytest.fixture(scope="module")
def cnn() -> nn.Module:
    torch.manual_seed(0)
    return _trained(Images(), _image_batches(), 15)


@pytest.fixture(scope="module")
def lstm() -> nn.Module:
    torch.manual_seed(0)
    return _trained(Tagger(), _tag_batches(), 80)


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
    batches, out = _image_batches(), tmp_path / "small"
    score = _accuracy(batches)
    rows = compress_module(
        cnn,
        out=out,
        score=score,
        metric="accuracy",
        batches=batches,
        loss=_loss,
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


def test_an_lstm(lstm: nn.Module, tmp_path: Path) -> None:
    batches, out = _tag_batches(), tmp_path / "small"

    def perplexity(model: nn.Module) -> float:
        return math.exp(sum(float(_loss(model, batch)) for batch in batches) / len(batches))

    rows = compress_module(
        lstm,
        out=out,
        score=perplexity,
        metric="perplexity",
        lower_is_better=True,
        batches=batches,
        loss=_loss,
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
    score = _accuracy(_image_batches())
    rows = compress_module(cnn, out=tmp_path / "small", score=score)
    assert [row.stage for row in rows] == ["original", "pruned", "kmeans", "entropy-coded"]
    # Guided by the score itself: at most a hundredth of it may be lost.
    assert rows[-1].scores["score"] >= 0.985 * rows[0].scores["score"]
    assert rows[-1].ratio > 4


def test_scores_of_single_examples_give_intervals_and_paired_tests(cnn: nn.Module, tmp_path: Path) -> None:
    batches = _image_batches()

    def hits(model: nn.Module) -> Tensor:
        return 100 * torch.cat([(model(inputs).argmax(-1) == labels).float() for inputs, labels in batches])

    rows = compress_module(cnn, out=tmp_path / "small", score=hits, metric="accuracy", target_ratio=12)
    single = _accuracy(batches)
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


@pytest.mark.parametrize(("found", "shape"), [([], r"\[0\]"), ([[1.0, 2.0]], r"\[1, 2\]")])
def test_a_score_of_no_examples_or_of_a_table_is_refused(
    cnn: nn.Module, tmp_path: Path, found: Any, shape: str
) -> None:
    with pytest.raises(ModelError, match=f"expected one accuracy, or one for each example, found shape {shape}"):
        compress_module(cnn, out=tmp_path / "small", score=lambda _: found, metric="accuracy")


def test_the_module_of_the_caller_is_not_touched(cnn: nn.Module, tmp_path: Path) -> None:
    before = copy.deepcopy(cnn.state_dict())
    cnn.train()
    compress_module(
        cnn, out=tmp_path / "small", score=lambda _: 1.0, batches=_image_batches(), loss=_loss, finetune_steps=2
    )
    assert cnn.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in cnn.state_dict().items())
    assert all(parameter.requires_grad for parameter in cnn.parameters())


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


def test_recurrent_layers_are_fine_tuned_without_cudnn(lstm: nn.Module, cnn: nn.Module, tmp_path: Path) -> None:
    # In evaluation mode cuDNN has a backward pass for convolutions but not for recurrent layers.
    enabled: dict[str, set[bool]] = {}
    for name, module, batches in (("lstm", lstm, _tag_batches()), ("cnn", cnn, _image_batches())):
        seen = enabled.setdefault(name, set())

        def loss(model: nn.Module, batch: Batch, seen: set[bool] = seen) -> Tensor:
            if torch.is_grad_enabled():
                seen.add(torch.backends.cudnn.enabled)
            return _loss(model, batch)

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
    batches, steps = _image_batches(), 0
    # A state after every step.
    monkeypatch.setattr(Work, "due", lambda work: True)

    def counted(model: nn.Module, batch: Batch) -> Tensor:
        nonlocal steps
        steps += model.training or torch.is_grad_enabled()
        if steps == stop:
            raise KeyboardInterrupt
        return _loss(model, batch)

    def run(name: str, **options: Any) -> bytes:
        nonlocal steps
        steps = 0
        compress_module(
            cnn,
            out=tmp_path / name,
            score=_accuracy(batches),
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
    batches = _image_batches()
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
    accuracy = _accuracy(batches)(other)
    assert ledger["reference"]["scores"] == {"accuracy": pytest.approx(accuracy)}
    last = rows[-1]
    assert last.reference_ratio == pytest.approx(ledger["reference"]["size_bytes"] / last.size_bytes, abs=1e-3)
    assert last.against_reference["accuracy"].difference == pytest.approx(last.scores["accuracy"] - accuracy)
    assert all(torch.equal(value, given[name]) for name, value in cnn.state_dict().items())


def test_a_reference_without_a_score_is_refused(cnn: nn.Module, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="Images: expected a finite accuracy, found nan"):
        compress_module(
            cnn,
            out=tmp_path / "small",
            score=lambda model: (
                1.0 if torch.equal(model.classify.weight, cnn.get_parameter("classify.weight")) else math.nan
            ),
            metric="accuracy",
            reference=Images(),
        )
    assert list(tmp_path.iterdir()) == []


def test_errors_of_the_callers_functions_are_not_blamed_on_the_output(cnn: nn.Module, tmp_path: Path) -> None:
    def score(_: nn.Module) -> float:
        raise TimeoutError("the metric's server is down")

    with pytest.raises(TimeoutError, match="server is down"):
        compress_module(cnn, out=tmp_path / "small", score=score)
    assert list(tmp_path.iterdir()) == []


class OnePass:
    """Batches whose later passes are empty, as of a file that was read to its end."""

    def __init__(self, batches: list[Batch]) -> None:
        self.iterator = iter(batches)

    def __iter__(self) -> Iterator[Batch]:
        return self.iterator


def test_batches_of_one_pass_are_refused_when_they_end(cnn: nn.Module, tmp_path: Path) -> None:
    batches = OnePass(_image_batches())
    with pytest.raises(
        UsageError, match="batches: expected what can be gone through again, found none at a later pass"
    ):
        compress_module(
            cnn, out=tmp_path / "small", score=lambda _: 1.0, loss=_loss, batches=batches, finetune_steps=20
        )
    assert not (tmp_path / "small").exists()


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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"loss": _loss}, "loss and batches: expected both or neither"),
        ({"batches": [1]}, "loss and batches: expected both or neither"),
        ({"finetune_steps": 5}, "finetune_steps = 5, .*: expected a loss and batches to fine-tune with, found none"),
        ({"cycles": 2}, "cycles = 2: expected a loss and batches to fine-tune with, found none"),
        ({"gradient_accumulation": 2}, "gradient_accumulation = 2, .*: expected a loss and batches to fine-tune with"),
        (
            {"loss": _loss, "batches": iter([1])},
            "batches: expected what can be gone through again.*found list_iterator",
        ),
        ({"loss": _loss, "batches": []}, "batches: expected at least one, found none"),
        ({"metric": "\ud83d"}, r"metric: expected Unicode text, found '\\ud83d'"),
        ({"target_ratio": "5"}, "target_ratio: expected a number, found '5'"),
        ({"target_ratio": 0.5}, "target_ratio: expected more than 1, found 0.5"),
        ({"quantizer": "zip"}, "quantizer: expected one of kmeans, grid, found 'zip'"),
        ({"target_bytes": 1500.5}, "target_bytes: expected an integer, found 1500.5"),
        ({"finetune_steps": -3}, "finetune_steps: expected 0 to 10,000,000, found -3"),
        ({"learning_rate": -1.0}, "learning_rate: expected a number above 0, found -1.0"),
        ({"learning_rate": math.nan}, "learning_rate: expected a number above 0, found nan"),
        ({"tolerance": -1.0}, "tolerance: expected a number of at least 0, found -1.0"),
        ({"max_loss": "1"}, "max_loss: expected a number of at least 0, found '1'"),
        ({"max_loss": -1.0}, "max_loss: expected a number of at least 0, found -1.0"),
        ({"gradient_accumulation": 0}, "gradient_accumulation: expected 1 to 10,000,000, found 0"),
        ({"cycles": 0}, "cycles: expected 1 to 10,000,000, found 0"),
        (
            {"loss": _loss, "batches": [1], "finetune_steps": 4, "cycles": 5},
            "cycles: expected at most the number of steps, 4, found 5",
        ),
        ({"resume": True}, "resume: expected a loss, batches and steps to fine-tune with"),
        ({"loss": _loss, "batches": [1], "finetune_steps": 0, "resume": True}, "resume: expected a loss, batches and"),
        ({"files": {"a/b": b""}}, "files: expected plain file names, found 'a/b'"),
        ({"files": {"a": "text", "b": b""}}, "files: expected bytes, found others in a$"),
        ({"name": "\ud83d"}, r"name: expected Unicode text, found '\\ud83d'"),
    ],
)
def test_wrong_usage_leaves_nothing_behind(
    cnn: nn.Module, tmp_path: Path, arguments: dict[str, Any], message: str
) -> None:
    def score(_: nn.Module) -> float:
        raise AssertionError("what is out of range is refused before anything is measured")

    with pytest.raises(UsageError, match=message):
        compress_module(cnn, out=tmp_path / "small", score=score, **arguments)
    assert list(tmp_path.iterdir()) == []


def test_a_score_that_is_no_number_is_told(cnn: nn.Module, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="Images: expected a finite accuracy, found nan"):
        compress_module(cnn, out=tmp_path / "small", score=lambda _: math.nan, metric="accuracy")


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


def test_a_module_that_was_never_called_is_refused_where_its_weights_have_no_shape(tmp_path: Path) -> None:
    module = nn.Sequential(nn.LazyLinear(64))
    with pytest.raises(ModelError, match=r"expected weights that have a shape, found 0\.weight, 0\.bias: call the"):
        compress_module(module, out=tmp_path / "small", score=lambda _: 1.0)


def test_weights_are_put_into_a_module_that_has_some(tmp_path: Path) -> None:
    compress_module(nn.Linear(64, 64), out=tmp_path / "small", score=lambda _: 1.0)
    file = tmp_path / "small" / "model.lnlp"
    with pytest.raises(
        ModelError, match="expected a module whose weights have a shape, found weight, bias: call it once"
    ):
        load_compressed(file, nn.LazyLinear(64))
    with pytest.raises(
        ModelError, match="expected a module whose weights are in memory, found weight, bias on the dev"
    ):
        load_compressed(file, nn.Linear(64, 64, device="meta"))


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (lambda model, _: model.weight.square(), r"shape \[64, 64\]"),
        (lambda model, _: model.weight.detach().square().sum(), "one without"),
        (lambda model, _: 1.0, "float"),
    ],
)
def test_a_loss_is_one_number_with_gradients(tmp_path: Path, loss: Callable[..., Any], message: str) -> None:
    with pytest.raises(UsageError, match=f"loss: expected one number as a tensor with gradients, found {message}"):
        compress_module(nn.Linear(64, 64), out=tmp_path / "small", score=lambda _: 1.0, loss=loss, batches=[0])
    assert list(tmp_path.iterdir()) == []


def test_a_score_is_a_number(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="Linear: expected one accuracy, or one for each example, found 'good'"):
        compress_module(
            nn.Linear(64, 64),
            out=tmp_path / "small",
            score=lambda _: "good",
            metric="accuracy",
        )


def test_a_module_without_matrices_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="LayerNorm: expected weight matrices of at least 512 elements"):
        compress_module(nn.LayerNorm(4), out=tmp_path / "small", score=lambda _: 1.0)


@pytest.mark.parametrize(
    ("buffer", "message"),
    [
        (torch.eye(4).to_sparse(), "expected a plain tensor, found one that is torch.sparse_coo"),
        (torch.zeros(4, device="meta"), "expected a plain tensor, found one that is on no device"),
        (torch.arange(4).expand(2, 4), "expected a plain tensor, found one that is expanded"),
        (torch.tensor([1e300], dtype=torch.float64), "expected numbers within float32, found larger ones"),
    ],
    ids=["sparse", "meta", "expanded", "large"],
)
def test_a_module_with_tensors_that_a_file_cannot_hold_is_refused(tmp_path: Path, buffer: Tensor, message: str) -> None:
    module = nn.Linear(64, 64)
    module.register_buffer("held", buffer)
    with pytest.raises(ModelError, match=f"^Linear: held: {message}"):
        compress_module(module, out=tmp_path / "small", score=lambda _: 1.0)
    assert list(tmp_path.iterdir()) == []


def test_weights_that_cannot_be_set_are_told(tmp_path: Path) -> None:
    module = nn.Linear(64, 64)
    module.register_buffer("held", torch.arange(8).reshape(2, 4))
    compress_module(module, out=tmp_path / "small", score=lambda _: 1.0)
    module.held = torch.arange(4).expand(2, 4)
    with pytest.raises(ModelError, match=r"model\.lnlp: expected a module whose weights can be set: "):
        load_compressed(tmp_path / "small" / "model.lnlp", module)


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


def test_a_module_that_cannot_be_copied_is_refused(tmp_path: Path) -> None:
    module = nn.Linear(64, 64)
    module.cached = module.weight * 2  # type: ignore[assignment]
    with pytest.raises(ModelError, match=r"Linear: expected a module that copy.deepcopy can copy: "):
        compress_module(module, out=tmp_path / "small", score=lambda _: 1.0)


def test_work_that_cannot_be_counted_is_told(tmp_path: Path) -> None:
    class Dependent(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return x if float(x.sum()) > 0 else super().forward(x)

    with pytest.raises(CountError, match="expected code that runs the same whatever the numbers in its tensors are"):
        compress_module(
            Dependent(64, 64), out=tmp_path / "small", score=lambda _: 1.0, example_inputs=(torch.ones(1, 64),)
        )


def test_an_existing_directory_is_kept_unless_told_otherwise(cnn: nn.Module, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(OutputError, match="output exists already"):
        compress_module(cnn, out=tmp_path, score=lambda _: 1.0)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_files_of_a_former_run_may_be_replaced_and_nothing_else(cnn: nn.Module, tmp_path: Path) -> None:
    out = tmp_path / "small"
    compress_module(cnn, out=out, score=lambda _: 1.0, tolerance=0.0)
    compress_module(cnn, out=out, score=lambda _: 1.0, tolerance=0.0, force=True)
    (out / "notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(OutputError, match=r"notes\.txt"):
        compress_module(cnn, out=out, score=lambda _: 1.0, tolerance=0.0, force=True)


def test_weights_of_another_architecture_are_refused(cnn: nn.Module, tmp_path: Path) -> None:
    compress_module(cnn, out=tmp_path / "small", score=lambda _: 1.0, tolerance=0.0)
    other = nn.Sequential()
    other.add_module("classify", nn.Linear(8, 4))
    before = copy.deepcopy(other.state_dict())
    with pytest.raises(
        ModelError,
        match=r"model.lnlp: expected the weights of Sequential, found features.0.weight unknown, .*, "
        r"classify.weight of shape \[4, 512\] in place of \[4, 8\]",
    ):
        load_compressed(tmp_path / "small" / "model.lnlp", other)
    assert all(torch.equal(tensor, before[name]) for name, tensor in other.state_dict().items())
    with pytest.raises(ModelError, match=r"found weight missing, bias missing, features"):
        load_compressed(tmp_path / "small" / "model.lnlp", nn.Linear(2, 2))
    with pytest.raises(ContainerError, match=r"nowhere.lnlp: expected a compressed model file"):
        load_compressed(tmp_path / "nowhere.lnlp", other)


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
