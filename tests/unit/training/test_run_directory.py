"""The directory of a run: one run at a time, and nothing of anybody else's is deleted."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from lite_nlp.artifacts.model_files import MODEL_FILES
from lite_nlp.config.preset import load_config
from lite_nlp.core.errors import OutputError, TrainingError, UsageError
from lite_nlp.training.destination import check_sources
from lite_nlp.training.journal import Journal
from lite_nlp.training.run_directory import RunDirectory


def run_in(path: Path) -> RunDirectory:
    return RunDirectory(path, config=load_config("multi30k-transformer"), tokenizer_json=b"{}")


def write(path: Path, files: Mapping[str, str]) -> None:
    for name, content in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(content)


def read(path: Path) -> dict[str, str]:
    return {str(file.relative_to(path)): file.read_text() for file in path.rglob("*") if file.is_file()}


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


def test_a_model_without_a_checkpoint_is_not_resumed(tmp_path: Path) -> None:
    assert run_in(tmp_path).load_latest(pytest.fail) is None
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(TrainingError, match="expected checkpoints to resume from, found a model and no checkpoint"):
        run_in(tmp_path).load_latest(pytest.fail)


@pytest.mark.parametrize("source", ["run", "other/../run", "link", "run/small.lnlp"])
def test_a_run_does_not_replace_a_model_that_it_reads(tmp_path: Path, source: str) -> None:
    write(tmp_path, {"run/small.lnlp": "", "other/notes.txt": ""})
    (tmp_path / "link").symlink_to(tmp_path / "run")
    out = tmp_path / "run"
    with pytest.raises(UsageError, match=f"--out: expected another directory than the teacher's, found {out}$"):
        check_sources(out, [("that of --ensemble", tmp_path / "other"), ("the teacher's", str(tmp_path / source))])


def test_other_models_may_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"run/small.lnlp": "", "runs/small.lnlp": ""})
    check_sources(
        tmp_path / "run", [("the teacher's", tmp_path / "runs"), ("the teacher's", tmp_path / "runs/small.lnlp")]
    )
    # The name of a shipped model is no path.
    monkeypatch.chdir(tmp_path)
    check_sources(Path("multi30k-en-de"), [("the teacher's", "multi30k-en-de"), ("the teacher's", "a\0b")])


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


@pytest.mark.parametrize(
    "files",
    [
        # Of Hugging Face, of another trainer, and of nobody in particular.
        {"model.safetensors": "precious", "tokenizer.json": "precious", "config.json": "precious"},
        {"checkpoints/best.pt": "precious", "checkpoints/step-final/model.pt": "precious", "config.toml": "precious"},
        {"tensorboard/events.out.tfevents.1": "precious", "config.toml": "precious"},
        {"log.jsonl": '{"message": "precious"}\n', "metrics.json": "precious"},
        {"log.jsonl": "", "config.toml": "precious"},
    ],
    ids=lambda files: " ".join(files),
)
def test_names_that_others_use_too_are_no_run(tmp_path: Path, files: Mapping[str, str]) -> None:
    write(tmp_path, files)
    with (
        pytest.raises(OutputError, match="expected the directory of a run, found other files: neither a step-"),
        run_in(tmp_path).open(resume=False, force=True),
    ):
        pass
    assert read(tmp_path) == files


@pytest.mark.parametrize("name", ["checkpoints/best.pt", "checkpoints/step-1", "tensorboard/notes"])
def test_force_deletes_nothing_that_others_put_among_a_runs_files(tmp_path: Path, name: str) -> None:
    files = {"checkpoints/step-00000001/trainer.json": "{}", "config.toml": "name = 'x'", name: "precious"}
    write(tmp_path, files)
    with (
        pytest.raises(OutputError, match=f"found other files, which --force would delete: {name.partition('/')[2]}"),
        run_in(tmp_path).open(resume=False, force=True),
    ):
        pass
    assert read(tmp_path) == files


def test_force_deletes_what_a_killed_run_left(tmp_path: Path) -> None:
    """One killed before its first step, one at a validation, and one in the middle of a checkpoint; and a model."""
    with Journal(tmp_path / "none", step=0):
        pass
    with Journal(tmp_path / "validated", step=0) as journal:
        journal.record("valid", step=1, figures={"loss": 1.0})
    write(tmp_path / "validated", {"config.toml": "", "tokenizer.json": ""})
    with Journal(tmp_path / "checkpoint", step=0) as journal:
        journal.record("train", step=1, figures={"loss": 1.0})
    write(tmp_path / "checkpoint", {"checkpoints/.step-00000001.7-0a1b2c3d.partial/model.safetensors": ""})
    write(tmp_path / "model", dict.fromkeys(MODEL_FILES, ""))
    for path in sorted(tmp_path.iterdir()):
        with run_in(path).open(resume=False, force=True):
            assert read(path) == {}, path.name
