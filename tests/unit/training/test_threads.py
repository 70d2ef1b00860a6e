import io
import re
from pathlib import Path

import pytest
import torch
from accelerate import Accelerator
from rich.console import Console

from lite_nlp.core.bounds import MAX_THREADS
from lite_nlp.training import rehearsal, threads
from lite_nlp.training.loop import train
from lite_nlp.training.threads import fixed_threads, measure_threads, threads_restored

from .run_files import same, weights_at
from .tiny_task import make_config, make_job


class Machine:
    """Four cores on which a piece of work takes a known time, by the number of torch's threads."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: dict[int, list[float]]) -> None:
        self.now = 0.0
        self.threads = 0
        self.tried: list[int] = []
        self._seconds = {count: iter(found) for count, found in seconds.items()}
        monkeypatch.setattr(threads, "usable_cores", lambda: 4)
        monkeypatch.setattr(torch, "set_num_threads", self._set)

    def _set(self, count: int) -> None:
        self.threads = count

    def work(self) -> float:
        self.tried.append(self.threads)
        self.now += next(self._seconds[self.threads])
        return 100.0


def test_the_fastest_number_is_found_through_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    # The first round is slow everywhere, and another program disturbs single rounds.
    machine = Machine(
        monkeypatch,
        {1: [9, 0.2, 0.2, 0.9, 0.2, 0.2], 2: [9, 0.1, 0.1, 0.1, 0.8, 0.1], 4: [9, 0.12, 0.05, 0.2, 0.2, 0.2]},
    )
    choice = measure_threads(machine.work, clock=lambda: machine.now, seconds=100)
    assert choice.threads == machine.threads == 2
    assert choice.describe("tokens") == "threads: 2 of 4 (1: 500, 2: 1,000, 4: 500 tokens/s)"


def test_a_number_that_is_far_slower_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, {1: [0.1] * 6, 2: [0.1] * 6, 4: [0.5] * 6})
    choice = measure_threads(machine.work, clock=lambda: machine.now, seconds=100)
    # Of equals the smaller: the other cores are left to other programs.
    assert choice.threads == 1
    assert (machine.tried.count(4), machine.tried.count(2)) == (3, 6)


def test_a_slow_machine_ends_the_measurement_after_one_round(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, {1: [3.0], 2: [2.0], 4: [1.0]})
    assert measure_threads(machine.work, clock=lambda: machine.now, seconds=3).threads == 4
    assert machine.tried == [1, 2, 4]


def test_nothing_is_measured_where_there_is_nothing_to_choose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "usable_cores", lambda: 4)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert fixed_threads() is None
    assert fixed_threads(processes=2) is None
    four = fixed_threads(processes=4)
    assert four is not None
    assert four.threads == 1
    given = fixed_threads(3)
    assert given is not None
    assert given.describe("tokens") == "threads: 3 of 4 (as asked for)"
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    fixed = fixed_threads()
    assert fixed is not None
    assert fixed.threads == 2
    monkeypatch.setenv("OMP_NUM_THREADS", "99999")
    bounded = fixed_threads()
    assert bounded is not None
    assert bounded.threads == MAX_THREADS


def test_the_number_of_threads_is_given_back() -> None:
    before = torch.get_num_threads()
    with threads_restored():
        torch.set_num_threads(before + 1)
    assert torch.get_num_threads() == before


def test_a_measurement_leaves_no_trace_in_the_run(
    tmp_path: Path, accelerator: Accelerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    # Two candidates, of which the run takes one thread as the other run does.
    monkeypatch.setattr(threads, "usable_cores", lambda: 2)
    monkeypatch.setattr(threads, "_WORTHWHILE", 1e9)
    monkeypatch.setattr(threads, "_ROUNDS", 2)
    output = io.StringIO()
    train(make_job(tmp_path / "given", make_config(), threads=1), accelerator)
    job = make_job(tmp_path / "measured", make_config(), threads=None, console=Console(file=output, width=200))
    metrics = train(job, accelerator)
    assert re.search(r"threads: 1 of 2 \(1: [\d,]+, 2: [\d,]+ tokens/s\)", output.getvalue())
    assert metrics["threads"] == 1
    assert same(weights_at(tmp_path / "given", 6), weights_at(tmp_path / "measured", 6))


def test_a_resumed_run_keeps_its_threads(
    tmp_path: Path, accelerator: Accelerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(threads, "usable_cores", lambda: 2)
    monkeypatch.setattr(rehearsal, "measure_threads", lambda *_, **__: pytest.fail("measured"))
    train(make_job(tmp_path / "run", make_config(max_steps=3), threads=1), accelerator)
    output = io.StringIO()
    job = make_job(tmp_path / "run", make_config(), resume=True, threads=None, console=Console(file=output, width=200))
    assert train(job, accelerator)["threads"] == 1
    assert "threads: 1 of" in output.getvalue()
    assert "as the run began" in output.getvalue()
