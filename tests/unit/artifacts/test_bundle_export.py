"""What an export asks of a model of ours. Converting takes most of a minute and is tested elsewhere."""

from pathlib import Path
from typing import Any

import pytest

from lite_nlp.artifacts import task_bundles
from lite_nlp.artifacts.bundle_export import write_model_bundle
from lite_nlp.artifacts.models import load_model
from lite_nlp.core.errors import BundleError
from lite_nlp.data.pairs.everyday import read_everyday_pairs
from lite_nlp.export import pipeline
from lite_nlp.export.tasks import pipeline as task_pipeline
from tests.integration.conftest import write_model

LINES = ["a few words", "and a few more"]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The options of every conversion that is asked for."""
    found: list[dict[str, Any]] = []
    monkeypatch.setattr(pipeline, "export_bundle", lambda path, **options: found.append(options))
    monkeypatch.setattr(task_pipeline, "export_task_bundle", lambda path, **options: found.append(options))
    return found


@pytest.mark.parametrize(("source", "side"), [("en", 0), ("de", 1)])
def test_the_proof_is_in_the_language_that_the_model_reads(
    tmp_path: Path, asked: list[dict[str, Any]], source: str, side: int
) -> None:
    write_model(tmp_path / "model", LINES, metrics={"languages": {"src": source, "tgt": "fr"}}, family="transformer")
    loaded = load_model(tmp_path / "model")
    write_model_bundle(tmp_path / "model.zip", loaded)
    (options,) = asked
    rows, bound = options["proof"].src_rows, options["bounds"].source
    sentences = [pair[side] for pair in read_everyday_pairs()]
    assert rows[:48] == [loaded.tokenizer.encode(sentence)[: bound - 1] for sentence in sentences[::8][:48]]


def test_a_classifier_reads_as_much_in_a_bundle(tmp_path: Path, asked: list[dict[str, Any]]) -> None:
    options = {"architecture": "pair-classifier", "family": "lstm", "num_classes": 2, "max_positions": 600}
    write_model(tmp_path / "model", LINES, metrics={"labels": ["a", "b"]}, **options)
    loaded = load_model(tmp_path / "model")
    for bound in (None, 64):
        write_model_bundle(tmp_path / "model.zip", loaded, max_src_tokens=bound)
    assert [(one["bounds"].source, one["bounds"].capacity) for one in asked] == [(600, 600), (64, 64)]


def test_a_language_model_writes_as_much_in_a_bundle(
    tmp_path: Path, asked: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"architecture": "language-model", "family": "transformer", "max_positions": 600}
    write_model(tmp_path / "model", LINES, **options)
    loaded = load_model(tmp_path / "model")
    for bound in (None, 64):
        write_model_bundle(tmp_path / "model.zip", loaded, max_tgt_tokens=bound)
    # Keys and values of one layer, 16 channels of 4 bytes each: as many as a state of a bundle may have.
    monkeypatch.setattr(task_bundles, "MAX_STATE_BYTES", 100 * 2 * 16 * 4 + 50)
    write_model_bundle(tmp_path / "model.zip", loaded)
    assert [one["bounds"].capacity for one in asked] == [600, 64, 100]
    # Of several texts at once each has place for fewer in ExecuTorch.
    assert [one["bounds"].row_tokens for one in asked] == [256, 64, 100]


def test_records_that_a_manifest_does_not_hold_are_named(tmp_path: Path, asked: list[dict[str, Any]]) -> None:
    long = "x" * 257
    write_model(tmp_path / "pairs", LINES, metrics={"languages": {"src": long, "tgt": "fr"}}, family="transformer")
    with pytest.raises(
        BundleError, match=r"metrics\.json: languages: expected what the format of bundles allows, found"
    ):
        write_model_bundle(tmp_path / "model.zip", load_model(tmp_path / "pairs"))
    options = {"architecture": "pair-classifier", "family": "lstm", "num_classes": 2}
    write_model(tmp_path / "sides", LINES, metrics={"labels": [long, "b"]}, **options)
    with pytest.raises(BundleError, match="sides: labels: expected what the format of bundles allows, found"):
        write_model_bundle(tmp_path / "model.zip", load_model(tmp_path / "sides"))
    assert asked == []


def test_a_bundle_has_the_scores_and_the_plan_of_its_own_weights_alone(
    tmp_path: Path, asked: list[dict[str, Any]]
) -> None:
    scores = {"test": {"bleu": 33.3}}
    metrics = {"scores": scores, "mixed_precision": [{"matrix": "of another bundle"}]}
    write_model(tmp_path / "model", LINES, metrics=metrics, family="transformer")
    loaded = load_model(tmp_path / "model")
    write_model_bundle(tmp_path / "model.zip", loaded)
    write_model_bundle(tmp_path / "model.zip", loaded, precision="int8")
    assert [options["card"].scores for options in asked] == [scores, {}]
    assert [options["card"].metrics for options in asked] == [{"scores": scores}] * 2
