"""The work of a bundle's two graphs as exact polynomials of the sizes they are run at. Imports no torch.

A bundle holds an encoder graph, run once per sentence, and a decoder-step graph, run once per target token and
hypothesis. What either costs depends on the number S of source tokens and the number C of slots in its caches, and is
a polynomial of degree 2 at most in each: fitted exactly through counts at a few sizes, it holds the cost at all sizes,
so that a report needs neither the graphs nor the libraries that read them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any, Final, Self

from lite_nlp.budget.traced.work import WORK_KINDS, WorkKind
from lite_nlp.core.errors import BundleError, CountError

__all__ = [
    "TASK_GRAPHS",
    "GraphWork",
    "Polynomial",
    "TaskWork",
    "Work",
    "fit_graphs",
    "fit_polynomials",
    "work_from_json",
]

#: Sizes through which the polynomials are laid, three for degree 2. Not 1, where a dimension may be broadcast.
_GRID: Final = (2, 3, 5)

#: Highest power of either size.
_DEGREE: Final = len(_GRID) - 1


@dataclass(frozen=True)
class Polynomial:
    """A sum of products of powers of S, the source tokens, and C, the slots of the caches, with integer coefficients.

    Attributes:
        terms: Coefficient (not 0), power of S and power of C (0 to 2) of each term, highest powers first, no two terms
            with the same powers. No terms at all is zero.
    """

    terms: tuple[tuple[int, int, int], ...] = ()

    @classmethod
    def from_terms(cls, terms: Iterable[tuple[int, int, int]]) -> Self:
        """Sum ``terms`` in any order into the one form that compares equal."""
        sums: dict[tuple[int, int], int] = {}
        for coefficient, source_power, capacity_power in terms:
            powers = (source_power, capacity_power)
            sums[powers] = sums.get(powers, 0) + coefficient
        ordered = sorted(sums.items(), reverse=True)
        return cls(tuple((coefficient, *powers) for powers, coefficient in ordered if coefficient))

    def __call__(self, source: int, capacity: int) -> int:
        """The value for ``source`` tokens and ``capacity`` slots."""
        return sum(factor * source**s_power * capacity**c_power for factor, s_power, c_power in self.terms)

    def at_source(self, source: int) -> "Polynomial":
        """For so many source tokens, by the slots alone."""
        return Polynomial.from_terms((factor * source**s_power, 0, c_power) for factor, s_power, c_power in self.terms)

    def __add__(self, other: "Polynomial") -> "Polynomial":
        return Polynomial.from_terms((*self.terms, *other.terms))

    def __sub__(self, other: "Polynomial") -> "Polynomial":
        return self + Polynomial(tuple((-factor, *powers) for factor, *powers in other.terms))  # type: ignore[misc]

    def __bool__(self) -> bool:
        return bool(self.terms)

    def __str__(self) -> str:
        """For messages, such as ``512 S^2 + 64 S C - 8``."""
        text = ""
        for factor, source_power, capacity_power in self.terms:
            names = [name for name in (_power("S", source_power), _power("C", capacity_power)) if name]
            sign = ("-" if factor < 0 else "") if not text else (" - " if factor < 0 else " + ")
            text += sign + " ".join([f"{abs(factor):,}", *names])
        return text or "0"

    def to_json(self) -> list[list[int]]:
        """One ``[coefficient, source_power, capacity_power]`` per term."""
        return [list(term) for term in self.terms]

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """The inverse of ``to_json``.

        Raises:
            BundleError: If ``value`` is anything else.
        """
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise BundleError(f"polynomial: expected a list of terms, found {value!r}")
        for term in value:
            if not _is_term(term):
                raise BundleError(
                    "polynomial: expected terms of three integers, the coefficient and the powers (0 to "
                    f"{_DEGREE}) of the source length and of the capacity, found {term!r}"
                )
        return cls.from_terms((term[0], term[1], term[2]) for term in value)


def _power(name: str, power: int) -> str:
    return "" if power == 0 else name if power == 1 else f"{name}^{power}"


def _is_term(term: Any) -> bool:
    if not isinstance(term, Sequence) or isinstance(term, str) or len(term) != 3:
        return False
    return all(type(part) is int for part in term) and all(0 <= power <= _DEGREE for power in term[1:])


def fit_polynomials(
    count: Callable[[int, int], Mapping[WorkKind, int]],
    *,
    max_source: int,
    max_capacity: int,
    min_source: int = 1,
    recorded: Mapping[WorkKind, Polynomial] | None = None,
) -> dict[WorkKind, Polynomial]:
    """Find the polynomials that ``count`` follows, exactly.

    They are laid through nine small sizes and then held against ``count`` at other ones, the largest and the smallest
    among them: a graph that does other things at other sizes is refused, not rounded.

    Args:
        count: From source tokens S and capacity C to Mult-Adds; kinds that it leaves out count as 0.
        max_source: Largest S that ``count`` takes, at least 6.
        max_capacity: Largest C, at least 6.
        min_source: Smallest S, 1 or 2.
        recorded: What an earlier call found: where it agrees with ``count`` at the largest sizes and at middle ones,
            nothing else is counted.

    Returns:
        A polynomial for every kind.

    Raises:
        CountError: If a maximum is too small, or no polynomial with integer coefficients and degree 2 at most in each
            size agrees with ``count``.
    """
    for name, limit in (("source", max_source), ("capacity", max_capacity)):
        if limit <= _GRID[-1]:
            raise CountError(
                f"counting the graphs: {name}: expected a bound of at least {_GRID[-1] + 1}, found {limit}"
            )
    points = _check_points(min_source, max_source, max_capacity)
    if recorded is not None:
        kept = {kind: recorded.get(kind, Polynomial()) for kind in WORK_KINDS}
        if not any(_differing(kept, count(*sizes), *sizes) for sizes in points[-2:]):
            return kept
    grid = {(source, capacity): count(source, capacity) for source in _GRID for capacity in _GRID}
    fitted: dict[WorkKind, Polynomial] = {}
    for kind in WORK_KINDS:
        fitted[kind] = _fit(kind, [[grid[source, capacity].get(kind, 0) for capacity in _GRID] for source in _GRID])
    for source, capacity in points:
        found = count(source, capacity)
        for kind in _differing(fitted, found, source, capacity):
            raise CountError(
                f"counting {kind}: expected Mult-Adds that follow a polynomial of degree {_DEGREE} in source length "
                f"and capacity, found {found.get(kind, 0)} at {source} and {capacity} where {fitted[kind]} gives "
                f"{fitted[kind](source, capacity)}"
            )
    return fitted


def _differing(
    polynomials: Mapping[WorkKind, Polynomial], found: Mapping[WorkKind, int], source: int, capacity: int
) -> list[WorkKind]:
    """The kinds whose count at these sizes is not the polynomial's value."""
    return [kind for kind, polynomial in polynomials.items() if polynomial(source, capacity) != found.get(kind, 0)]


