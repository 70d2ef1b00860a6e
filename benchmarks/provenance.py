"""Where results come from: command, commit, machine and time of every run of a stage, kept beside its result."""

import json
import os
import shlex
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from lite_nlp.core.files import write_text

__all__ = ["BEGINNING", "machine", "processor", "read_runs", "recorded", "source_line"]

ROOT: Final = Path(__file__).parents[1]

#: Of the line below a table.
BEGINNING: Final = "Recorded:"


@contextmanager
def recorded(out: Path, command: Sequence[str]) -> Iterator[None]:
    """Record that ``command``, which runs in this context, worked on the result ``out``.

    A command that was stopped and resumed has a record of each run, since the code may have changed between them. One
    that fails or is stopped is recorded too: what it did may remain in the result.
    """
    entry = {
        "command": shlex.join(Path(word).name if number == 0 else word for number, word in enumerate(command)),
        "commit": commit(),
        "machine": machine(),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    begun = perf_counter()
    try:
        yield
    finally:
        runs = [*read_runs(out), {**entry, "seconds": round(perf_counter() - begun, 1)}]
        write_text(_path(out), json.dumps({"schema_version": 1, "runs": runs}, indent=1) + "\n")


def read_runs(out: Path) -> list[dict[str, Any]]:
    """The runs of a stage with the result ``out``, oldest first; none if they were not recorded."""
    path = _path(out)
    if not path.exists():
        return []
    runs: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["runs"]
    return runs


def _path(out: Path) -> Path:
    return out.with_name(f"{out.name}.runs.json")


def commit() -> str | None:
    """The commit of the code, with ``+`` behind it if tracked files differ from it; None outside a repository."""
    try:
        words = ["git", "-C", str(ROOT), "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=+"]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def machine() -> str:
    """The machine in words: cores, processor, memory."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} cores of {processor()}, {memory:.0f} GiB"


def processor() -> str:
    """The processor's name as the system reports it."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def source_line(rows: Sequence[dict[str, Any]]) -> str:
    """The machines and commits of the rows of a table whose runs are recorded, as a line below it; empty if none are.

    Args:
        rows: Figures of the rows, with the ``stages`` of each.
    """
    rows_by_machine: dict[str, set[str]] = {}
    commits: dict[str, None] = {}
    measured = set()
    for row in rows:
        if row["evaluation"] is None and row["ledger"] is None:
            continue
        measured.add(row["name"])
        for run in (run for stage in row["stages"] for run in stage["runs"]):
            rows_by_machine.setdefault(run["machine"], set()).add(row["name"])
            commits[run["commit"] or "unknown"] = None
    if not rows_by_machine:
        return ""
    of = f" of {len(measured)} measurements" if len(measured) > 1 else ""
    places = "; ".join(f"{len(names)}{of} on {place}" for place, names in sorted(rows_by_machine.items()))
    return f"{BEGINNING} {places}; {_listed(commits)}."


def _listed(commits: Iterable[str]) -> str:
    names = [f"`{name}`" for name in commits]
    return f"{'commit' if len(names) == 1 else 'commits'} {', '.join(names)}"
