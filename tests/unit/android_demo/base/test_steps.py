"""Steps are skipped while their inputs are the same, and leave nothing half made."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import tools.base.steps
from tools.base.errors import BuildError
from tools.base.processes import run
from tools.base.steps import exclusively, list_files, run_step


@pytest.fixture(autouse=True)
def _build_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools.base.steps, "BUILD", tmp_path / "build")


def writer(text: str) -> Callable[[Path], None]:
    return lambda path: (path.mkdir(), (path / "file").write_text(text), None)[-1]


def test_a_step_is_done_again_for_other_inputs_only(tmp_path: Path) -> None:
    source, output = tmp_path / "source", tmp_path / "build" / "output"
    source.write_text("one")
    assert run_step(output, [source], {"level": 1}, writer("first"))
    assert not run_step(output, [source], {"level": 1}, writer("second"))
    assert (output / "file").read_text() == "first"
    assert run_step(output, [source], {"level": 2}, writer("second"))
    source.write_text("two")
    assert run_step(output, [source], {"level": 2}, writer("third"))
    assert (output / "file").read_text() == "third"
    (output / "file").unlink()
    output.rmdir()
    assert run_step(output, [source], {"level": 2}, writer("fourth"))


def test_a_step_that_fails_is_done_again(tmp_path: Path) -> None:
    output = tmp_path / "build" / "output"

    def fail(path: Path) -> None:
        path.mkdir()
        (path / "half").touch()
        raise BuildError("no")

    run_step(output, [], {}, writer("good"))
    with pytest.raises(BuildError, match="no"):
        run_step(output, [], {"other": 1}, fail)
    assert [path.name for path in output.iterdir()] == ["file"]
    # What is there is of other inputs than those asked for, so neither is taken for done.
    assert run_step(output, [], {}, writer("again"))
    assert [path.name for path in output.iterdir()] == ["file"]


def test_files_come_in_one_order(tmp_path: Path) -> None:
    for name in ("b/z.kt", "a/y.kt", "a/x.txt", "a/__pycache__/w.kt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = list_files(tmp_path / "b", tmp_path / "a", tmp_path / "missing", pattern="*.kt")
    assert [path.name for path in found] == ["y.kt", "z.kt"]


def test_a_program_that_fails_is_quoted() -> None:
    with pytest.raises(BuildError, match="step: sh ended with 3, expected 0:\nthe reason"):
        run(["sh", "-c", "echo the reason >&2; exit 3"], what="step")
    with pytest.raises(BuildError, match="step: expected the program no-such-program on the path, found none"):
        run(["no-such-program"], what="step")
    assert run(["sh", "-c", "echo $WORD"], what="step", env={"WORD": "heard"}) == "heard\n"


def test_the_result_of_a_program_is_printed_once(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["sh", "-c", "echo the result"], what="step", show=True) == "the result\n"
    with pytest.raises(BuildError) as failure:
        run(["sh", "-c", "echo two failed; exit 1"], what="step", show=True)
    assert str(failure.value) == "step: sh ended with 1, expected 0"
    assert capfd.readouterr().out == "the result\ntwo failed\n"


def test_two_builds_do_a_step_one_after_the_other(capsys: pytest.CaptureFixture[str]) -> None:
    order: list[str] = []

    def second() -> None:
        with exclusively("classes/core"):
            order.append("second")

    thread = threading.Thread(target=second)
    with exclusively("classes/core"):
        thread.start()
        while "waiting" not in capsys.readouterr().err:
            thread.join(0.01)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]
