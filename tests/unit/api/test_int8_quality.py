from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lite_nlp.api import int8_quality
from lite_nlp.api.int8_quality import QualityGate
from lite_nlp.artifacts.models import LoadedModel
from lite_nlp.compress.metric import Metric
from lite_nlp.config.preset import load_config
from lite_nlp.core.errors import ModelError, UsageError
from lite_nlp.export.runtime.layout import Precision
from lite_nlp.tasks import calibration
from tests.integration.conftest import write_model

LINES = ["a man runs", "two dogs play in the snow", "she reads a book", "the boy is on a bike"]
SCORES = {"onnx": 41.0, "executorch": 40.0, "other": 41.5}


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    from lite_nlp.artifacts.models import load_model

    path = tmp_path_factory.mktemp("made") / "tiny"
    write_model(path, LINES, vocab_size=300, metrics={}, family="transformer", num_heads=2)
    return load_model(path)


@pytest.fixture
def guided(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A task whose bundle scores 41 and 40 where the model scores 42; notes the names of the files that it scores."""
    names: list[str] = []

    def score_bundle(path: Path, progress: Any) -> dict[str, SimpleNamespace]:
        names.append(path.name)
        assert path.read_bytes() == b"bundle"
        return {runtime: SimpleNamespace(scores={"bleu": bleu}) for runtime, bleu in SCORES.items()}

    guidance = SimpleNamespace(
        name="all sentences",
        metric=Metric(name="bleu", label="BLEU", unit="BLEU"),
        bundles=SimpleNamespace(
            name="3 sentences",
            score_model=lambda progress: SimpleNamespace(scores={"bleu": 42.0}),
            score_bundle=score_bundle,
        ),
        names=names,
    )
    monkeypatch.setattr(int8_quality, "guide_compression", lambda loaded, data: guidance)
    monkeypatch.setattr(calibration, "inspect_calibration", lambda *arguments, **options: ["short"])
    return guidance


def test_a_loss_within_the_limit_is_told(guided: SimpleNamespace, loaded: LoadedModel, tmp_path: Path) -> None:
    gate = QualityGate(loaded, None, precision="int8", max_loss=2.0, progress=None)
    assert gate.warnings == ("short",)
    bundle = tmp_path / ".bundle.zip.partial"
    bundle.write_bytes(b"bundle")
    found = gate.measure(bundle)
    assert found.as_dict() == {
        "data": "3 sentences",
        "metric": "bleu",
        "before": {"bleu": 42.0},
        "after": {"bleu": 40.0},
        "runtime": "executorch",
        "lost": 2.0,
    }
    # Whatever the file is called while it is written.
    assert guided.names == ["bundle.zip"]


def test_a_larger_loss_is_refused(guided: SimpleNamespace, loaded: LoadedModel, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle.partial"
    bundle.write_bytes(b"bundle")
    message = (
        r"--precision mixed: expected a loss of at most 1.9 BLEU on 3 sentences, found 2.00 in executorch \(42.00 "
    )
    with pytest.raises(ModelError, match=message):
        QualityGate(loaded, None, precision="mixed", max_loss=1.9, progress=None).measure(bundle)


def test_losses_of_matrices_are_measured_on_the_texts_that_are_not_scored(
    guided: SimpleNamespace, loaded: LoadedModel
) -> None:
    guided.bundles.sides = lambda: [[[7, 8, 9], [5]]]
    gate = QualityGate(loaded, None, precision="mixed", max_loss=1.0, progress=None)
    assert gate.calibration == [[[7, 8, 9], [5]]]


@pytest.mark.parametrize("limit", [-1.0, float("nan"), float("inf")])
def test_a_limit_that_is_none(guided: SimpleNamespace, loaded: LoadedModel, limit: float) -> None:
    with pytest.raises(UsageError, match="--max-loss: expected a number of at least 0"):
        QualityGate(loaded, None, precision="int8", max_loss=limit, progress=None)


def test_a_task_that_scores_no_bundles(guided: SimpleNamespace, loaded: LoadedModel) -> None:
    guided.bundles = None
    with pytest.raises(UsageError, match=r"--precision mixed: expected a model of a task that scores bundles, .* none"):
        QualityGate(loaded, None, precision="mixed", max_loss=1.0, progress=None)


@pytest.mark.parametrize("precision", ["int8", "mixed"])
def test_another_architecture_needs_data(loaded: LoadedModel, precision: Precision) -> None:
    other = replace(loaded, config=load_config("tinyshakespeare-transformer"))
    with pytest.raises(UsageError, match="--data is required"):
        QualityGate(other, None, precision=precision, max_loss=1.0, progress=None)
