"""Count the same modules with our counter and every installed peer, and print the ratios to the true counts.

    python benchmarks/counters/run.py [--json] [--path PEER=DIRECTORY]

The peers are those of the extra ``counters``. Each runs in a process of its own, since some replace functions of torch.
``thop`` and ``ultralytics-thop`` install a module of the same name: install the second one into a separate directory
(``pip install --no-deps --target DIRECTORY ultralytics-thop``) and name it by ``--path ultralytics-thop=DIRECTORY``.
"""

import argparse
import json
import os
import subprocess
import sys
import warnings
from typing import Any

from blocks import BLOCKS
from cases import CASES
from peers import PEERS, count, is_installed

CASES_AND_BLOCKS = (*CASES, *BLOCKS)


def measure(peer: str) -> dict[str, Any] | None:
    """Reported multiply-accumulates by case, or the error's class; None if the peer is not installed."""
    if not is_installed(peer):
        return None
    reported: dict[str, Any] = {}
    for case in CASES_AND_BLOCKS:
        module, inputs = case.build()
        try:
            reported[case.name] = count(peer, module, inputs)
        except Exception as error:
            # A peer may fail in any way; which one is the result.
            reported[case.name] = type(error).__name__
    return reported


def measure_apart(peer: str, path: str | None) -> dict[str, Any] | None:
    """Run :func:`measure` in a fresh process that imports modules from ``path`` first."""
    command = [sys.executable, __file__, "--peer", peer]
    paths = [entry for entry in (path, os.environ.get("PYTHONPATH")) if entry]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if result.returncode:
        raise SystemExit(f"{peer}: its process failed with code {result.returncode}:\n{result.stderr}")
    measured: dict[str, Any] | None = json.loads(result.stdout.splitlines()[-1])
    return measured


def ratio(reported: Any, macs: int) -> str:
    """The ratio of reported to true count as the table shows it; exactly 1 only if both are equal."""
    if isinstance(reported, str):
        return "error"
    if reported == macs:
        return "1"
    shown = f"{reported / macs:.3g}"
    return "~1" if shown == "1" else shown


def table(columns: dict[str, dict[str, Any]]) -> str:
    """A Markdown table of all cases against all counters."""
    lines = [f"| case | Mult-Adds | {' | '.join(columns)} |", "|---" * (len(columns) + 2) + "|"]
    for case in CASES_AND_BLOCKS:
        cells = [ratio(reported[case.name], case.macs) for reported in columns.values()]
        lines.append(f"| {case.name} | {case.macs:,} | {' | '.join(cells)} |")
    for label, tolerance in (("exact", 0.0), ("within 2 %", 0.02)):
        right = [
            sum(_is_within(reported[case.name], case.macs, tolerance) for case in CASES_AND_BLOCKS)
            for reported in columns.values()
        ]
        lines.append(f"| {label} | | {' | '.join(f'{number} of {len(CASES_AND_BLOCKS)}' for number in right)} |")
    return "\n".join(lines)


def _is_within(reported: Any, macs: int, tolerance: float) -> bool:
    """Whether a count is within a tolerance, since some counters add a percent or two for norms and biases."""
    return not isinstance(reported, str) and abs(reported - macs) <= tolerance * macs


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare counters of multiply-accumulates.")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--path", action="append", default=[], metavar="PEER=DIRECTORY", help="where to import from")
    parser.add_argument("--peer", choices=list(PEERS), help="measure this one only, in this process, as JSON")
    options = parser.parse_args()
    if options.peer:
        warnings.simplefilter("ignore")
        print(json.dumps(measure(options.peer)))
        return
    paths = dict(entry.partition("=")[::2] for entry in options.path)
    if unknown := set(paths) - set(PEERS):
        parser.error(f"--path: expected one of {', '.join(PEERS)}, found {', '.join(sorted(unknown))}")
    measured = {peer: measure_apart(peer, paths.get(peer)) for peer in PEERS}
    columns = {peer: reported for peer, reported in measured.items() if reported is not None}
    if options.json:
        rows = [
            {
                "case": case.name,
                "macs": case.macs,
                "reported": {peer: cells[case.name] for peer, cells in columns.items()},
            }
            for case in CASES_AND_BLOCKS
        ]
        print(json.dumps({"schema_version": 1, "rows": rows}, indent=1))
        return
    print(table(columns))
    if missing := [peer for peer in PEERS if peer not in columns]:
        print(f"not installed: {', '.join(missing)}", file=sys.stderr)


if __name__ == "__main__":
    main()
