"""Counted work: Mult-Adds by operator, by module and by kind. Imports no torch.

A :class:`WorkCount` is the common result of everything that counts by looking (a running module, an exported graph), as
against the closed forms of :mod:`lite_nlp.budget.closed_form.formulas`, which count by knowing the architecture. All
figures are exact integers.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, Self, get_args

__all__ = ["WORK_KINDS", "Entry", "ParameterCount", "WorkCount", "WorkKind"]

#: The kind of arithmetic behind a Mult-Add. The norms are columns of their own, one per normalised element, since most
#: counters leave them out: ``batch_norm`` has BatchNorm and InstanceNorm, ``layer_norm`` the others. All other kinds
#: are multiply-accumulates in the strict sense.
WorkKind = Literal["matmul", "convolution", "contraction", "layer_norm", "batch_norm"]

#: The kinds in the order in which tables show them.
WORK_KINDS: tuple[WorkKind, ...] = get_args(WorkKind)

_NORMS: Final = frozenset[WorkKind]({"layer_norm", "batch_norm"})


@dataclass(frozen=True, kw_only=True)
class Entry:
    """The work of one operator called from one module.

    Attributes:
        operator: Name of the operator, such as ``aten.addmm``.
        module: Dotted path of the innermost module that called it; empty for the outermost one.
        kind: The kind of work.
        macs: Mult-Adds of all the calls together.
        calls: How often it was called.
    """

    operator: str
    module: str
    kind: WorkKind
    macs: int
    calls: int


@dataclass(frozen=True)
class WorkCount:
    """A sum of work; two of them add up, and one can be multiplied.

    Attributes:
        entries: In the order of first occurrence, at most one for each operator, module and kind.
    """

    entries: tuple[Entry, ...] = ()

    @classmethod
    def from_entries(cls, entries: Iterable[Entry]) -> Self:
        """Sum ``entries``: those that agree in operator, module and kind become one."""
        sums: dict[tuple[str, str, WorkKind], tuple[int, int]] = {}
        for entry in entries:
            key = (entry.operator, entry.module, entry.kind)
            macs, calls = sums.get(key, (0, 0))
            sums[key] = (macs + entry.macs, calls + entry.calls)
        return cls(
            tuple(
                Entry(operator=operator, module=module, kind=kind, macs=macs, calls=calls)
                for (operator, module, kind), (macs, calls) in sums.items()
            )
        )

    @property
    def macs(self) -> int:
        """Mult-Adds of all kinds but the norms."""
        return sum(entry.macs for entry in self.entries if entry.kind not in _NORMS)

    @property
    def layer_norm(self) -> int:
        """Elements normalised by a LayerNorm, each of which the papers' tables count as one Mult-Add."""
        return sum(entry.macs for entry in self.entries if entry.kind == "layer_norm")

    @property
    def total(self) -> int:
        """``macs`` and the norms together."""
        return sum(entry.macs for entry in self.entries)

    def by_kind(self) -> dict[WorkKind, int]:
        """Mult-Adds of every kind, also of those that did not occur."""
        sums = dict.fromkeys(WORK_KINDS, 0)
        for entry in self.entries:
            sums[entry.kind] += entry.macs
        return sums

    def by_operator(self) -> dict[str, "WorkCount"]:
        """The work split by operator, in the order of first occurrence."""
        return self._split(lambda entry: entry.operator)

    def by_module(self, depth: int | None = None) -> dict[str, "WorkCount"]:
        """The work split by module, in the order of first occurrence.

        Args:
            depth: How many names of the dotted path to tell apart (``encoder.0`` is two); all of them by default.

        Raises:
            ValueError: If ``depth`` is below 1.
        """
        if depth is not None and depth < 1:
            raise ValueError(f"depth of module names: expected at least 1, found {depth}")
        return self._split(lambda entry: ".".join(entry.module.split(".")[:depth]))

    def scaled(self, times: int) -> "WorkCount":
        """This work done ``times`` times.

        Raises:
            ValueError: If ``times`` is negative.
        """
        if times < 0:
            raise ValueError(f"times that work is done: expected at least 0, found {times}")
        return WorkCount(
            tuple(
                Entry(
                    operator=entry.operator,
                    module=entry.module,
                    kind=entry.kind,
                    macs=entry.macs * times,
                    calls=entry.calls * times,
                )
                for entry in self.entries
            )
            if times
            else ()
        )

    def __add__(self, other: "WorkCount") -> "WorkCount":
        return WorkCount.from_entries((*self.entries, *other.entries))

    def _split(self, key: Callable[[Entry], str]) -> dict[str, "WorkCount"]:
        groups: dict[str, list[Entry]] = {}
        for entry in self.entries:
            groups.setdefault(key(entry), []).append(entry)
        return {name: WorkCount.from_entries(entries) for name, entries in groups.items()}


@dataclass(frozen=True, kw_only=True)
class ParameterCount:
    """Parameters of a module, a shared one once.

    Attributes:
        total: All of them.
        by_module: Those of each module's own tensors, by its dotted path; a shared tensor is where it first occurs.
        tables: Those of look-up tables (``nn.Embedding``, ``nn.EmbeddingBag``) among them, wherever else they are used.
    """

    total: int
    by_module: Mapping[str, int]
    tables: Mapping[str, int]

    @property
    def embeddings(self) -> int:
        """Parameters of all look-up tables."""
        return sum(self.tables.values())
