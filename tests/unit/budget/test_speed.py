"""Benchmarks in a report: what is read, and what is refused."""

import copy
from typing import Any

import pytest

from lite_nlp.budget.reporting.speed import Speed
from lite_nlp.core.errors import DataError

BENCH: dict[str, Any] = {
    "schema_version": 1,
    "tool": "lite-nlp",
    "tool_version": "1.0",
    "created": "2026-01-02T03:04:05Z",
    "model": {"name": "small", "manifest_sha256": "f" * 64},
    "device": {"name": "board", "cpu": "", "cores": 4, "os": "Linux"},
    "settings": {"sentences": 3, "beam": 1, "repeats": 2},
    "rows": [
        {
            "runtime": "onnx",
            "version": "1.2",
            "threads": 1,
            "precision": "fp32",
            "sentence_ms": {"p50": 1234.56, "p90": 2000.0},
            "first_token_ms": {"p50": 7.0},
            "tokens_per_s": 1500.4,
            "memory_bytes": {"before": 1_000_000, "peak": 3_400_000},
        }
    ],
}


def test_a_row_for_people() -> None:
    speed = Speed.read(BENCH, name="bench.json")
    assert speed.rows() == (("onnx 1.2", "1", "fp32", "1,234.6 ms", "2,000.0 ms", "7.0 ms", "1,500", "2 MB"),)
    assert speed.device == "board, 4 cores, Linux"


@pytest.mark.parametrize(
    ("task", "settings", "words"),
    [
        (None, {"beam": 4}, "3 sentences, one at a time, beam 4, 2 times"),
        ("translation", {"beam": 4}, "3 sentences, one at a time, beam 4, 2 times"),
        (
            "language-modelling",
            {"max_tokens": 9},
            "3 sentences, one at a time, continued by 9 tokens at most, 2 times",
        ),
        ("classification", {}, "3 sentences, one at a time, 2 times"),
    ],
)
def test_how_the_sentences_were_taken(task: str | None, settings: dict[str, int], words: str) -> None:
    model = {**BENCH["model"], **({} if task is None else {"task": task})}
    content = {**BENCH, "model": model, "settings": {**BENCH["settings"], **settings}}
    assert Speed.read(content, name="bench.json").settings.split(";")[0] == words


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"schema_version": 2, "rows": None}, "schema_version 2"),
        ({"rows": []}, "one without measurements"),
        ({"model": {}}, "an object without 'name'"),
        ({"model": {"name": "small"}}, "an object without 'manifest_sha256'"),
        ({"model": None}, "an object where 'NoneType' object is not subscriptable"),
    ],
)
def test_a_benchmark_that_lacks_what_a_report_shows_is_refused(changes: dict[str, Any], found: str) -> None:
    with pytest.raises(DataError) as refused:
        Speed.read({**BENCH, **changes}, name="bench.json")
    assert str(refused.value) == f"bench.json: expected the JSON of lite-nlp bench, schema_version 1, found {found}"


@pytest.mark.parametrize("precision", [None, 8, ["int8"]])
def test_every_cell_is_text(precision: object) -> None:
    content = copy.deepcopy(BENCH)
    content["rows"][0]["precision"] = precision
    [row] = Speed.read(content, name="bench.json").rows()
    assert all(isinstance(cell, str) for cell in row)
