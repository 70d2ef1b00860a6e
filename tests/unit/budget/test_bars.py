"""Bars and curves on a terminal: their colours, their length, and what is left of them without a terminal."""

import io
import re

import pytest
from rich.console import Console

from lite_nlp.api.budget import check_budget
from lite_nlp.budget.reporting.bars import Sparkline, use_style
from lite_nlp.budget.reporting.tables import budget_tables

ESCAPE = "\x1b"


def shown(name: str, *, width: int = 80, terminal: bool = True, no_color: bool = False, encoding: str = "utf-8") -> str:
    raw = io.BytesIO()
    with io.TextIOWrapper(raw, encoding=encoding) as file:
        console = Console(
            file=file,
            width=width,
            force_terminal=terminal,
            color_system="standard" if terminal and not no_color else None,
            no_color=no_color,
            highlight=False,
        )
        console.print(budget_tables(check_budget(name)))
        file.flush()
        return raw.getvalue().decode(encoding)


def limits_of(text: str) -> list[str]:
    lines = text.rstrip().splitlines()
    return lines[next(index for index, line in enumerate(lines) if line.startswith("limit")) + 2 :]


@pytest.mark.parametrize(
    ("found", "style"), [(0, "green"), (749, "green"), (750, "yellow"), (1000, "yellow"), (1001, "bold red")]
)
def test_the_colour_says_how_near_the_limit_is(found: int, style: str) -> None:
    assert use_style(found, 1000) == style


def test_bars_are_as_long_as_what_is_used() -> None:
    # 359,537,760 of 500M, 11,739,792 of 10M.
    macs, params = limits_of(shown("lite-transformer-wmt-408", terminal=False))
    assert macs.count("━") + 0.5 * macs.count("╸") == pytest.approx(0.719 * params.count("━"), abs=0.5)
    assert macs.split()[-2:] == ["72%", "ok"]
    assert params.split()[-2:] == ["117%", "over"]


@pytest.mark.parametrize("name", ["tatoeba-en-de", "lite-transformer-wmt-496", "tinyshakespeare-r2d2"])
def test_everything_fits_80_columns_and_no_row_wraps(name: str) -> None:
    lines = shown(name, terminal=False).splitlines()
    assert max(map(len, lines)) <= 80
    parts = lines[next(index for index, line in enumerate(lines) if line.startswith("part ")) + 2 :]
    rows = parts[: next(index for index, line in enumerate(parts) if line.startswith("total"))]
    assert all(re.search(r"\d", line) for line in rows if line.strip())
    # The heaviest comes first, in the paper's convention.
    shares = [int(line.split("%")[0].split()[-1]) for line in rows if re.search(r" \d+%", line) and line[0] != " "]
    assert shares == sorted(shares, reverse=True)


def test_without_colours_there_are_no_escape_codes() -> None:
    assert ESCAPE in shown("lite-transformer-wmt-408")
    assert ESCAPE not in shown("lite-transformer-wmt-408", terminal=False)
    assert not re.search(ESCAPE + r"\[[0-9;]*3[0-9]", shown("lite-transformer-wmt-408", no_color=True))


def test_a_terminal_that_knows_ascii_alone_gets_ascii() -> None:
    text = shown("lite-transformer-wmt-408", terminal=False, encoding="ascii")
    assert "----" in limits_of(text)[0]
    assert "over" in text


def test_a_narrow_terminal_has_the_figures_and_no_bars() -> None:
    text = shown("lite-transformer-wmt-496", width=50, terminal=False)
    assert "1,015,485,600" in text
    assert "━" not in text


def test_a_curve_goes_from_its_smallest_figure_to_its_largest() -> None:
    console = Console(file=io.StringIO(), width=40, record=True)
    console.print(Sparkline([float(value) for value in range(8)]))
    console.print(Sparkline([2.0, 2.0]))
    console.print(Sparkline([float(value % 2) for value in range(400)]))
    lines = console.export_text().splitlines()
    assert lines[0] == "▁▂▃▄▅▆▇█"
    assert lines[1] == "▁▁"
    assert len(lines[2]) <= 40
