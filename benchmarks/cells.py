"""Lines and cells of the Markdown tables of ``docs/results.md``."""

import statistics
from collections.abc import Iterable, Sequence
from typing import Any, Final

__all__ = ["MISSING", "score_cell", "spread_cell", "table_head", "table_line"]

#: Stands where nothing is measured.
MISSING: Final = "not measured yet"


def table_line(cells: Sequence[str]) -> str:
    """A row of a table."""
    return f"| {' | '.join(cells)} |"


def table_head(names: Sequence[str]) -> list[str]:
    """The two lines above a table, from the names of its columns."""
    return [table_line(names), "|---" * len(names) + "|"]


def score_cell(scores: dict[str, Any], metric: str) -> str:
    """A score with its interval."""
    return f"{scores[metric]:.2f} ({scores[f'{metric}_low']:.2f} to {scores[f'{metric}_high']:.2f})"


def spread_cell(values: Iterable[float]) -> str:
    """The mean of several runs, with the lowest and the highest where there are more than one."""
    found = list(values)
    mean = f"{statistics.fmean(found):.2f}"
    return mean if len(found) == 1 else f"{mean} ({min(found):.2f} to {max(found):.2f})"
