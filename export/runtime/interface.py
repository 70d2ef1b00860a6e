"""The interface of a runtime: its row in the registry, its entry in the manifest, its runner of the graphs."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from lite_nlp.decoding.step_models import BeamCall, BeamSteps
from lite_nlp.export.runtime.layout import Layout, ManifestSection

__all__ = [
    "Array",
    "BeamState",
    "GraphRunner",
    "GreedyRunner",
    "RowsRunner",
    "RowsState",
    "Runtime",
    "RuntimeEntry",
    "SearchRunner",
    "State",
]

Array = NDArray[Any]
State = dict[str, Array]

#: State of a beam search in a runner, of whatever form it has there.
BeamState: TypeAlias = Any


class GraphRunner(Protocol):
    """Calls the two graphs of a bundle in one runtime. B rows, S source tokens, V types."""

    def encode(self, src_tokens: NDArray[np.int64], src_mask: NDArray[np.bool_]) -> State:
        """Encode sources, both (B, S); returns the state tensors of origin ``encode``."""
        ...

    def decode_step(self, tokens: NDArray[np.int64], state: State) -> tuple[NDArray[np.float32], State]:
        """Feed tokens (B,); returns logits (B, V) and the new values of the changing state tensors."""
        ...


@runtime_checkable
class GreedyRunner(GraphRunner, Protocol):
    """A runner that also decodes greedily in one call."""

    def decode_greedily(
        self, src_tokens: NDArray[np.int64], src_mask: NDArray[np.bool_], limits: NDArray[np.int64], min_length: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Decode sources, both (B, S), within ``limits`` (B,) steps.

        Returns:
            Tokens (T, B) of as many steps as were needed for all rows, the end mark last in each row, and the
            log-probability (B,) of each row.
        """
        ...

    def greedy_slots(self, tokens: NDArray[np.int64], limits: NDArray[np.int64]) -> list[int]:
        """Slots of the caches in each step of each row that gave ``tokens`` (T, B), for counting their work."""
        ...


@runtime_checkable
class SearchRunner(GreedyRunner, Protocol):
    """A runner that takes steps of beam search too."""

    def begin_beams(self, state: State, *, capacity: int) -> BeamState:
        """The state of a beam search of ``capacity`` steps before its first one, from that of ``decode_step``."""
        ...

    def search_beams(self, call: BeamCall, state: BeamState) -> tuple[BeamSteps, BeamState]:
        """Take steps of a beam search; see :class:`~lite_nlp.decoding.step_models.BeamModel`."""
        ...


class RowsState(Protocol):
    """State of the rows of a search in a runner that keeps it. R rows, T tokens of each so far."""

    @property
    def tokens(self) -> NDArray[np.int64]:
        """(R, T), fed so far."""
        ...


@runtime_checkable
class RowsRunner(GreedyRunner, Protocol):
    """A runner whose programs may keep the state of a search's rows. R rows, V types.

    Attributes:
        keeps_rows: Whether this one's do; else the methods must not be called.
    """

    keeps_rows: bool

    def begin_rows(self, state: State, rows: int) -> RowsState:
        """The state of R rows, at most the bundle's ``executorch_batch``, from the tensors that do not change."""
        ...

    def step_rows(self, tokens: NDArray[np.int64], state: Any) -> tuple[NDArray[np.float32], RowsState]:
        """Feed a token of each row, (R,); returns logits (R, V) and the new state."""
        ...

    def reorder_rows(self, state: Any, rows: NDArray[np.int64], *, within: bool) -> RowsState:
        """The state whose row ``i`` is the present row ``rows[i]``; ``within`` if each stays one of its sentence."""
        ...


class RuntimeEntry(ManifestSection, ABC):
    """Entry of one runtime in ``manifest.json``, under the runtime's name."""

    @property
    @abstractmethod
    def members(self) -> tuple[str, ...]:
        """Names of the bundle's members that the runtime needs."""

    @abstractmethod
    def open_runner(self, read: Callable[[str], bytes], layout: Layout, *, threads: int) -> GraphRunner:
        """Load the graphs.

        Args:
            read: Gives the content of a member by its name.
            layout: Of the graphs.
            threads: Threads of one operator.

        Raises:
            RuntimeUnavailableError: If the runtime is not installed.
            BundleError: If it does not accept the graphs.
        """


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """A row of the registry.

    Attributes:
        name: What ``--runtime`` and the manifest call it.
        package: The distribution that runs the graphs; its version is told beside measurements.
        graphs: What a bundle holds for it, as messages call that.
        entry: Type of its entry in the manifest.
        load_library: Imports the package, which the first engine does otherwise; raises ``RuntimeUnavailableError``
            if it is not installed.
    """

    name: str
    package: str
    graphs: str
    entry: type[RuntimeEntry]
    load_library: Callable[[], object] = lambda: None
