"""Signals become an exception that nothing takes for an error of its own."""

import os
import signal

import pytest

from lite_nlp.core.errors import DataError
from lite_nlp.core.parsing import parsing
from lite_nlp.core.signals import STOP_SIGNALS, Stopped, stopped_by_signals, undisturbed


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_a_signal_is_an_exception_with_the_code_of_a_shell(number: int) -> None:
    before = signal.getsignal(number)
    with pytest.raises(Stopped) as stopped, stopped_by_signals(), parsing("file", "text", DataError):
        os.kill(os.getpid(), number)
    assert stopped.value.code == 128 + number
    assert stopped.value.signal_name == signal.Signals(number).name
    assert signal.getsignal(number) is before


def test_an_ignored_signal_stays_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stopped_by_signals():
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_signal_waits_for_what_belongs_together() -> None:
    done = []
    with pytest.raises(Stopped), stopped_by_signals():
        with undisturbed():
            with undisturbed():
                os.kill(os.getpid(), signal.SIGTERM)
                done.append("inner")
            done.append("outer")
        done.append("after")
    assert done == ["inner", "outer"]
