"""What ``compress_module`` and ``load_compressed`` refuse, and that nothing is left behind."""

import copy
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from lite_nlp.compress import compress_module, load_compressed
from lite_nlp.core.errors import ContainerError, CountError, ModelError, OutputError, UsageError
from tests.unit.compress.small_modules import Batch, Images, batch_loss, image_batches


@pytest.mark.parametrize(("found", "shape"), [([], r"\[0\]"), ([[1.0, 2.0]], r"\[1, 2\]")])
def test_a_score_of_no_examples_or_of_a_table_is_refused(
    cnn: nn.Module, tmp_path: Path, found: Any, shape: str
) -> None:
    with pytest.raises(ModelError, match=f"expected one accuracy, or one for each example, found shape {shape}"):
        compress_module(cnn, out=tmp_path / "small", score=lambda _: found, metric="accuracy")


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
    batches = OnePass(image_batches())
    with pytest.raises(
        UsageError, match="batches: expected what can be gone through again, found none at a later pass"
    ):
        compress_module(
            cnn, out=tmp_path / "small", score=lambda _: 1.0, loss=batch_loss, batches=batches, finetune_steps=20
        )
    assert not (tmp_path / "small").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"loss": batch_loss}, "loss and batches: expected both or neither"),
        ({"batches": [1]}, "loss and batches: expected both or neither"),
        ({"finetune_steps": 5}, "finetune_steps = 5, .*: expected a loss and batches to fine-tune with, found none"),
        ({"cycles": 2}, "cycles = 2: expected a loss and batches to fine-tune with, found none"),
        ({"gradient_accumulation": 2}, "gradient_accumulation = 2, .*: expected a loss and batches to fine-tune with"),
        (
            {"loss": batch_loss, "batches": iter([1])},
            "batches: expected what can be gone through again.*found list_iterator",
        ),
        ({"loss": batch_loss, "batches": []}, "batches: expected at least one, found none"),
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
            {"loss": batch_loss, "batches": [1], "finetune_steps": 4, "cycles": 5},
            "cycles: expected at most the number of steps, 4, found 5",
        ),
        ({"resume": True}, "resume: expected a loss, batches and steps to fine-tune with"),
        (
            {"loss": batch_loss, "batches": [1], "finetune_steps": 0, "resume": True},
            "resume: expected a loss, batches and",
        ),
        ({"files": {"a/b": b""}}, "files: expected plain file names, found 'a/b'"),
        ({"structured": 0.3}, "structured: expected example_inputs with it, found none"),
        ({"structured": 1.0}, "structured: expected a fraction above 0 and below 1, found 1.0"),
        ({"structured": "0.3"}, "structured: expected a fraction above 0 and below 1, found '0.3'"),
        (
            {"files": {"shapes.json": b""}},
            "files: expected no shapes.json, which says what channels were removed",
        ),
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
