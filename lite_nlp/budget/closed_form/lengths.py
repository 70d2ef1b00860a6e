"""Mult-Adds as a function of sentence length: tables and the order of growth. Imports no torch.

Every closed form of this package is a polynomial of degree at most two in the length, so three of its values give it
exactly; the order of growth is read off that polynomial and checked on further lengths.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal

from lite_nlp.budget.closed_form.counts import GROUPS, Convention, Group
from lite_nlp.budget.closed_form.formulas import count_config
from lite_nlp.config.model import ModelConfig
from lite_nlp.core.errors import ConfigError

__all__ = ["LENGTHS", "Growth", "LengthRow", "Varied", "growth", "length_polynomials", "length_table"]

#: The lengths of the printed table.
LENGTHS: Final = (1, 2, 5, 10, 20, 30, 50, 100, 200, 500, 1000)

Growth = Literal["constant", "linear", "quadratic"]

#: Which length grows: both alike, or one of them while the other stays.
Varied = Literal["both", "source", "target"]

#: Where the polynomials are checked, besides the three lengths that they are taken from.
_CHECKED: Final = (3, 7, 30, 1000)


@dataclass(frozen=True, kw_only=True)
class LengthRow:
    """Mult-Adds of one model at one pair of lengths.

    Attributes:
        src_len: Source tokens.
        tgt_len: Target tokens.
        groups: Mult-Adds of every group, in the order of ``GROUPS``.
    """

    src_len: int
    tgt_len: int
    groups: Mapping[Group, int]

    @property
    def total(self) -> int:
        """Mult-Adds of the whole model."""
        return sum(self.groups.values())


def length_table(
    model: ModelConfig,
    *,
    convention: Convention,
    lengths: Iterable[int] = LENGTHS,
    vary: Varied = "both",
    fixed: int = 30,
    beam: int = 1,
) -> tuple[LengthRow, ...]:
    """Count ``model`` at many lengths.

    Args:
        model: The architecture.
        convention: How to count.
        lengths: Tokens, each at least 1; those beyond the model's ``max_positions`` are left out.
        vary: Whether source and target both have that length, or only one of them.
        fixed: Length of the other one.
        beam: Hypotheses of the ``executed`` convention.

    Returns:
        One row per length, in the order given.

    Raises:
        ConfigError: If a length or the beam is below 1, or ``fixed`` is beyond the model's ``max_positions``.
    """
    return tuple(
        _row(model, length, convention=convention, vary=vary, fixed=fixed, beam=beam)
        for length in lengths
        if length <= model.max_positions
    )


def length_polynomials(
    model: ModelConfig, *, convention: Convention, vary: Varied = "both", fixed: int = 30, beam: int = 1
) -> dict[Group, tuple[Fraction, Fraction, Fraction]]:
    """Mult-Adds of every group as ``a + b * n + c * n**2`` of the length ``n``.

    Args:
        model: The architecture; its ``max_positions`` bounds nothing here.
        convention: How to count.
        vary: Whether source and target both have length ``n``, or only one of them.
        fixed: Length of the other one.
        beam: Hypotheses of the ``executed`` convention.

    Returns:
        The exact ``(a, b, c)`` of every group, in the order of ``GROUPS``.

    Raises:
        ConfigError: If a group's closed form is no such polynomial, or a length or the beam is below 1.
    """
    unbounded = model.model_copy(update={"max_positions": max(fixed, *_CHECKED)})
    rows = {
        length: _row(unbounded, length, convention=convention, vary=vary, fixed=fixed, beam=beam).groups
        for length in (1, 2, 4, *_CHECKED)
    }
    polynomials: dict[Group, tuple[Fraction, Fraction, Fraction]] = {}
    for group in GROUPS:
        one, two, four = (rows[length][group] for length in (1, 2, 4))
        # Newton's divided differences on 1, 2 and 4.
        slope = Fraction(two - one)
        square = (Fraction(four - two, 2) - slope) / 3
        linear = slope - 3 * square
        constant = one - linear - square
        for length in _CHECKED:
            expected = constant + linear * length + square * length**2
            if expected != rows[length][group]:
                raise ConfigError(
                    f"Mult-Adds of {GROUPS[group]}: expected a polynomial of degree 2 in the length, "
                    f"found {rows[length][group]} instead of {expected} at {length} tokens"
                )
        polynomials[group] = constant, linear, square
    return polynomials


def growth(model: ModelConfig, *, convention: Convention = "executed", vary: Varied = "both") -> dict[Group, Growth]:
    """Order of growth of every group with the length; ``length_polynomials`` has the arguments and errors."""
    return {
        group: "quadratic" if square else "linear" if slope else "constant"
        for group, (_, slope, square) in length_polynomials(model, convention=convention, vary=vary).items()
    }


def _row(model: ModelConfig, length: int, *, convention: Convention, vary: Varied, fixed: int, beam: int) -> LengthRow:
    src_len = fixed if vary == "target" else length
    tgt_len = fixed if vary == "source" else length
    count = count_config(model, src_len=src_len, tgt_len=tgt_len, beam=beam)
    groups = {group: cost.macs(convention) for group, cost in count.by_group().items()}
    return LengthRow(src_len=src_len, tgt_len=tgt_len, groups=groups)
