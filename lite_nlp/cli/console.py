"""Where output goes: results to stdout, everything else to stderr."""

import json
import sys
from collections.abc import Mapping
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

__all__ = ["SCHEMA_VERSION", "err", "out", "print_json", "progress_bar"]

SCHEMA_VERSION: Final = 1

#: Results for people.
out = Console(highlight=False)

#: Progress, warnings and logs.
err = Console(stderr=True, highlight=False)


def print_json(content: Mapping[str, Any]) -> None:
    """Print exactly one JSON object, ``schema_version`` first, to stdout."""
    json.dump({"schema_version": SCHEMA_VERSION, **content}, sys.stdout, ensure_ascii=False, indent=2)
    sys.stdout.write("\n")


def progress_bar() -> Progress:
    """A progress bar on stderr with counts, elapsed and remaining time."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=err,
    )
