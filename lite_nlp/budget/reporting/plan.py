"""The plan of a compression as its ledger has it: why each matrix is stored as it is. Imports no torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

__all__ = ["MAX_FIGURE", "ComparedQuantizer", "MatrixPlan", "MatrixProbe", "PlanLine", "PlanRecord", "read_plan"]

#: Bounds of what a record may hold, far beyond any model: a ledger is a file that anyone may have written.
MAX_FIGURE: Final = 1e30
_MOST_NAME: Final = 1000
_MOST_MATRICES: Final = 20_000
_Name = Annotated[str, Field(max_length=_MOST_NAME)]
_Count = Annotated[int, Field(ge=0, le=10**15)]
_Finite = Annotated[float, Field(ge=-MAX_FIGURE, le=MAX_FIGURE, allow_inf_nan=False)]
_Positive = Annotated[float, Field(ge=0, le=MAX_FIGURE, allow_inf_nan=False)]
_Bits = Annotated[float, Field(ge=0, le=1e4, allow_inf_nan=False)]
_Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")


class MatrixProbe(_Record):
    """One matrix stored coarsely, all others as they are.

    Attributes:
        bits_per_weight: Expected, entropy-coded.
        sparsity: Fraction of zeros.
        predicted: Divergence by the Fisher information, in nats per prediction.
        measured: Increase of the loss; noise may make it negative.
    """

    bits_per_weight: _Bits
    sparsity: _Share
    predicted: _Positive
    measured: _Finite


class MatrixPlan(_Record):
    """How one matrix is to be stored, and what that is expected to cost.

    Attributes:
        name: Its name.
        weights: Number of weights.
        values: Number of different values, about.
        step: Distance of neighbouring values where they are evenly spaced; 0 where they are not.
        sparsity: Fraction of zeros.
        bits_per_weight: Expected, entropy-coded.
        size_bytes: Expected bytes in the file.
        fisher: Divergence by the Fisher information alone, in nats per prediction.
        predicted: The same, corrected by what was measured.
        price: Nats that one byte more would save; None where there is no finer choice worth its bytes.
        sensitivity: Divergence at the coarsest probe, corrected, in nats per prediction and million weights.
        probes: What was measured, from many bits to few.
    """

    name: _Name
    weights: _Count
    values: _Count
    step: _Positive
    sparsity: _Share
    bits_per_weight: _Bits
    size_bytes: _Count
    fisher: _Positive
    predicted: _Positive
    price: _Finite | None
    sensitivity: _Positive
    probes: Annotated[tuple[MatrixProbe, ...], Field(strict=False, max_length=10)]


class ComparedQuantizer(_Record):
    """A quantizer that was planned with.

    Attributes:
        quantizer: Its name.
        size_bytes: Size of the file with its plan, before training; the smallest there is where it ``fits`` not.
        fits: Whether a plan of it is within the target.
        predicted: Expected divergence, as if those of the matrices added up; None where it does not fit.
        loss: Increase of the loss with all matrices stored so, without training; None where it does not fit.
        tuned_loss: The same after brief training, by which quantizers are compared; None where that was not needed.
    """

    quantizer: _Name
    size_bytes: _Count
    fits: bool
    predicted: _Positive | None = None
    loss: _Finite | None = None
    tuned_loss: _Finite | None = None


class PlanRecord(_Record):
    """The plan that a file was made by.

    Attributes:
        quantizer: The quantizer chosen.
        target_bytes: Largest size of the file; None if quality alone decided.
        tolerance: Largest increase of the loss by the plan where there is no target.
        vector_bits: Bits of each weight of biases and norms; None where they are 16-bit floats.
        compared: The quantizers planned with, in the order of preference.
        matrices: The matrices, in the order of the model.
    """

    quantizer: _Name
    target_bytes: _Count | None
    tolerance: _Finite | None
    vector_bits: _Count | None
    compared: Annotated[tuple[ComparedQuantizer, ...], Field(strict=False, max_length=100)]
    matrices: Annotated[tuple[MatrixPlan, ...], Field(strict=False, min_length=1, max_length=_MOST_MATRICES)]

    def heaviest(self) -> list[MatrixPlan]:
        """The matrices, those that take most bytes first."""
        return sorted(self.matrices, key=lambda matrix: (-matrix.size_bytes, matrix.name))

    def lines(self, most: int) -> list["PlanLine"]:
        """Matrices that take most bytes, then one line for all others, then the sum.

        Args:
            most: How many have a line of their own.
        """
        found = self.heaviest()
        shown = min(len(found), most)
        lines = [PlanLine.over(matrix.name, [matrix]) for matrix in found[:shown]]
        if rest := found[shown:]:
            lines.append(PlanLine.over(f"{len(rest):,} further matrices", rest))
        return [*lines, PlanLine.over(f"all {len(found):,} matrices", found)]


@dataclass(frozen=True, kw_only=True)
class PlanLine:
    """One matrix, or several together: their sums, and means over weights.

    Attributes:
        name: What it stands for.
        weights: Number of weights.
        bits_per_weight: Expected.
        sparsity: Fraction of zeros.
        size_bytes: Expected bytes.
        coarse: Fisher-predicted and measured divergence at the coarsest probe, in nats per prediction; None for several
            matrices, which were never so coarse together.
        fisher: Divergence of the choice by the Fisher information alone.
        predicted: The same, corrected by what was measured.
    """

    name: str
    weights: int
    bits_per_weight: float
    sparsity: float
    size_bytes: int
    coarse: tuple[float, float] | None
    fisher: float
    predicted: float

    @classmethod
    def over(cls, name: str, matrices: Sequence[MatrixPlan]) -> Self:
        """The line of some matrices, at least one."""
        weights = sum(matrix.weights for matrix in matrices)
        whole = max(1, weights)
        probes = matrices[0].probes if len(matrices) == 1 else ()
        return cls(
            name=name,
            weights=weights,
            bits_per_weight=sum(matrix.bits_per_weight * matrix.weights for matrix in matrices) / whole,
            sparsity=sum(matrix.sparsity * matrix.weights for matrix in matrices) / whole,
            size_bytes=sum(matrix.size_bytes for matrix in matrices),
            coarse=(probes[-1].predicted, probes[-1].measured) if probes else None,
            fisher=sum(matrix.fisher for matrix in matrices),
            predicted=sum(matrix.predicted for matrix in matrices),
        )


def read_plan(content: object) -> PlanRecord | None:
    """The plan in a ledger; None if there is none in this form."""
    try:
        return PlanRecord.model_validate(content)
    except ValidationError:
        return None
