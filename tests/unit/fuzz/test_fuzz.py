"""The fuzzer itself: a few of its cases in Python, and that it would notice what it looks for."""

import json
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import pytest

from lite_nlp.core.errors import ModelError
from tests.fuzz.corpus import make_case
from tests.fuzz.judge import Verdict, judge
from tests.fuzz.mutations import edit_json
from tests.fuzz.readers import KINDS, Kind, canonical
from tests.fuzz.seeds import make_seeds
from tests.fuzz.session import KEPT, Session, compare
from tests.fuzz.workers import Worker, python_worker


def test_a_few_hundred_cases_and_all_that_was_found_before(tmp_path: Path) -> None:
    worker = python_worker()
    try:
        session = Session(tmp_path, 7, [worker])
        assert session.replay() == len(list(KEPT.glob("*-*")))
        session.run(seconds=math.inf, max_cases=360, advance=lambda count: None)
    finally:
        worker.close()
    assert session.findings == []
    assert session.next_case == 360
    for kind in KINDS:
        assert session.counts[kind, "accepted"] > 0
        assert session.counts[kind, "refused"] > 0


def test_seeds_are_accepted(tmp_path: Path) -> None:
    for kind, contents in make_seeds().items():
        for content in contents:
            path = tmp_path / f"seed{KINDS[kind].suffix}"
            path.write_bytes(content)
            verdict = judge(KINDS[kind], path)
            assert verdict.outcome == "accepted", verdict.detail


def test_a_case_follows_from_its_numbers() -> None:
    seeds, again = make_seeds(), make_seeds()
    assert again == seeds
    for index in range(30, 60):
        assert make_case(seeds, 1, index) == make_case(again, 1, index)
    assert any(make_case(seeds, 1, index).content != make_case(seeds, 2, index).content for index in range(30, 36))


def test_no_part_of_an_edited_document_stands_in_two_places() -> None:
    document = {"a": {"b": [1, 2], "c": {"d": "e"}}, "f": [[], {"g": 0}]}
    for seed in range(300):
        seen: set[int] = set()
        rest = [edit_json(Random(seed), document)]
        while rest:
            found = rest.pop()
            if isinstance(found, dict | list):
                assert id(found) not in seen, seed
                seen.add(id(found))
                rest += found.values() if isinstance(found, dict) else found


def _crash(path: Path) -> str:
    raise ValueError(f"a fault for {path.stat().st_size} bytes")


def _panic(path: Path) -> str:
    raise BaseException("a panic")


def _print(path: Path) -> str:
    os.write(1, b"here")
    return ""


def _allocate(path: Path) -> str:
    return str(np.ones(40_000_000).sum())


@pytest.mark.parametrize(
    ("read", "found"),
    [
        (_crash, "ValueError: a fault for 3 bytes"),
        (_panic, "a panic"),
        (_print, "on stdout"),
        (_allocate, "MB of memory"),
    ],
)
def test_faults_are_findings(read: Callable[[Path], str], found: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    verdict = judge(Kind(read, (ModelError,), ""), path)
    assert verdict.outcome == "finding"
    assert found in verdict.detail


def test_refusals_are_none(tmp_path: Path) -> None:
    def refuse(path: Path) -> str:
        raise ModelError(f"{path.name}: expected another file")

    path = tmp_path / "file"
    path.write_bytes(b"")
    assert judge(Kind(refuse, (ModelError,), ""), path).outcome == "refused"


def test_a_process_that_ends_is_a_finding_and_is_started_again(tmp_path: Path) -> None:
    program = "import sys; sys.stdin.readline(); print('no json', flush=True); sys.exit('out of order')"
    worker = Worker("Python", [sys.executable, "-c", program])
    for _ in range(2):
        verdict = worker.judge("json", tmp_path)
        assert verdict is not None
        assert verdict.outcome == "finding"
        assert "the process failed" in verdict.detail
    worker.close()


@pytest.mark.parametrize(
    ("verdicts", "problem"),
    [
        ((Verdict("accepted", "x"), Verdict("accepted", "x")), ""),
        ((Verdict("refused", "one"), Verdict("refused", "another")), ""),
        (
            (Verdict("accepted", "x"), Verdict("refused", "y")),
            "accepted by one alone: Python accepted: x; Kotlin refused: y",
        ),
        (
            (Verdict("accepted", "x"), Verdict("accepted", "y")),
            "read differently: Python accepted: x; Kotlin accepted: y",
        ),
        ((Verdict("refused", "x"), Verdict("finding", "y")), "Kotlin: y"),
    ],
)
def test_verdicts_are_compared(verdicts: tuple[Verdict, Verdict], problem: str) -> None:
    assert compare(dict(zip(("Python", "Kotlin"), verdicts, strict=True))) == problem


def test_findings_are_kept_and_judged_first_by_the_next_run(tmp_path: Path) -> None:
    class Suspicious(Worker):
        def judge(self, kind: str, path: Path) -> Verdict | None:
            bad = kind == "json" and path.stat().st_size > 100
            return Verdict("finding", "too long") if bad else Verdict("accepted", "")

    first = Session(tmp_path, 1, [Suspicious("Python", [])])
    first.run(seconds=math.inf, max_cases=120, advance=lambda count: None)
    assert first.findings
    kept = sorted(path.name for path in (tmp_path / "findings").glob("*.json"))
    assert kept == sorted(finding.name for finding in first.findings)
    told = json.loads((tmp_path / "findings" / f"{kept[0]}.verdict").read_text())
    assert told["problem"] == "Python: too long"
    second = Session(tmp_path, 1, [Suspicious("Python", [])])
    assert second.next_case == 120
    assert second.replay() == len(kept) + len(list(KEPT.glob("*-*")))
    assert sorted(finding.name for finding in second.findings if finding.name in kept) == kept


def test_the_canonical_form_tells_numbers_apart() -> None:
    forms = [canonical(value) for value in (1, 1.0, True, "1", [1], {"1": 1}, None, -0.0, 0.0)]
    assert len(set(forms)) == len(forms)
    assert canonical({"b": 1, "a": 2}) == canonical({"a": 2, "b": 1})
