"""What is printed is what was typed, whatever it looks like."""

from rich.table import Table

from lite_nlp.cli.console import err, out

NAME = "d[v2]/e[/f].zip"


def test_square_brackets_are_part_of_a_name() -> None:
    for console in (out, err):
        table = Table("file", title=NAME)
        table.add_row(f"{NAME}, made from it")
        with console.capture() as captured:
            console.print(table)
            console.print(f"{NAME}: 5 steps")
        assert captured.get().count(NAME) == 3
