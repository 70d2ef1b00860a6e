"""Sizes and counts as people write them: ``570KB``, ``4MB``, ``500M``. All multiples are of 1000."""

import re
from decimal import Decimal
from typing import Final

import typer

__all__ = ["parse_count", "parse_size"]

_FACTORS: Final = {"": 1, "K": 1000, "M": 1000**2, "G": 1000**3}


def parse_size(text: str) -> int:
    """Bytes in a size such as ``570KB``, ``4MB``, ``1.5GB``, ``812B`` or ``812``.

    Raises:
        typer.BadParameter: If ``text`` is no size or not a whole number of bytes.
    """
    return _parse(text, unit="B?", expected="a size such as 570KB, 4MB or 812 (bytes; multiples of 1000)")


def parse_count(text: str) -> int:
    """The number in a count such as ``500M``, ``10M``, ``2.5K`` or ``4096``.

    Raises:
        typer.BadParameter: If ``text`` is no count or not a whole number.
    """
    return _parse(text, unit="", expected="a count such as 500M, 10M or 4096 (multiples of 1000)")


def _parse(text: str, *, unit: str, expected: str) -> int:
    match = re.fullmatch(rf"([0-9]+(?:\.[0-9]+)?)\s*([KMG]?){unit}", text.strip(), flags=re.IGNORECASE | re.ASCII)
    if match:
        value = Decimal(match[1]) * _FACTORS[match[2].upper()]
        if value == value.to_integral_value() and value > 0:
            return int(value)
    raise typer.BadParameter(f"expected {expected}, found {text!r}")