def _check_points(min_source: int, max_source: int, max_capacity: int) -> list[tuple[int, int]]:
    middle = (max_source + _GRID[-1]) // 2, (max_capacity + _GRID[-1]) // 2
    return [(min_source, 1), (min_source, max_capacity), (max_source, 1), middle, (max_source, max_capacity)]


def _fit(kind: WorkKind, values: Sequence[Sequence[int]]) -> Polynomial:
    """The polynomial through ``values[i][j]`` at S = grid[i], C = grid[j]: first along C, then along S."""
    rows = [_interpolate([Fraction(value) for value in row]) for row in values]
    columns = [_interpolate([row[c_power] for row in rows]) for c_power in range(_DEGREE + 1)]
    terms = []
    for c_power, column in enumerate(columns):
        for s_power, coefficient in enumerate(column):
            if coefficient.denominator != 1:
                raise CountError(
                    f"counting {kind}: expected integer coefficients, found {coefficient} for S^{s_power} C^{c_power}"
                )
            terms.append((int(coefficient), s_power, c_power))
    return Polynomial.from_terms(terms)


def _interpolate(values: Sequence[Fraction]) -> list[Fraction]:
    """Coefficients, lowest power first, of the parabola through three values on the grid (Newton's form)."""
    first, second, third = _GRID
    slope = (values[1] - values[0]) / (second - first)
    bend = ((values[2] - values[1]) / (third - second) - slope) / (third - first)
    return [values[0] - slope * first + bend * first * second, slope - bend * (first + second), bend]


@dataclass(frozen=True, kw_only=True)
class GraphWork:
    """Mult-Adds of the two graphs of a bundle for one row (one sentence, one hypothesis).

    Attributes:
        encode: Per kind of work, of one run of the encoder: the source, and what is computed from it once.
        decode_step: Of one run of the decoder step.
    """

    encode: Mapping[WorkKind, Polynomial]
    decode_step: Mapping[WorkKind, Polynomial]

    @property
    def graphs(self) -> Mapping[str, Mapping[WorkKind, Polynomial]]:
        """The work of each graph by its name."""
        return {"encode": self.encode, "decode_step": self.decode_step}

    def macs(self, src_len: int, tgt_len: int, beam: int = 1) -> dict[WorkKind, int]:
        """The Mult-Adds of one translation, per kind of work.

        Args:
            src_len: Source tokens, end mark included.
            tgt_len: Decoder steps, which is also the capacity of the caches.
            beam: Hypotheses of a step.
        """
        steps = tgt_len * beam
        return {
            kind: _value(self.encode, kind, src_len, tgt_len) + steps * _value(self.decode_step, kind, src_len, tgt_len)
            for kind in WORK_KINDS
        }

    def to_json(self) -> dict[str, dict[str, list[list[int]]]]:
        """For the manifest: graph, kind of work, terms; kinds without work are left out."""
        return {
            graph: {kind: kinds[kind].to_json() for kind in WORK_KINDS if kinds.get(kind)}
            for graph, kinds in self.graphs.items()
        }

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """The inverse of ``to_json``.

        Raises:
            BundleError: If ``value`` is anything else.
        """
        if not isinstance(value, Mapping) or set(value) != {"encode", "decode_step"}:
            raise BundleError(f"work of graphs: expected the keys encode and decode_step, found {value!r}")
        return cls(encode=_kinds_from_json(value["encode"]), decode_step=_kinds_from_json(value["decode_step"]))


