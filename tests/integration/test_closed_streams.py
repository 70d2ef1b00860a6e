"""Standard streams that are closed, as daemons have them: an error in one line, no success where nothing was told."""

import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = Path(sys.executable).with_name("lite-nlp")


@pytest.mark.parametrize(
    ("line", "stream"),
    [
        ("models --json >&-", "standard output"),
        ("models >&-", "standard output"),
        ("translate --text Hello >&-", "standard output"),
        ("translate <&-", "standard input"),
    ],
)
def test_a_closed_stream_is_an_error_in_a_line(line: str, stream: str) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", f"exec {COMMAND} {line}"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == f"error: {stream}: expected an open stream, found a closed one\n"
    assert done.stdout == ""


def test_errors_are_no_results_where_they_cannot_be_told() -> None:
    line = f"exec {COMMAND} translate nothing-there --text Hello <&- 2>&-"
    done = subprocess.run(["/bin/sh", "-c", line], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (1, b"")


def test_what_reads_nothing_needs_no_standard_input() -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", f"exec {COMMAND} presets --json <&-"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("{")
