"""Sizes and counts as people write them: ``570KB``, ``4MB``, ``500M``. All multiples are of 1000."""

import math
import re
from decimal import Decimal
from typing import Final

import typer

from lite_nlp.core.bounds import MAX_COUNT

__all__ = ["check_number", "parse_count", "parse_size"]

#: Characters of a value that a message quotes.
_SHOWN: Final = 40

_FACTORS: Final = {"": 1, "K": 1000, "M": 1000**2, "G": 1000**3}


def parse_size(text: str, *, option: str) -> int:
    """Bytes in a size such as ``570KB``, ``4MB``, ``1.5GB``, ``812B`` or ``812``.

    Raises:
        typer.BadParameter: If ``text`` is no size or not a whole number of bytes.
    """
    return _parse(text, option, unit="B?", expected="a size such as 570KB, 4MB or 812 (bytes; multiples of 1000)")


def parse_count(text: str, *, option: str) -> int:
    """The number in a count such as ``500M``, ``10M``, ``2.5K`` or ``4096``.

    Raises:
        typer.BadParameter: If ``text`` is no count or not a whole number.
    """
    return _parse(text, option, unit="", expected="a count such as 500M, 10M or 4096 (multiples of 1000)")


def check_number(value: float | None) -> float | None:
    """Refuse NaN, which is neither below nor above a bound.

    Raises:
        typer.BadParameter: If ``value`` is NaN.
    """
    if value is not None and math.isnan(value):
        raise typer.BadParameter("expected a number, found nan")
    return value


def _parse(text: str, option: str, *, unit: str, expected: str) -> int:
    match = re.fullmatch(rf"([0-9]+(?:\.[0-9]+)?)\s*([KMG]?){unit}", text.strip(), flags=re.IGNORECASE | re.ASCII)
    if match:
        value = Decimal(match[1]) * _FACTORS[match[2].upper()]
        if 0 < value <= MAX_COUNT and value == value.to_integral_value():
            return int(value)
    raise typer.BadParameter(f"{option}: expected {expected}, found {text[:_SHOWN]!r}")
