"""Native code's own output is dropped, and the streams of the process come back."""

import io
import logging
import os
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from lite_nlp.export.runtime.quiet import quiet_libraries, quiet_native_code


def test_two_threads_put_back_the_descriptors_of_the_process(capfd: pytest.CaptureFixture[str]) -> None:
    entered, leave = threading.Event(), threading.Event()

    def first() -> None:
        with quiet_native_code():
            entered.set()
            assert leave.wait(10)
            os.write(1, b"dropped\n")

    def second() -> None:
        assert entered.wait(10)
        # The first one is left while this one waits to enter, or is inside.
        threading.Timer(0.05, leave.set).start()
        with quiet_native_code():
            os.write(2, b"dropped\n")

    threads = [threading.Thread(target=run) for run in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    os.write(1, b"out\n")
    os.write(2, b"err\n")
    assert capfd.readouterr() == ("out\n", "err\n")


def test_a_process_that_has_closed_its_streams_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stdout", "stderr"):
        closed = io.StringIO()
        closed.close()
        monkeypatch.setattr(sys, name, closed)
    with quiet_native_code():
        pass
    assert sys.stdout.closed


@pytest.mark.parametrize("block", [quiet_native_code, quiet_libraries])
def test_a_library_that_logs_meanwhile_leaves_no_handler(
    block: Callable[[], AbstractContextManager[None]],
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    with block():
        # Both give the root logger a handler for the stream of the moment.
        logging.debug("dropped")
        logging.basicConfig(level=logging.DEBUG, force=True)
    assert (root.handlers, root.level) == ([], logging.WARNING)
    logging.getLogger("lite_nlp").warning("said")
    assert capfd.readouterr() == ("", "said\n")
