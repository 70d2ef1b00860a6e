"""Progress without a terminal, by a clock that the test turns."""

import time

from lite_nlp.cli.lines import ProgressLines


class Log:
    def __init__(self) -> None:
        self.now = 0.0
        self.lines: list[str] = []
        self.progress = ProgressLines(self.lines.append, clock=lambda: self.now, watch=False)

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.progress.look()


def test_lines_come_while_the_work_goes_on() -> None:
    log = Log()
    log.progress.start("fine-tuning", 300)
    for step in range(100):
        log.now += 0.5
        log.progress.advance(figures=f"loss {3 - step / 100:.2f}")
    assert log.lines == [
        "fine-tuning: 30 of 300, loss 2.71, 15 s, 2 min left",
        "fine-tuning: 60 of 300, loss 2.41, 30 s, 2 min left",
        "fine-tuning: 90 of 300, loss 2.11, 45 s, 105 s left",
    ]
    log.progress.finish()
    assert log.lines[-1] == "fine-tuning: 100, loss 2.01 in 50 s"


def test_work_that_reports_nothing_is_seen_to_go_on() -> None:
    log = Log()
    log.progress.start("tracing", None)
    for _ in range(4):
        log.wait(10)
    assert log.lines == ["tracing: 20 s", "tracing: 40 s"]
    log.progress.start("splits", None)
    log.progress.advance(5000)
    log.wait(16)
    assert log.lines[2:] == ["tracing: done in 40 s", "splits: 5,000 done, 16 s"]


def test_short_work_has_one_line_and_none_if_it_fails() -> None:
    log = Log()
    log.progress.start("scan", 2)
    log.wait(0.25)
    log.progress.advance(2)
    log.progress.start("search", None)
    log.progress.close()
    log.progress.finish()
    assert log.lines == ["scan: 2 in 0.2 s"]


def test_a_thread_looks_at_the_clock() -> None:
    lines: list[str] = []
    # Each look takes ten seconds.
    ticks = iter(range(0, 100_000, 10))
    progress = ProgressLines(lines.append, clock=lambda: float(next(ticks)))
    progress.start("compiling", None)
    for _ in range(200):
        if lines:
            break
        time.sleep(0.02)
    progress.close()
    assert lines
    assert lines[0].startswith("compiling: ")
