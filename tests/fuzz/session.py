"""A run of the fuzzer: what has been found before is judged first, then new cases until the time is up."""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final

from tests.fuzz.corpus import Case, make_case
from tests.fuzz.judge import Verdict
from tests.fuzz.readers import KINDS
from tests.fuzz.seeds import make_seeds
from tests.fuzz.workers import Worker

__all__ = ["KEPT", "Finding", "Session"]

#: Files that were findings once and belong to the repository.
KEPT: Final = Path(__file__).parent / "kept"

_BATCH: Final = 120


@dataclass(frozen=True)
class Finding:
    """A file that a reader should not have treated so.

    Attributes:
        name: Of the file.
        problem: What is wrong.
    """

    name: str
    problem: str


@dataclass
class Session:
    """Judges files and keeps its state in a folder, so that it goes on where it was stopped.

    Attributes:
        folder: Of the state: ``seeds``, ``findings``, ``state-SEED.json``; made if it does not exist.
        seed: Of the random numbers.
        workers: One for each language.
        counts: Cases by kind and outcome.
        findings: All of this run.
    """

    folder: Path
    seed: int
    workers: Sequence[Worker]
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._seeds = make_seeds()
        for name in ("seeds", "findings", "work"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        for kind, contents in self._seeds.items():
            for index, content in enumerate(contents):
                (self.folder / "seeds" / f"{kind}-{index}{KINDS[kind].suffix}").write_bytes(content)

    @property
    def next_case(self) -> int:
        """Number of the first case that has not been judged yet."""
        try:
            return int(json.loads(self._state.read_text())["next"])
        except FileNotFoundError:
            return 0

    @property
    def _state(self) -> Path:
        return self.folder / f"state-{self.seed}.json"

    def replay(self) -> int:
        """Judge all files that were findings once; returns their number."""
        paths = [path for folder in (KEPT, self.folder / "findings") for path in sorted(folder.glob("*-*"))]
        cases = [
            Case(path.name.split("-")[0], path.name, path.read_bytes()) for path in paths if path.suffix != ".verdict"
        ]
        self._judge(cases)
        return len(cases)

    def run(self, *, seconds: float, max_cases: int | None, advance: Callable[[int], None]) -> None:
        """Judge new cases until the time is up or there have been so many.

        Args:
            seconds: Time.
            max_cases: Most cases; None for as many as the time allows.
            advance: Told the number of cases of each batch.
        """
        ends, first = time.monotonic() + seconds, self.next_case
        numbers: Iterator[int] = iter(range(first, first + max_cases if max_cases else 1 << 62))
        while time.monotonic() < ends and (batch := list(islice(numbers, _BATCH))):
            self._judge([make_case(self._seeds, self.seed, index) for index in batch])
            self._state.write_text(json.dumps({"next": batch[-1] + 1}) + "\n")
            advance(len(batch))

    def _judge(self, cases: Sequence[Case]) -> None:
        work = self.folder / "work"
        for case in cases:
            (work / case.name).write_bytes(case.content)
        with ThreadPoolExecutor(len(self.workers)) as pool:
            verdicts = list(
                pool.map(lambda worker: [worker.judge(case.kind, work / case.name) for case in cases], self.workers)
            )
        for case, found in zip(cases, zip(*verdicts, strict=True), strict=True):
            by_language = {
                worker.language: verdict
                for worker, verdict in zip(self.workers, found, strict=True)
                if verdict is not None
            }
            problem = compare(by_language)
            outcome = "finding" if problem else next(iter(by_language.values())).outcome
            self.counts[case.kind, outcome] += 1
            if problem:
                self._keep(case, problem, by_language)
            (work / case.name).unlink()

    def _keep(self, case: Case, problem: str, verdicts: dict[str, Verdict]) -> None:
        self.findings.append(Finding(case.name, problem))
        target = self.folder / "findings" / case.name
        target.write_bytes(case.content)
        told = {"problem": problem, **{language: asdict(verdict) for language, verdict in verdicts.items()}}
        target.with_name(f"{target.name}.verdict").write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n")


def compare(verdicts: dict[str, Verdict]) -> str:
    """What is wrong with the verdicts of the languages on one file; empty if nothing is."""
    for language, verdict in verdicts.items():
        if verdict.outcome == "finding":
            return f"{language}: {verdict.detail}"
    outcomes = {verdict.outcome for verdict in verdicts.values()}
    told = "; ".join(f"{language} {verdict.outcome}: {verdict.detail[:300]}" for language, verdict in verdicts.items())
    if len(outcomes) > 1:
        return f"accepted by one alone: {told}"
    if outcomes == {"accepted"} and len({verdict.detail for verdict in verdicts.values()}) > 1:
        return f"read differently: {told}"
    return ""
