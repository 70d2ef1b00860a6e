"""What an export tells of its options. Converting takes most of a minute and is tested elsewhere."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import lite_nlp
from lite_nlp.api import export
from lite_nlp.artifacts.models import LoadedModel, load_model
from lite_nlp.core.errors import DataError, UsageError
from tests.integration.conftest import write_model

LINES = ["a few words", "and a few more"]


@pytest.fixture
def classifier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LoadedModel:
    """One that reads 40 tokens; its export writes nothing of it."""

    def write(path: Path, loaded: LoadedModel, **options: Any) -> Any:
        path.write_bytes(b"")
        return SimpleNamespace()

    monkeypatch.setattr(export, "write_model_bundle", write)
    options = {"architecture": "pair-classifier", "family": "lstm", "num_classes": 2, "max_positions": 41}
    write_model(tmp_path / "model", LINES, metrics={"labels": ["a", "b"]}, **options)
    return load_model(tmp_path / "model")


def test_a_bundle_that_reads_less_than_its_model_is_told(classifier: LoadedModel, tmp_path: Path) -> None:
    exported = lite_nlp.export_model(classifier, out=tmp_path / "short.zip", max_src_tokens=21)
    assert exported.warnings == (
        "--max-src-tokens: the bundle reads the first 20 tokens of a text, and the model the first 40: for longer "
        "texts their outputs differ",
    )
    for asked in (None, 41, 300):
        exported = lite_nlp.export_model(classifier, out=tmp_path / "whole.zip", max_src_tokens=asked, force=True)
        assert exported.warnings == ()


def test_a_classifier_has_no_longest_output(classifier: LoadedModel, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--max-tgt-tokens: expected none with a classifier, .* found 20"):
        lite_nlp.export_model(classifier, out=tmp_path / "bundle.zip", max_tgt_tokens=20)
    assert not (tmp_path / "bundle.zip").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_src_tokens": 7}, "--max-src-tokens: expected 8 to 1,048,576, found 7"),
        ({"max_src_tokens": 20.5}, "--max-src-tokens: expected a whole number, found 20.5"),
        ({"max_tgt_tokens": 0}, "--max-tgt-tokens: expected 8 to 1,048,576, found 0"),
        ({"precision": "int4"}, "--precision: expected one of fp32, int8, mixed, found 'int4'"),
        ({"finetune_steps": 0}, "--finetune-steps: expected 1 to 10,000,000, found 0"),
        ({"target_bytes": 0, "compact": True}, "--target-size: expected 1 to 1,000,000,000,000,000,000, found 0"),
        ({"threads": 0}, "--threads: expected 1 to 512, found 0"),
    ],
)
def test_options_out_of_range(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        lite_nlp.export_model("no-such-model", out=tmp_path / "bundle.zip", **options)


def test_the_target_of_a_bundle_is_looked_at_before_the_first_is_made(classifier: LoadedModel, tmp_path: Path) -> None:
    target = {"out": tmp_path / "bundle.zip", "compact": True, "target_bytes": 10_000}
    with pytest.raises(UsageError, match="--no-finetune and --finetune-steps: expected one of them"):
        lite_nlp.export_model("no-such-model", finetune=False, finetune_steps=3, **target)
    with pytest.raises(DataError, match="nowhere: expected a data directory"):
        lite_nlp.export_model(classifier, data=tmp_path / "nowhere", **target)
    with pytest.raises(UsageError, match="--data is required"):
        lite_nlp.export_model(classifier, **target)


def test_bounds_of_numpy_are_numbers(classifier: LoadedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bound: Any = np.int64(21)
    bounds = []
    monkeypatch.setattr(
        export, "write_model_bundle", lambda path, loaded, **options: bounds.append(options) or path.write_bytes(b"")
    )
    lite_nlp.export_model(classifier, out=tmp_path / "bundle.zip", max_src_tokens=bound)
    assert type(bounds[0]["max_src_tokens"]) is int
