"""Numbers that the command line would refuse are refused by the library too, before a model is read."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import lite_nlp
from lite_nlp.artifacts.translators import SearchChoices
from lite_nlp.config.preset import DecodingConfig
from lite_nlp.core.errors import UsageError

OPENERS = [lite_nlp.open_translator, lite_nlp.open_generator, lite_nlp.open_classifier]


@pytest.mark.parametrize("open_model", OPENERS)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch": 0}, "--batch: expected 1 to 65,536, found 0"),
        ({"batch": -1}, "--batch: expected 1 to 65,536, found -1"),
        ({"threads": -1}, "--threads: expected 1 to 512, found -1"),
        ({"threads": 0}, "--threads: expected 1 to 512, found 0"),
        ({"batch": 1.5}, "--batch: expected a whole number, found 1.5"),
        ({"threads": "2"}, "--threads: expected a whole number, found '2'"),
    ],
)
def test_batches_and_threads(open_model: Callable[..., Any], options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        open_model("no-such-model", **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam": 0}, "--beam: expected 1 to 256, found 0"),
        ({"length_penalty": -0.5}, "--length-penalty: expected 0 to 10.0, found -0.5"),
        ({"length_penalty": float("nan")}, "--length-penalty: expected 0 to 10.0, found nan"),
        ({"no_repeat_ngram": -1}, "--no-repeat-ngram: expected 0 to 1,048,576, found -1"),
        ({"min_length": -1}, "--min-length: expected 0 to 1,048,576, found -1"),
        ({"max_length": -1}, "--max-length: expected 0 to 1,048,576, found -1"),
        ({"beam": 1.5}, "--beam: expected a whole number, found 1.5"),
        ({"length_penalty": "much"}, "--length-penalty: expected a number, found 'much'"),
        ({"long_input": "trunc"}, "--long-input: expected one of split, truncate, found 'trunc'"),
    ],
)
def test_the_search(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        lite_nlp.open_translator("no-such-model", **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"feature_size": 0}, "--feature-size: expected 1 to 16,384, found 0"),
        ({"cross": -1}, "--cross: expected 0 to 16,384, found -1"),
        ({"keep_every": -1}, "--keep-every: expected 0 to 1,048,576, found -1"),
        ({"causal": 0, "cross": 0}, "--causal and --cross: expected features of at least one of them, found 0 for"),
        ({"seed": -1}, "--seed: expected 0 to "),
    ],
)
def test_a_conversion(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        lite_nlp.convert_to_t2r("no-such-model", out=tmp_path / "out", **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_tokens": 2.5}, "--max-tokens: expected a whole number, found 2.5"),
        ({"top_k": 1.5}, "--top-k: expected a whole number, found 1.5"),
        ({"seed": 1.5}, "--seed: expected a whole number, found 1.5"),
        ({"temperature": "warm"}, "--temperature: expected a number, found 'warm'"),
    ],
)
def test_what_a_language_model_draws(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        lite_nlp.open_generator("no-such-model", **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_best": 1.5}, "--n-best: expected a whole number, found 1.5"),
        ({"beam": np.int64(4), "n_best": 2.5}, "--n-best: expected a whole number, found 2.5"),
        ({"beam": 4.0}, "--beam: expected a whole number, found 4.0"),
        ({"beam": 1, "interpolation": True}, "--interpolation: expected --beam of at least 2 to choose from, found 1"),
        ({"n_best": 1, "interpolation": True}, "--interpolation: expected --n-best of at least 2 to choose from"),
    ],
)
def test_the_search_of_a_teacher(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        lite_nlp.distill_model("no-such-model", "no-such-preset", data=tmp_path, out=tmp_path / "student", **options)


@pytest.mark.parametrize("threads", [[1.5], "12", [0], []])
def test_the_threads_of_a_benchmark(threads: Any) -> None:
    with pytest.raises(UsageError, match="--threads: expected numbers from 1 to 512, found"):
        lite_nlp.bench_model("no-such-model", threads=threads)


def test_a_benchmark_takes_one_runtime_or_number_of_threads() -> None:
    with pytest.raises(
        UsageError, match=r"--runtime: expected one of onnx, executorch, found 'onx'; did you mean 'onnx'"
    ):
        lite_nlp.bench_model("no-such-model", runtimes="onx", threads=2)
    with pytest.raises(UsageError, match=r"--threads: expected numbers from 1 to 512, found \[0\]"):
        lite_nlp.bench_model("no-such-model", threads=0)


def test_numbers_of_numpy_are_numbers() -> None:
    chosen = SearchChoices(beam=np.int32(4), length_penalty=np.float32(0.5))  # type: ignore[arg-type]
    assert (chosen.beam, chosen.length_penalty) == (4, 0.5)


def test_lengths_of_the_model_give_way_to_those_of_the_caller() -> None:
    section = DecodingConfig(min_length=4, max_length=8)

    def lengths(**chosen: int) -> tuple[int, int]:
        complete = SearchChoices(**chosen).complete(section)
        return complete.min_length, complete.max_length

    assert lengths() == (4, 8)
    assert lengths(max_length=4) == (4, 4)
    assert lengths(max_length=3) == (3, 3)
    assert lengths(min_length=9) == (9, 9)
    assert lengths(min_length=9, max_length=0) == (9, 0)
    with pytest.raises(UsageError, match=r"--min-length: expected at most --max-length \(9\), found 10"):
        SearchChoices(min_length=10, max_length=9)


@pytest.mark.parametrize("effort", ["normal", "thorough"])
def test_the_effort_that_the_package_has_no_text_for(tmp_path: Path, effort: Literal["normal", "thorough"]) -> None:
    with pytest.raises(UsageError, match=f"--effort {effort}: expected --data with it"):
        lite_nlp.compress_model("no-such-model", out=tmp_path / "small", effort=effort)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gradient_accumulation": 0}, "--gradient-accumulation: expected 1 to 1,024, found 0"),
        ({"gradient_accumulation": 1.5}, "--gradient-accumulation: expected a whole number, found 1.5"),
        ({"gradient_accumulation": 2, "finetune": False}, "--no-finetune and --gradient-accumulation: expected one"),
        ({"cycles": 0}, "--cycles: expected 1 to 100, found 0"),
        ({"cycles": 2, "finetune": False}, "--no-finetune and --cycles: expected one"),
        ({"effort": "fast"}, "--effort: expected one of quick, normal, thorough, found 'fast'"),
    ],
)
def test_the_length_of_finetuning(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        lite_nlp.compress_model("no-such-model", out=tmp_path / "small", **options)


def test_the_samples_of_a_report() -> None:
    with pytest.raises(UsageError, match="--samples: expected 0 to 1,000,000,000, found -1"):
        lite_nlp.report_model("no-such-model", samples=-1)


@pytest.mark.parametrize("option", ["input", "reference"])
def test_an_evaluation_does_not_overwrite_what_it_reads(tmp_path: Path, option: str) -> None:
    texts = {name: tmp_path / f"{name}.txt" for name in ("input", "reference")}
    for path in texts.values():
        path.write_text("Yes.\n", encoding="utf-8")
    with pytest.raises(
        UsageError, match=f"--output: expected another file than --{option}, found .*{option}.txt in both"
    ):
        lite_nlp.evaluate_model(
            "no-such-model", source=texts["input"], reference=texts["reference"], output=texts[option], force=True
        )


@pytest.mark.parametrize("batch", [0, -1])
def test_the_batches_of_an_evaluation(batch: int) -> None:
    with pytest.raises(UsageError, match=f"--batch: expected 1 to 65,536, found {batch}"):
        lite_nlp.evaluate_model("no-such-model", source="english.txt", reference="german.txt", batch=batch)
