"""``python -m tests.fuzz``, what ``make fuzz`` runs."""

import argparse
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from tests.fuzz.readers import KINDS
from tests.fuzz.session import Session
from tests.fuzz.workers import kotlin_worker, python_worker

_SHOWN_FINDINGS = 20


def main() -> int:
    """Run the fuzzer; 0 if nothing was found, 1 if something was."""
    parser = argparse.ArgumentParser(
        prog="make fuzz FUZZ=...",
        description="Hostile files for every reader, in Python and in Kotlin, whose verdicts are compared.",
    )
    parser.add_argument("--minutes", type=float, default=5.0, help="time for new cases (default: %(default)s)")
    parser.add_argument("--cases", type=int, metavar="N", help="judge at most so many new cases")
    parser.add_argument("--seed", type=int, default=1, help="of the random numbers (default: %(default)s)")
    parser.add_argument("--python-only", action="store_true", help="leave out the Kotlin readers, which take Java")
    parser.add_argument("--folder", type=Path, default=Path("runs/fuzz"), help="of the state (default: %(default)s)")
    options = parser.parse_args()
    console = Console(stderr=True)
    workers = [python_worker()]
    if options.python_only:
        console.print("the Kotlin readers are left out: verdicts are not compared")
    else:
        try:
            workers.append(kotlin_worker())
        except OSError as error:
            console.print(f"error: {error}; --python-only leaves them out", markup=False)
            return 1
    session = Session(options.folder, options.seed, workers)
    try:
        replayed = session.replay()
        first = session.next_case
        console.print(f"{replayed} earlier findings judged again; new cases of seed {options.seed} from {first} on")
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=console) as progress:
            task = progress.add_task("cases", total=options.cases)

            def advance(count: int) -> None:
                progress.update(task, advance=count, description=f"cases, {len(session.findings)} findings")

            session.run(seconds=60 * options.minutes, max_cases=options.cases, advance=advance)
    except KeyboardInterrupt:
        console.print("stopped; the next run goes on from here")
    finally:
        for worker in workers:
            worker.close()
    _report(session)
    return 1 if session.findings else 0


def _report(session: Session) -> None:
    table = Table(title=f"{sum(session.counts.values())} files")
    for column in ("kind", "accepted", "refused", "findings"):
        table.add_column(column, justify="left" if column == "kind" else "right")
    for kind in KINDS:
        table.add_row(kind, *(str(session.counts[kind, outcome]) for outcome in ("accepted", "refused", "finding")))
    console = Console()
    console.print(table)
    for finding in session.findings[:_SHOWN_FINDINGS]:
        console.print(f"{finding.name}: {finding.problem}", markup=False, highlight=False)
    if session.findings:
        console.print(f"{len(session.findings)} findings, each with its verdicts, in {session.folder / 'findings'}")
    else:
        console.print(f"no findings; seeds and state in {session.folder}")


if __name__ == "__main__":
    sys.exit(main())
