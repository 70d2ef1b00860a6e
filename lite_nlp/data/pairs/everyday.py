"""The everyday English-German sentence pairs that come with the package."""

from importlib.resources import files
from typing import Final

from lite_nlp.core.errors import DataError

__all__ = ["EVERYDAY_FILE", "EVERYDAY_LANGUAGES", "read_everyday_pairs"]

EVERYDAY_FILE: Final = "everyday.en-de.tsv"
EVERYDAY_LANGUAGES: Final = ("en", "de")


def read_everyday_pairs() -> list[tuple[str, str]]:
    """Every pair, English first.

    Raises:
        DataError: If a line of the file has not two columns.
    """
    pairs = []
    text = files("lite_nlp").joinpath("assets", EVERYDAY_FILE).read_text(encoding="utf-8")
    for number, line in enumerate(text.splitlines(), start=1):
        columns = line.split("\t")
        if len(columns) != 2:
            raise DataError(f"{EVERYDAY_FILE}: line {number}: expected two columns, found {len(columns)}")
        pairs.append((columns[0], columns[1]))
    return pairs
