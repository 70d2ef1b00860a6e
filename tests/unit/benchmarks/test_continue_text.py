"""The benchmark of language models: what it reads, and its rows; no time is held against anything."""

import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.unit.benchmarks.scripts import loaded
from tests.unit.export.own_tasks import Recall, export


@pytest.fixture
def continue_text() -> Iterator[ModuleType]:
    with loaded("continue_text") as found:
        yield found["continue_text"]


def test_bundles_side_by_side(
    continue_text: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "recall.zip"
    export(path, Recall(), runtimes=["onnx"])
    shapes = []
    read = continue_text.TextEngine.read
    monkeypatch.setattr(
        continue_text.TextEngine, "read", lambda self, text, state: shapes.append(text.shape) or read(self, text, state)
    )
    options = [path, path, "--prompt", "5", "--tokens", "3", "--rounds", "2"]
    continue_text.main([*map(str, options), "--json"])
    # A step of each engine when it is opened; then two bundles, two rounds and a turn before them.
    assert shapes == [(1, 1)] * 2 + [(1, 5), (1, 1), (1, 1), (1, 1)] * 6
    found = json.loads(capsys.readouterr().out)
    assert found["settings"] == {
        "runtime": "onnx",
        "texts": 1,
        "prompt": 5,
        "tokens": 3,
        "threads": 1,
        "rounds": 2,
    }
    assert [(row["bundle"], row["precision"]) for row in found["rows"]] == 2 * [("recall.zip", "fp32")]
    assert found["rows"][0]["cpu_ratio"] == 1
    shapes.clear()
    # As many texts at once as the bundle takes.
    monkeypatch.setattr(continue_text.TextEngine, "most_rows", lambda self, prompt, limit: 2 if limit == 3 else 9)
    continue_text.main([*map(str, options), "--texts", "3"])
    assert shapes == [(1, 1)] * 2 + [(2, 5), *[(2, 1)] * 3, (1, 5), *[(1, 1)] * 3] * 6
    assert "CPU, of the first" in capsys.readouterr().out
