"""Commands in processes of their own, which a signal ends."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

import pytest

__all__ = ["started", "stop", "wait_for"]

COMMAND: Final = (sys.executable, "-c", "from lite_nlp.cli.main import main; main()")
PATIENCE_S: Final = 120


@contextmanager
def started(*words: str) -> Iterator["subprocess.Popen[str]"]:
    """A command in a session of its own, whose standard input stays open."""
    process = subprocess.Popen(
        [*COMMAND, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def wait_for(found: Callable[[], object], process: "subprocess.Popen[str]") -> None:
    """Wait until a function of no arguments finds something."""
    latest = time.monotonic() + PATIENCE_S
    while not found():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < latest
        time.sleep(0.05)


def stop(process: "subprocess.Popen[str]", number: signal.Signals) -> str:
    """Send a signal and wait; return what was said on stderr."""
    process.send_signal(number)
    assert process.stderr is not None
    said = process.stderr.read()
    assert process.wait(PATIENCE_S) == 128 + number
    assert said.splitlines()[-1] == f"error: stopped by {number.name}"
    assert "Traceback" not in said
    # No process of its own is left either.
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
    return said
