"""Commands that a signal ends: one line, the exit code of a shell, and nothing half done on the disk."""

import glob
import os
import signal
from pathlib import Path

import pytest

from tests.integration.stopping import started, stop, wait_for


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_file_that_is_being_written(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "out.txt").write_text("old")
    words = ("translate", "--output", str(tmp_path / "new" / "out.txt"))
    with started(*words) as process:
        wait_for(lambda: glob.glob("new/.*.partial", root_dir=tmp_path), process)
        assert stop(process, number).count("\n") == 1
    assert os.listdir(tmp_path) == ["out.txt"]


def test_a_directory_that_is_being_written(tmp_path: Path) -> None:
    # Enough for some seconds.
    (tmp_path / "text.txt").write_text("".join(f"{number} bottles of beer on the wall\n" for number in range(400_000)))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "data.json").write_text("old")
    words = ("data", "prepare", "--text", str(tmp_path / "text.txt"), "--out", str(tmp_path / "out"), "--force")
    with started(*words) as process:
        wait_for(lambda: glob.glob(".*.partial", root_dir=tmp_path), process)
        stop(process, signal.SIGTERM)
    assert sorted(os.listdir(tmp_path)) == ["out", "text.txt"]
    assert (tmp_path / "out" / "data.json").read_text() == "old"


def test_a_compression(tmp_path: Path) -> None:
    with started("compress", "--out", str(tmp_path / "out")) as process:
        # Path.glob fails where a directory is renamed between its listing and that of its files; glob.glob does not.
        wait_for(lambda: glob.glob(".*.partial/*.lnlp", root_dir=tmp_path), process)
        stop(process, signal.SIGTERM)
    # What was worked out is kept, for the same command.
    assert os.listdir(tmp_path) == ["out.partial"]
