"""Classifiers as the library opens them: probabilities equal to those of the module, pairs, labels."""

from pathlib import Path
from typing import Any

import pytest
import torch

import lite_nlp
from lite_nlp.artifacts.classifiers import open_classifier
from lite_nlp.artifacts.models import LoadedModel, load_model
from lite_nlp.core.errors import DataError, LiteNlpError, ModelError, RuntimeUnavailableError
from tests.integration.conftest import write_model

LINES = ["the old town", "", "a boat by the sea, a town by the sea", "boats"]
LABELS = ["land", "water", "neither"]
PAIR: dict[str, Any] = {
    "architecture": "pair-classifier",
    "family": "lstm",
    "num_classes": 3,
    "max_positions": 24,
}
SINGLE: dict[str, Any] = {
    "architecture": "sequence-classifier",
    "family": "transformer",
    "num_classes": 3,
    "num_heads": 2,
    "max_positions": 24,
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("classifiers")
    for name, options in (("single", SINGLE), ("pair", PAIR)):
        write_model(path / name, LINES, metrics={"labels": LABELS}, **options)
    return path


def probabilities(loaded: LoadedModel, sentences: tuple[str, ...]) -> list[float]:
    inputs: list[torch.Tensor] = []
    for sentence in sentences:
        tokens = torch.tensor([[*loaded.tokenizer.encode(sentence)[:23], 2]])
        inputs += [tokens, torch.ones_like(tokens, dtype=torch.bool)]
    with torch.no_grad():
        found: list[float] = loaded.model(*inputs)[0].softmax(-1).tolist()
    return found


def test_a_sentence_and_a_list(models: Path) -> None:
    loaded = load_model(models / "single")
    with lite_nlp.open_classifier(models / "single") as classifier:
        assert (classifier.labels, classifier.sentences) == (tuple(LABELS), 1)
        assert (classifier.name, classifier.runtime) == ("single", "torch")
        found = classifier.classify(LINES)
        alone = classifier.classify(LINES[2])
    assert alone is not None
    assert found[2] is not None
    assert alone.probabilities == pytest.approx(found[2].probabilities)
    assert found[1] is None
    for line, one in zip(LINES, found, strict=True):
        if one is None:
            continue
        expected = probabilities(loaded, (line,))
        assert list(one.probabilities.values()) == pytest.approx(expected, rel=1e-4)
        assert one.label == LABELS[expected.index(max(expected))]


def test_a_pair_and_a_list_of_pairs(models: Path) -> None:
    loaded = load_model(models / "pair")
    pairs = [(LINES[0], LINES[2]), (LINES[2], LINES[0]), ("", "boats")]
    with open_classifier(loaded, batch=2) as classifier:
        assert classifier.sentences == 2
        found = classifier.classify(pairs)
        alone = classifier.classify(pairs[1])
    assert alone is not None
    assert found[1] is not None
    assert alone.probabilities == pytest.approx(found[1].probabilities)
    for pair, one in zip(pairs, found, strict=True):
        assert one is not None
        assert list(one.probabilities.values()) == pytest.approx(probabilities(loaded, pair), rel=1e-4)


def test_another_number_of_sentences(models: Path) -> None:
    with open_classifier(models / "pair") as classifier, pytest.raises(DataError, match="of 2 sentences, found 1"):
        classifier.classify("boats")
    with open_classifier(models / "single") as classifier, pytest.raises(DataError, match="of 1 sentences, found 2"):
        classifier.classify([("boats", "boats")])


def test_a_sentence_that_is_too_long_is_cut_as_in_training(models: Path) -> None:
    told: list[str] = []
    long = "a boat by the sea " * 20
    with open_classifier(models / "single", warn=told.append) as classifier:
        found = classifier.classify(long)
    assert found is not None
    assert list(found.probabilities.values()) == pytest.approx(
        probabilities(load_model(models / "single"), (long,)), rel=1e-4
    )
    assert told[0].startswith("line 1: cut off after 23 of its ")


@pytest.mark.parametrize("labels", [None, ["a", "b"], ["a", "b", "a"], [1, 2, 3], "abc"])
def test_labels_that_do_not_fit(tmp_path: Path, labels: object) -> None:
    write_model(tmp_path / "model", LINES, metrics={} if labels is None else {"labels": labels}, **SINGLE)
    with pytest.raises(DataError, match="expected the names of 3 labels"):
        open_classifier(tmp_path / "model")


def test_what_it_cannot_open(models: Path, tmp_path: Path) -> None:
    write_model(tmp_path / "translator", LINES, family="transformer")
    for model in (tmp_path / "translator", "tatoeba-en-de", load_model(tmp_path / "translator")):
        with pytest.raises(LiteNlpError, match="expected a classifier, found a model of architecture encoder-decoder"):
            open_classifier(model)
    with pytest.raises(RuntimeUnavailableError, match="expected the path or the name of a model, found a loaded one"):
        open_classifier(load_model(models / "pair"), runtime="onnx")
    classifier = open_classifier(models / "pair")
    classifier.close()
    with pytest.raises(ModelError, match="pair: expected an open classifier, found a closed one"):
        classifier.classify(("a", "b"))
