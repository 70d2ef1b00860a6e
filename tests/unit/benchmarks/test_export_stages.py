"""The benchmark of exports: what it runs, and its rows; no time is held against anything."""

import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.unit.benchmarks.scripts import loaded

#: Stands for the command of a tree: it reports two stages, and fails where it is told to.
COMMAND = """
import sys
def main():
    print("tracing: 15 s\\ntracing: done in {seconds} s\\nlowering to ExecuTorch: done in 40 s", file=sys.stderr)
    sys.exit("no such model" if "missing" in sys.argv or "--precision" not in sys.argv else 0)
"""


@pytest.fixture
def export_stages() -> Iterator[ModuleType]:
    with loaded("export_stages") as found:
        yield found["export_stages"]


def make_tree(folder: Path, seconds: str) -> Path:
    (folder / "lite_nlp" / "cli").mkdir(parents=True)
    for name in ("lite_nlp", "lite_nlp/cli"):
        (folder / name / "__init__.py").touch()
    (folder / "lite_nlp" / "cli" / "main.py").write_text(COMMAND.replace("{seconds}", seconds), encoding="utf-8")
    return folder


def test_trees_side_by_side(export_stages: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = make_tree(tmp_path / "old", "17"), make_tree(tmp_path / "new", "9.8")
    options = ["own", "--tree", str(old), "--tree", str(new), "--rounds", "2"]
    export_stages.main([*options, "--json", "--", "--precision", "int8"])
    found = json.loads(capsys.readouterr().out)
    assert found["settings"] == {"model": "own", "options": ["--precision", "int8"], "rounds": 2}
    assert [row["tree"] for row in found["rows"]] == [str(old), str(new)]
    assert [row["seconds"]["tracing"] for row in found["rows"]] == [17, 9.8]
    assert list(found["rows"][0]["seconds"]) == ["tracing", "lowering to ExecuTorch", "all"]
    assert found["rows"][0]["ratio"] == 1
    export_stages.main([*options, "--", "--precision", "int8"])
    assert "all, of the first" in capsys.readouterr().out


def test_an_export_that_fails_ends_it(export_stages: ModuleType, tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "tree", "1")
    with pytest.raises(SystemExit, match=r"(?s)expected an export, found exit code 1: .*no such model"):
        export_stages.main(["missing", "--tree", str(tree), "--", "--precision", "int8"])
