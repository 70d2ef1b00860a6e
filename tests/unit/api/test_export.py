"""What an export tells of its options. Converting takes most of a minute and is tested elsewhere."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import lite_nlp
from lite_nlp.api import export
from lite_nlp.artifacts.models import LoadedModel, load_model
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