@dataclass(frozen=True)
class TaskWork:
    """Mult-Adds of the graphs of a bundle for a task other than translation, for one row.

    Attributes:
        graphs: Per graph and kind of work. A language model has ``decode_step``, whose C is the capacity, ``read``,
            whose S is the number of tokens read at once, 2 at least, and C the capacity, and ``score``, whose S is the
            number of tokens of a text; a classifier has ``classify``, whose S and C are the tokens of the first and of
            the second sentence.
    """

    graphs: Mapping[str, Mapping[WorkKind, Polynomial]]

    def macs(self, src_len: int, tgt_len: int, beam: int = 1) -> dict[WorkKind, int]:
        """The Mult-Adds of one classification, or of one text that a language model generates, per kind of work.

        Args:
            src_len: Tokens of the first sentence; no effect on a language model.
            tgt_len: Tokens of the second sentence, or steps of the language model and capacity of its caches.
            beam: Texts generated at once.
        """
        if "decode_step" in self.graphs:
            step = self.graphs["decode_step"]
            return {kind: tgt_len * beam * _value(step, kind, src_len, tgt_len) for kind in WORK_KINDS}
        return {
            kind: sum(_value(kinds, kind, src_len, tgt_len) for kinds in self.graphs.values()) for kind in WORK_KINDS
        }

    def to_json(self) -> dict[str, dict[str, list[list[int]]]]:
        """For the manifest, as ``GraphWork`` has it."""
        return {
            graph: {kind: kinds[kind].to_json() for kind in WORK_KINDS if kinds.get(kind)}
            for graph, kinds in self.graphs.items()
        }


#: The work of the graphs of a bundle for any task.
Work = GraphWork | TaskWork


def fit_graphs(
    *,
    encode: Callable[[int], Mapping[WorkKind, int]],
    decode_step: Callable[[int, int], Mapping[WorkKind, int]],
    max_source: int,
    max_capacity: int,
    recorded: Work | None = None,
) -> GraphWork:
    """The polynomials of a bundle's two graphs.

    Args:
        encode: From source tokens to Mult-Adds.
        decode_step: From source tokens and capacity.
        max_source: As in :func:`fit_polynomials`, as the others.
        max_capacity: Likewise.
        recorded: Likewise.

    Raises:
        CountError: Likewise.
    """
    counted = cache(encode)
    known = recorded.graphs if recorded is not None else {}

    def fit(graph: str, count: Callable[[int, int], Mapping[WorkKind, int]]) -> dict[WorkKind, Polynomial]:
        return fit_polynomials(count, max_source=max_source, max_capacity=max_capacity, recorded=known.get(graph))

    return GraphWork(
        encode=fit("encode", lambda source, _: counted(source)), decode_step=fit("decode_step", decode_step)
    )


#: Graphs of the bundles for each task other than translation.
TASK_GRAPHS: Final[Mapping[str, frozenset[str]]] = {
    "language-modelling": frozenset({"decode_step", "read", "score"}),
    "classification": frozenset({"classify"}),
}


def work_from_json(value: Any, *, task: str) -> Work:
    """Read what ``to_json`` wrote.

    Args:
        value: From a manifest.
        task: Of the bundle.

    Raises:
        BundleError: If ``value`` is anything else than the work of the graphs of such a bundle.
    """
    if task not in TASK_GRAPHS:
        return GraphWork.from_json(value)
    names = TASK_GRAPHS[task]
    if not isinstance(value, Mapping) or set(value) != names:
        raise BundleError(f"work of graphs: expected the keys {' and '.join(sorted(names))}, found {value!r}")
    return TaskWork({name: _kinds_from_json(kinds) for name, kinds in value.items()})


def _value(kinds: Mapping[WorkKind, Polynomial], kind: WorkKind, source: int, capacity: int) -> int:
    return kinds[kind](source, capacity) if kind in kinds else 0


def _kinds_from_json(value: Any) -> dict[WorkKind, Polynomial]:
    if not isinstance(value, Mapping) or not set(value) <= set(WORK_KINDS):
        raise BundleError(f"work of a graph: expected kinds of work ({', '.join(WORK_KINDS)}), found {value!r}")
    return {kind: Polynomial.from_json(value.get(kind, ())) for kind in WORK_KINDS}
