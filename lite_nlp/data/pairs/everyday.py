"""The everyday English-German sentence pairs that come with the package."""

from importlib.resources import files
from typing import Final

from lite_nlp.core.errors import DataError

__all__ = ["EVERYDAY_FILE", "EVERYDAY_LANGUAGES", "read_everyday_pairs", "read_everyday_sentences"]

EVERYDAY_FILE: Final = "everyday.en-de.tsv"
#: Codes of its columns.
EVERYDAY_LANGUAGES: Final = ("en", "de")
#: Codes of German in ISO 639. They are compared without langcodes, which a bundle runs without.
_GERMAN: Final = frozenset(("de", "deu", "ger"))


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


def read_everyday_sentences(language: str | None) -> list[str]:
    """One side of every pair.

    Args:
        language: What a model reads, as ``de``, ``deu`` or ``de-AT``, or None where that is not known. German sentences
            for German, English ones for all else.

    Raises:
        DataError: If a line of the file has not two columns.
    """
    side = (language or "").casefold().replace("_", "-").partition("-")[0] in _GERMAN
    return [pair[side] for pair in read_everyday_pairs()]
