"""Language models as the library opens them: continuations equal to those of the whole text, streams, prompts."""

import logging
import re
from pathlib import Path
from typing import Any

import pytest
import torch

import lite_nlp
from lite_nlp.artifacts.generators import open_generator
from lite_nlp.artifacts.models import load_model
from lite_nlp.core.errors import ModelError, RuntimeUnavailableError, UsageError
from tests.integration.conftest import write_model

LINES = ["the old town", "", "a boat by the sea, a town by the sea", "boats", "the old"]

FAMILIES: dict[str, dict[str, Any]] = {
    "transformer": {"family": "transformer"},
    "lite-transformer": {
        "family": "lite-transformer",
        "decoder_kernel_sizes": (3,),
        "conv_num_heads": 2,
    },
    "t2r": {"family": "t2r", "self_attention": "t2r", "self_feature_size": 4},
    "subformer": {"family": "subformer", "embedding": "safe", "embedding_dim": 8},
    "adaptive": {
        "family": "transformer",
        "embedding": "adaptive",
        "adaptive_cutoffs": (100, 200),
        "adaptive_factor": 2,
    },
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model directory for each family."""
    path = tmp_path_factory.mktemp("generators")
    for name, options in FAMILIES.items():
        write_model(path / name, LINES, architecture="language-model", num_heads=2, max_positions=48, **options)
    return path


@pytest.mark.parametrize("family", FAMILIES)
def test_step_by_step_is_what_the_whole_text_says(models: Path, family: str) -> None:
    loaded = load_model(models / family)
    with open_generator(loaded, max_tokens=9) as generator:
        found = generator.generate(LINES)
    for line, one in zip(LINES, found, strict=True):
        prompt = [2, *loaded.tokenizer.encode(line)]
        text, log_prob = list(prompt), 0.0
        while len(text) < len(prompt) + 9:
            with torch.no_grad():
                logits = loaded.model(torch.tensor([text]))[0, -1].double()  # type: ignore[operator]
            token = int(logits[2:].argmax()) + 2
            log_prob += float(logits.log_softmax(-1)[token])
            if token == 2:
                break
            text.append(token)
        assert one.tokens == len(text) - len(prompt)
        assert one.ended == (one.tokens < 9)
        assert one.log_prob == pytest.approx(log_prob, rel=1e-4, abs=1e-4)
        assert one.prompt == line
        assert one.text.splitlines() == " ".join(loaded.tokenizer.decode(text[1:]).splitlines()).splitlines()


def test_a_string_gives_one_and_batches_change_nothing(models: Path) -> None:
    options: dict[str, Any] = {"max_tokens": 6, "temperature": 1.2, "top_k": 20, "seed": 5}
    with open_generator(models / "transformer", **options) as many:
        found = many.generate(LINES * 8)
        assert many.generate(LINES[0]).text == found[0].text
        assert (many.name, many.runtime) == ("transformer", "torch")
        # Every line has random numbers of its own.
        assert len({one.text for one in found if one.prompt == LINES[0]}) > 1
    with open_generator(models / "transformer", batch=1, **options) as single:
        assert [one.text for one in single.generate(LINES * 8)] == [one.text for one in found]
    with open_generator(models / "transformer", **{**options, "seed": 6}) as other:
        assert [one.text for one in other.generate(LINES * 8)] != [one.text for one in found]


def test_a_stream_grows_to_the_text(models: Path) -> None:
    with lite_nlp.open_generator(models / "transformer", max_tokens=5, top_k=50) as generator:
        texts = list(generator.stream("a boat"))
        assert texts[-1] == generator.generate("a boat").text
        assert all(text.startswith("a boat") for text in texts)
        stream = generator.stream("a boat")
        assert next(stream) == texts[0]
        stream.close()  # type: ignore[attr-defined]


def test_the_space_at_the_end_of_a_prompt_is_that_of_the_next_word(models: Path) -> None:
    with open_generator(models / "transformer", max_tokens=6, temperature=100.0) as generator:
        for text in ("the old", "boats\nthe old"):
            both = [generator.generate([f"{text}{end}"] * 30) for end in ("", "  ")]
            for bare, spaced in zip(*both, strict=True):
                assert (spaced.prompt, spaced.tokens, spaced.log_prob) == (f"{text}  ", bare.tokens, bare.log_prob)
                assert spaced.continuation == bare.continuation.removeprefix(" ")
            assert any(bare.continuation.startswith(" ") for bare in both[0])
            assert list(generator.stream(f"{text}  "))[-1] == both[1][0].text


def test_lines_of_one_text_are_joined_by_the_end_mark(models: Path) -> None:
    loaded = load_model(models / "transformer")
    with open_generator(loaded, max_tokens=1) as generator:
        found = generator.generate("boats\nthe old")
    tokens = [2, *loaded.tokenizer.encode("boats"), 2, *loaded.tokenizer.encode("the old")]
    with torch.no_grad():
        logits = loaded.model(torch.tensor([tokens]))[0, -1]  # type: ignore[operator]
    token = int(logits[2:].argmax()) + 2
    assert found.ended == (token == 2)
    assert found.log_prob == pytest.approx(float(logits.log_softmax(-1)[token]), rel=1e-4)
    assert found.text.startswith("boats\nthe old")


def test_long_prompts_and_foreign_letters_are_told(models: Path, caplog: pytest.LogCaptureFixture) -> None:
    told: list[str] = []
    long = "a boat by the sea " * 40
    with open_generator(models / "transformer", max_tokens=500, temperature=100.0, warn=told.append) as generator:
        found = generator.generate(["boats", long, "これは", long * 5000])
    assert "line 2: only the last 24 tokens of the prompt are read: it has " in told[0]
    assert "line 3: 100% of its letters are unknown to the model's vocabulary; the continuation may be" in told[1]
    assert "line 4: only the last 24 tokens of the prompt are read: it has more than " in told[2]
    assert len(told) == 3
    # The last token has a place, and is not read.
    assert all(one.tokens <= 48 and one.text.startswith(one.prompt) for one in found)
    assert found[1].ended or found[1].tokens == 48 - 24
    with caplog.at_level(logging.WARNING, logger="lite_nlp"), open_generator(models / "transformer") as generator:
        generator.generate("これは")
    assert "line 1: 100% of its letters" in caplog.text


def test_as_much_of_a_prompt_is_tokenized_as_the_model_reads(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    text = "a boat by the sea, a town by the sea"
    with open_generator(models / "transformer", max_tokens=4, warn=told.append) as generator:
        expected = generator.generate(text)
        monkeypatch.setattr("lite_nlp.decoding.generate.WHOLE_CHARACTERS", 7)
        assert generator.generate(text) == expected
        assert told == []
        # Of so few characters the model could read more tokens than there are.
        monkeypatch.setattr("lite_nlp.decoding.generate._TOKEN_CHARACTERS", 0)
        generator.generate("boats")
        generator.generate(text)
    assert len(told) == 1
    found = re.match(
        r"line 1: only the last (\d+) tokens of the prompt are read: it has more than (\d+) tokens", told[0]
    )
    assert found is not None
    assert found[1] == found[2]


def test_what_it_cannot_open(models: Path, tmp_path: Path) -> None:
    write_model(tmp_path / "translator", LINES, family="transformer")
    loaded = load_model(tmp_path / "translator")
    for model in (tmp_path / "translator", loaded, "tatoeba-en-de"):
        with pytest.raises(
            ModelError, match=r"expected a language-model, found (an|a model of architecture) encoder-d"
        ):
            open_generator(model)
    with pytest.raises(RuntimeUnavailableError, match="expected the path or the name of a model, found a loaded one"):
        open_generator(load_model(models / "t2r"), runtime="onnx")
    with pytest.raises(UsageError, match="--temperature: expected"):
        open_generator(models / "t2r", temperature=0.0)


def test_a_closed_generator_says_so(models: Path) -> None:
    generator = open_generator(models / "transformer")
    generator.close()
    for call in (lambda: generator.generate("boats"), lambda: list(generator.stream("boats"))):
        with pytest.raises(ModelError, match="transformer: expected an open generator, found a closed one"):
            call()
