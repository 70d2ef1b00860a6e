"""What the most expensive containers cost the readers: ``python -m tests.fuzz.costs [--python-only]``."""

import argparse
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.fuzz.examples import EXAMPLES
from tests.fuzz.judge import Verdict
from tests.fuzz.workers import kotlin_worker, python_worker


def main() -> None:
    """Judge each file in a process of its own and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python-only", action="store_true", help="leave out the Kotlin reader, which takes Java")
    workers = [python_worker()] if parser.parse_args().python_only else [python_worker(), kotlin_worker()]
    table = Table(title="peak of the process (its own start included), and time")
    for column in ("file", "MB", "allowed", *(worker.language for worker in workers)):
        table.add_column(column)
    with tempfile.TemporaryDirectory() as folder:
        for name, (make, _) in EXAMPLES.items():
            path = Path(folder) / "hostile.lnlp"
            path.write_bytes(make())
            size = path.stat().st_size
            found = []
            for worker in workers:
                verdict = worker.judge("container", path)
                found.append(_cost(verdict, worker.peak_bytes()))
                worker.close()
            table.add_row(name, f"{size / 1e6:.2f}", f"{200 + 40 * size / 1e6:.0f} MB", *found)
    Console().print(table)


def _cost(verdict: Verdict | None, peak: int) -> str:
    return "" if verdict is None else f"{peak / 1e6:.0f} MB, {verdict.seconds:.1f} s, {verdict.outcome}"


if __name__ == "__main__":
    main()
