import os
import signal

import pytest

from lite_nlp.training.interruption import StopSignal


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_noted_and_the_handlers_come_back(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with StopSignal() as stop:
        assert stop.name is None
        os.kill(os.getpid(), number)
        assert stop.name == number.name
    assert signal.getsignal(number) is before


def test_a_second_interrupt_is_obeyed_at_once() -> None:
    with StopSignal():
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
