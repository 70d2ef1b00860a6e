"""What structured pruning removed, for the ledger."""

from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["Probe", "Removal", "Structure"]

#: Corrections are kept within these factors: a probe is a measurement on a few sentences.
_SMALLEST, _LARGEST = 0.01, 100.0


@dataclass(frozen=True, kw_only=True)
class Probe:
    """One width reduced alone, in all layers.

    Attributes:
        key: Key of the width.
        units: Units left of each group.
        predicted: Loss by the Fisher information, as if those of units added up.
        measured: Increase of the loss.
    """

    key: str
    units: int
    predicted: float
    measured: float

    @property
    def factor(self) -> float:
        """Measured against predicted, bounded."""
        if self.predicted <= 0:
            return 1.0
        return min(max(self.measured / self.predicted, _SMALLEST), _LARGEST)


@dataclass(frozen=True, kw_only=True)
class Removal:
    """What a model lost of one kind of units.

    Attributes:
        kind: The units, in words.
        key: The config's key that counts them, with its section.
        before: Its value before.
        after: Its value now.
        positions: Positions of the layers that are gone, from 0; empty with other units.
        expected_loss: Expected increase of the loss by it: measured of layers, estimated of the others.
    """

    kind: str
    key: str
    before: int
    after: int
    positions: tuple[int, ...] = ()
    expected_loss: float


@dataclass(frozen=True, kw_only=True)
class Structure:
    """What structured pruning removed, and what it was chosen by.

    Attributes:
        fraction: The fraction of the Mult-Adds that was to go.
        macs_before: Mult-Adds before.
        macs_after: Mult-Adds now.
        removed: What is gone, by kind.
        probes: Measurements that the estimates were corrected by.
        expected_loss: Expected increase of the loss by all of it.
        measured_loss: The increase that was measured, before fine-tuning.
    """

    fraction: float
    macs_before: int
    macs_after: int
    removed: tuple[Removal, ...]
    probes: tuple[Probe, ...]
    expected_loss: float
    measured_loss: float

    def as_dict(self) -> dict[str, Any]:
        """The figures as a JSON object."""
        return {
            "fraction": self.fraction,
            "macs": {"before": self.macs_before, "after": self.macs_after},
            "expected_loss": self.expected_loss,
            "measured_loss": self.measured_loss,
            "removed": [{**asdict(removal), "positions": list(removal.positions)} for removal in self.removed],
            "probes": [asdict(probe) for probe in self.probes],
        }
