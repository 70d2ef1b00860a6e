"""Seconds of an export's stages, of several versions of the source side by side.

    python benchmarks/export_stages.py MODEL [--tree DIR ...] [--rounds 1] [--json] [-- OPTION ...]

Each tree, such as one that ``git worktree add`` made, exports the model in a process of its own, in turns, so that a
change in the load of the machine meets all of them. Stages are those that ``lite-nlp export`` reports, in wall time;
``all`` is the processor time of the process, as a ratio to the first tree's too. Medians over the rounds. What stands
after ``--`` is handed on to ``lite-nlp export``.
"""

import argparse
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from lite_nlp.export.runtime.device import describe_device

#: A line that tells how long a stage took.
_STAGE = re.compile(r"^(?P<stage>.+): done in (?P<seconds>[\d.]+) s$", re.MULTILINE)

_EXPORT = "from lite_nlp.cli.main import main; main()"


def export_once(tree: Path, model: str, options: Sequence[str]) -> dict[str, float]:
    """Seconds of each stage of one export by the source in ``tree``, and of the processor for all.

    Raises:
        SystemExit: If it fails, with what it said.
    """
    environment = {**os.environ, "PYTHONPATH": str(tree.resolve()), "COLUMNS": "120"}
    with tempfile.TemporaryDirectory() as folder:
        # Not the present folder's source, which Python would find first.
        command = [sys.executable, "-P", "-c", _EXPORT, "export", model, "--out", f"{folder}/model.zip", *options]
        before = _processor_seconds()
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{tree}: expected an export, found exit code {done.returncode}: {done.stderr[-2000:]}")
        stages = {found["stage"]: float(found["seconds"]) for found in _STAGE.finditer(done.stderr)}
        return {**stages, "all": _processor_seconds() - before}


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(trees: Sequence[Path], model: str, options: Sequence[str], rounds: int) -> list[dict[str, Any]]:
    """A row for each tree."""
    found: list[list[dict[str, float]]] = [[] for _ in trees]
    for _ in range(rounds):
        for tree, stages in zip(trees, found, strict=True):
            stages.append(export_once(tree, model, options))
    return [
        {
            "tree": str(tree),
            "seconds": {stage: statistics.median(one[stage] for one in own) for stage in own[0]},
            "ratio": statistics.median(one["all"] / first["all"] for one, first in zip(own, found[0], strict=True)),
        }
        for tree, own in zip(trees, found, strict=True)
    ]


def show(rows: Sequence[dict[str, Any]]) -> Table:
    """The rows for the eye: a line for each stage."""
    table = Table("stage", *(row["tree"] for row in rows))
    for stage in rows[0]["seconds"]:
        table.add_row(stage, *(f"{row['seconds'].get(stage, 0.0):.1f} s" for row in rows))
    table.add_row("all, of the first", *(f"{row['ratio']:.2f}" for row in rows))
    return table


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, measure, print."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    place = given.index("--") if "--" in given else len(given)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("--tree", action="append", type=Path, metavar="DIR", help="the present folder by default")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(given[:place])
    handed_on = given[place + 1 :]
    rows = measure(options.tree or [Path()], options.model, handed_on, options.rounds)
    if options.json:
        settings = {"model": options.model, "options": handed_on, "rounds": options.rounds}
        print(json.dumps({"device": describe_device().to_json(), "settings": settings, "rows": rows}, indent=1))
    else:
        Console().print(show(rows))


if __name__ == "__main__":
    main()
