"""What a benchmark refuses before it exports a model, and how it searches."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import lite_nlp
from lite_nlp.api import bench, bench_worker
from lite_nlp.core.errors import DataError, UsageError
from lite_nlp.decoding.options import SearchOptions
from lite_nlp.export.runtime.layout import Bounds
from lite_nlp.export.runtime.manifest import DecodingDefaults
from tests.integration.conftest import write_model


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_tokens": 5}, "--max-tokens: expected a bundle for language-modelling, found one for translation"),
        ({"input_path": "nothing.txt"}, "nothing.txt: expected a readable text file"),
    ],
)
def test_options_are_looked_at_before_an_export(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], message: str
) -> None:
    monkeypatch.setattr(bench, "cached_bundle", lambda source, **_: pytest.fail("exported"))
    write_model(tmp_path / "model", ["a few words", "and a few more"], family="transformer")
    with pytest.raises((UsageError, DataError), match=message):
        lite_nlp.bench_model(tmp_path / "model", **options)


@pytest.mark.parametrize(
    ("decoding", "expected"),
    [
        (None, SearchOptions(beam_size=3, max_steps=40)),
        (
            {"max_length": 20, "min_length": 5},
            SearchOptions(beam_size=3, max_steps=21, min_length=5, length_penalty=1.5, no_repeat_ngram=3),
        ),
        ({"max_length": 0}, SearchOptions(beam_size=3, max_steps=40, length_penalty=1.5, no_repeat_ngram=3)),
        ({"max_length": 90}, SearchOptions(beam_size=3, max_steps=40, length_penalty=1.5, no_repeat_ngram=3)),
    ],
)
def test_translations_are_searched_as_the_model_wants(
    monkeypatch: pytest.MonkeyPatch, decoding: dict[str, Any] | None, expected: SearchOptions
) -> None:
    searched = []
    monkeypatch.setattr(bench_worker, "create_engine", lambda bundle, **_: None)
    monkeypatch.setattr(
        bench_worker, "TranslationMeter", lambda engine, sources, options, **_: searched.append(options)
    )
    others = {
        "length_penalty": 1.5,
        "no_repeat_ngram": 3,
        "min_length": 0,
        "long_input": "split",
        "max_source_tokens": 9,
    }
    section = None if decoding is None else DecodingDefaults(**{**others, **decoding})
    bounds = Bounds(source=24, capacity=40, executorch_batch=4)
    bundle: Any = SimpleNamespace(manifest=SimpleNamespace(task="translation", decoding=section, bounds=bounds))
    order = bench_worker.Order(
        bundle="model.zip", runtime="onnx", threads=1, beam=3, max_tokens=1, examples=[[[5, 6]]], warmup=0, repeats=1,
        work=None, precision="fp32",
    )  # fmt: skip
    bench_worker._open_meter(bundle, order)
    assert searched == [expected]
