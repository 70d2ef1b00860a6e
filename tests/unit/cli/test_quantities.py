import pytest
import typer

from lite_nlp.cli.quantities import parse_count, parse_size


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("570KB", 570_000),
        ("4MB", 4_000_000),
        ("1.5gb", 1_500_000_000),
        ("812B", 812),
        ("812", 812),
        (" 4 MB ", 4_000_000),
    ],
)
def test_sizes(text: str, expected: int) -> None:
    assert parse_size(text, option="--max-size") == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("500M", 500_000_000), ("10m", 10_000_000), ("2.5K", 2500), ("4096", 4096), ("1G", 10**9)]
)
def test_counts(text: str, expected: int) -> None:
    assert parse_count(text, option="--max-macs") == expected


@pytest.mark.parametrize(
    "text", ["", "MB", "4MiB", "4M B", "-4MB", "0", "1.5B", "four", "4TB", "1e6", "٤", "nan", "inf", "9" * 19]
)
def test_no_sizes(text: str) -> None:
    with pytest.raises(typer.BadParameter, match=r"--max-size: expected a size such as 570KB, 4MB or 812"):
        parse_size(text, option="--max-size")


@pytest.mark.parametrize("text", ["", "M", "500MB", "-1", "0", "0.5", "1.0001K", "half", "1e400", "9" * 5000])
def test_no_counts(text: str) -> None:
    with pytest.raises(typer.BadParameter, match=r"--max-macs: expected a count such as 500M, 10M or 4096"):
        parse_count(text, option="--max-macs")
