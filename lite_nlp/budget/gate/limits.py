"""The mobile budget and the check against it. Imports no torch.

The limits are those of Lite Transformer (Wu et al., 2020, section 5.1): 500 million Mult-Adds for a sentence of 30
tokens and 10 million parameters. They are held against the paper's own way of counting, which leaves the embedding
tables out; ``count_params = "total"`` holds them against every stored parameter instead.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from lite_nlp.budget.closed_form.formulas import Cost, ModelCount
from lite_nlp.core.bounds import MAX_COUNT, check_range
from lite_nlp.core.errors import UsageError
from lite_nlp.core.suggestions import expected_one_of

__all__ = ["CountParams", "Limits", "Verdict", "check_limits"]

CountParams = Literal["total", "paper"]

_NAMES: Final = {"macs": "Mult-Adds", "params": "parameters", "size_bytes": "file size in bytes"}


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The largest cost that a model may have.

    Attributes:
        max_macs: Most Mult-Adds in the ``paper`` convention, at the lengths counted.
        max_params: Most parameters.
        count_params: Whether ``max_params`` bounds the parameters as the paper counts them (without the embedding
            tables) or all of them.
        max_size_bytes: Largest file; None sets no limit.

    Raises:
        UsageError: If a limit is below 1 or no number, or ``count_params`` is neither.
    """

    max_macs: int = 500_000_000
    max_params: int = 10_000_000
    count_params: CountParams = "paper"
    max_size_bytes: int | None = None

    def __post_init__(self) -> None:
        for option, limit in (
            ("--max-macs", self.max_macs),
            ("--max-params", self.max_params),
            ("--max-size", self.max_size_bytes),
        ):
            if limit is None and option != "--max-size":
                raise UsageError(f"{option}: expected a whole number, found None")
            check_range(option, limit, 1, MAX_COUNT)
        # NumPy's would be no JSON.
        for name in ("max_macs", "max_params", "max_size_bytes"):
            limit = getattr(self, name)
            object.__setattr__(self, name, None if limit is None else int(limit))
        if self.count_params not in get_args(CountParams):
            raise UsageError(f"--count-params: {expected_one_of(get_args(CountParams), self.count_params)}")


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The comparison of one quantity with its limit.

    Attributes:
        quantity: ``macs``, ``params`` or ``size_bytes``.
        found: The model's figure.
        limit: The largest figure allowed.
        convention: How the figure was counted; empty for a file's size.
        contributors: Parts and their share of ``found``, largest first; empty for a file's size.
    """

    quantity: Literal["macs", "params", "size_bytes"]
    found: int
    limit: int
    convention: str = ""
    contributors: tuple[tuple[str, int], ...] = ()

    @property
    def name(self) -> str:
        """The quantity for people, with the convention that it was counted in."""
        name = _NAMES[self.quantity]
        return f"{name} ({self.convention})" if self.convention else name

    @property
    def within(self) -> bool:
        """Whether the figure is within the limit."""
        return self.found <= self.limit

    def to_json(self) -> dict[str, Any]:
        """The verdict as JSON."""
        return {
            "quantity": self.quantity,
            "found": self.found,
            "limit": self.limit,
            "within": self.within,
            "largest": [{"part": part, "amount": amount} for part, amount in self.contributors],
        }


def check_limits(count: ModelCount, limits: Limits, *, size_bytes: int | None = None) -> tuple[Verdict, ...]:
    """Compare a count, and a file's size if there is one, with the limits.

    Returns:
        One verdict for the Mult-Adds, one for the parameters, and one for the size if both it and its limit are given.
    """
    total = limits.count_params == "total"
    verdicts = [
        Verdict(
            quantity="macs",
            found=count.macs_paper,
            limit=limits.max_macs,
            convention="paper",
            contributors=_largest(count, lambda cost: cost.paper),
        ),
        Verdict(
            quantity="params",
            found=count.params_total if total else count.params_paper,
            limit=limits.max_params,
            convention=limits.count_params,
            contributors=_largest(count, lambda cost: cost.params if total or cost.operation != "embedding" else 0),
        ),
    ]
    if size_bytes is not None and limits.max_size_bytes is not None:
        verdicts.append(Verdict(quantity="size_bytes", found=size_bytes, limit=limits.max_size_bytes))
    return tuple(verdicts)


def _largest(count: ModelCount, figure: Callable[[Cost], int]) -> tuple[tuple[str, int], ...]:
    figures = [(part, figure(cost)) for part, cost in count.by_part().items()]
    return tuple(sorted((item for item in figures if item[1]), key=lambda item: -item[1]))
