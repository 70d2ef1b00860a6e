"""Chains of test suites."""

import threading
from collections.abc import Callable

import pytest

from tools.base.errors import BuildError
from tools.testing.all_tests import run_chains


def test_all_suites_run_and_the_failed_ones_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    done = []

    def fail() -> None:
        raise BuildError("a test failed")

    chain = {"first": lambda: done.append(1), "second": fail, "third": lambda: done.append(3)}
    with pytest.raises(BuildError, match="2 of 4 steps failed\nsecond: a test failed\nother: a test failed"):
        run_chains(chain, {"other": fail}, at_once=1)
    assert done == [1, 3]
    said = [line.rsplit(" (")[0] for line in capsys.readouterr().err.splitlines()]
    assert said[:2] == ["first: begins", "first: passed"]
    assert [line for line in said if "begins" not in line] == [
        "first: passed",
        "second: failed",
        "third: passed",
        "other: failed",
    ]


def test_chains_run_beside_each_other_and_steps_of_one_in_order() -> None:
    """Each first step ends only when the other chain's has begun."""
    meeting = threading.Barrier(2, timeout=30)
    order = []

    def step(name: str) -> Callable[[], None]:
        return lambda: order.append(name)

    run_chains(
        {"one": lambda: meeting.wait(), "then": step("then")}, {"two": lambda: meeting.wait()}, {"last": step("last")}
    )
    assert sorted(order) == ["last", "then"]
