"""The directory of a run: one run at a time, and nothing of anybody else's is deleted."""

from pathlib import Path

import pytest

from lite_nlp.config.preset import load_config
from lite_nlp.core.errors import OutputError
from lite_nlp.training.run_directory import RunDirectory


def run_in(path: Path) -> RunDirectory:
    return RunDirectory(path, config=load_config("multi30k-transformer"), tokenizer_json=b"{}")


def test_a_second_run_in_a_directory_is_refused(tmp_path: Path) -> None:
    with run_in(tmp_path / "run").open(resume=False, force=False):
        for options in ({"resume": False, "force": False}, {"resume": True, "force": False}):
            with (
                pytest.raises(OutputError, match="another process trains in this directory"),
                run_in(tmp_path / "run").open(**options),
            ):
                pass
    with run_in(tmp_path / "run").open(resume=False, force=False):
        pass


def test_a_run_that_wrote_nothing_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyError), run_in(tmp_path / "a" / "run").open(resume=False, force=False):
        raise KeyError
    assert list(tmp_path.iterdir()) == []


def test_force_deletes_the_run_alone(tmp_path: Path) -> None:
    for name in ("log.jsonl", "config.toml", "notes.txt"):
        (tmp_path / name).touch()
    (tmp_path / "checkpoints" / "step-00000001").mkdir(parents=True)
    with run_in(tmp_path).open(resume=False, force=True):
        assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("options", [{"resume": False, "force": True}, {"resume": True, "force": False}])
def test_a_directory_without_a_run_is_left_alone(tmp_path: Path, options: dict[str, bool]) -> None:
    (tmp_path / "config.toml").write_text("precious")
    with (
        pytest.raises(OutputError, match="expected the directory of a run, found other files"),
        run_in(tmp_path).open(**options),
    ):
        pass
    assert (tmp_path / "config.toml").read_text() == "precious"
