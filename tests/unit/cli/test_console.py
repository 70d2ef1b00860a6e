"""What is printed is what was typed, whatever it looks like."""

from rich.table import Table

from lite_nlp.cli.console import err, out

NAME = "d[v2]/e[/f].zip"


def test_a_number_between_colons_is_no_emoji() -> None:
    for console in (out, err):
        with console.capture() as captured:
            console.print("train.en-de.tsv:100: too few columns, c:dog:1")
        assert captured.get() == "train.en-de.tsv:100: too few columns, c:dog:1\n"


def test_square_brackets_are_part_of_a_name() -> None:
    for console in (out, err):
        table = Table("file", title=NAME)
        table.add_row(f"{NAME}, made from it")
        with console.capture() as captured:
            console.print(table)
            console.print(f"{NAME}: 5 steps")
        assert captured.get().count(NAME) == 3
