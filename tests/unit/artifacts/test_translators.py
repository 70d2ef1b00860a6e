"""Translators as the library opens them: from a path or a loaded model, streaming, batches, closing."""

import logging
from pathlib import Path
from typing import Any

import pytest

import lite_nlp
from lite_nlp.artifacts.models import load_model
from lite_nlp.artifacts.translators import open_translator
from lite_nlp.core.errors import ModelError, RuntimeUnavailableError, UsageError
from tests.integration.conftest import write_model

LINES = ["the old town", "", "a boat by the sea, a town by the sea, a boat by the old sea", "boats"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("translators") / "model"
    write_model(path, LINES, family="transformer", max_positions=48)
    return path


def test_a_string_gives_a_string_and_lines_a_list(model: Path) -> None:
    with lite_nlp.open_translator(model) as translator:
        found = translator.translate(LINES)
        assert isinstance(found, list)
        assert len(found) == len(LINES)
        assert found[1] == ""
        assert any(found)
        assert translator.translate(LINES[0]) == found[0]
        assert translator.translate("\n".join(LINES)) == "\n".join(found)
        assert translator.name == "model"
        assert translator.runtime == "torch"


def test_batches_change_nothing_but_the_time(model: Path) -> None:
    with open_translator(model) as many, open_translator(model, batch=1) as one:
        assert many.translate(LINES * 3) == one.translate(LINES * 3)


def test_a_stream_ends_with_the_translation(model: Path) -> None:
    text = "\n".join(LINES[::2])
    with open_translator(model, max_length=6) as translator:
        texts = list(translator.stream(text))
        assert texts[-1] == translator.translate(text)
        assert len(texts) > 2
        assert texts[-1].startswith(texts[len(texts) // 2].partition("\n")[0])


def test_lines_come_one_by_one_and_the_rest_can_be_left(model: Path) -> None:
    with open_translator(model, batch=1) as translator:
        lines = translator.translate_lines(LINES)
        assert next(lines) == translator.translate(LINES[0])
        lines.close()  # type: ignore[attr-defined]


def test_a_loaded_model_translates_as_its_file_does(model: Path) -> None:
    loaded = load_model(model)
    with open_translator(loaded) as memory, open_translator(model) as file:
        assert memory.translate(LINES) == file.translate(LINES)
    with pytest.raises(RuntimeUnavailableError, match="expected the path or the name of a model, found a loaded one"):
        open_translator(loaded, runtime="onnx")


@pytest.mark.parametrize("text", [b"boats", ["boats", 3], None])
def test_what_is_no_text_is_refused(model: Path, text: Any) -> None:
    with open_translator(model) as translator:
        with pytest.raises(UsageError, match="text: expected a string, found"):
            list(translator.translate([text] if text is None else text))
        with pytest.raises(UsageError, match="text: expected a string, found"):
            list(translator.stream(text))
        with pytest.raises(UsageError, match="lines: expected a sequence of strings, found a string"):
            translator.translate_lines("boats")


def test_a_name_that_no_file_can_have() -> None:
    with pytest.raises(ModelError, match="found nothing there"):
        open_translator("a" * 300)


def test_a_closed_translator_says_so(model: Path) -> None:
    translator = open_translator(model)
    translator.close()
    translator.close()
    for call in (lambda: translator.translate("boats"), lambda: list(translator.stream("boats"))):
        with pytest.raises(ModelError, match="model: expected an open translator, found a closed one"):
            call()


def test_warnings_are_logged_unless_they_go_elsewhere(model: Path, caplog: pytest.LogCaptureFixture) -> None:
    long, told = "a boat by the sea " * 30, []
    with caplog.at_level(logging.WARNING, logger="lite_nlp"), open_translator(model) as translator:
        translator.translate(long)
    assert "line 1: cut into" in caplog.text
    with open_translator(model, warn=told.append) as translator:
        translator.translate(long)
    assert told
    assert caplog.text.count("cut into") == 1


def test_a_metric_of_another_architecture_is_refused(model: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--metric accuracy does not go with a model of architecture encoder-decoder"):
        lite_nlp.evaluate_model(model, data=tmp_path, metric="accuracy")


def test_nothing_is_exported_for_a_runtime_or_a_task_that_there_is_not(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LITE_NLP_CACHE", str(tmp_path / "cache"))
    with pytest.raises(
        RuntimeUnavailableError, match="--runtime: expected one of torch, onnx, executorch, found 'onx'"
    ):
        open_translator(model, runtime="onx")
    options = {"architecture": "sequence-classifier", "family": "transformer", "num_classes": 2}
    write_model(tmp_path / "sides", LINES, metrics={"labels": ["a", "b"]}, **options)
    with pytest.raises(ModelError, match="sides: expected an encoder-decoder, found a sequence-classifier"):
        open_translator(tmp_path / "sides", runtime="onnx")
    assert not (tmp_path / "cache").exists()
