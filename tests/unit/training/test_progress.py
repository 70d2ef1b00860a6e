import io

from rich.console import Console

from lite_nlp.training.interruption import TimeLimit
from lite_nlp.training.progress import TrainingProgress


def show(console: Console, steps: int) -> None:
    with TrainingProgress(console=console, total_steps=10, step=4) as progress:
        for _ in range(steps):
            progress.advance(loss=2.0, tokens=500, seconds=0.5)
        progress.note("step 6: validation loss 1.9 [best]")


def test_without_a_terminal_there_is_a_line_at_once_and_then_now_and_then() -> None:
    output = io.StringIO()
    show(Console(file=output, width=120), steps=2)
    assert output.getvalue().splitlines() == [
        "step 5/10: loss 2.000, 1,000 tokens/s, 0:00:02 left",
        "step 6: validation loss 1.9 [best]",
    ]


def test_on_a_terminal_there_is_a_bar() -> None:
    output = io.StringIO()
    show(Console(file=output, width=120, force_terminal=True), steps=2)
    text = output.getvalue()
    assert "loss 2.000, 1,000 tokens/s" in text
    assert "6/10" in text
    assert "validation loss 1.9 [best]" in text


def test_a_quiet_console_shows_nothing() -> None:
    output = io.StringIO()
    show(Console(file=output, quiet=True, force_terminal=True), steps=2)
    assert output.getvalue() == ""


def test_lines_come_as_time_passes_and_know_the_time_limit() -> None:
    output, now = io.StringIO(), 0.0
    limit = TimeLimit(1.5, clock=lambda: now)
    console = Console(file=output, width=120)
    with TrainingProgress(console=console, total_steps=1000, step=0, limit=limit, clock=lambda: now) as progress:
        for _ in range(8):
            now += 10.0
            progress.advance(loss=2.0, tokens=500, seconds=10.0)
    assert [line.split(":")[0] + line[-13:] for line in output.getvalue().splitlines()] == [
        "step 1/1000 0:01:20 left",
        "step 4/1000 0:00:50 left",
        "step 7/1000 0:00:20 left",
    ]
    assert not limit.passed
    now += 10.0
    assert limit.passed
