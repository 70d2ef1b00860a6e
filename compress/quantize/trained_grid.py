"""The trained grid: evenly spaced values with steps by tensor, row and column, trained while they are quantized.

The weights are trained as real numbers in units of their own steps, and rounded in every forward pass; the gradient
passes the rounding as if it were not there (the straight-through estimator, Bengio et al. 2013, arXiv 1308.3432). All
steps are scaled together so that the entropy-coded size stays at its target: a control loop, since a gradient of the
rate is too weak against the noise of the optimizer.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from lite_nlp.compress.lnlp.encodings import EncodedTensor, GridTensor, encode_grid, encode_grid_rans, grid_bits
from lite_nlp.compress.quantize.protocol import Choice
from lite_nlp.core.errors import ModelError

__all__ = ["GridQuantizer", "GridWeights", "TrainedGrid"]

FloatArray = NDArray[np.float32]
IntArray = NDArray[np.int8]

#: Rows and columns that matter more have finer steps: the step is proportional to their mean information to the power
#: of minus this. Half would be optimal at high rates, where the number of zeros does not matter.
_FACTOR_POWER: Final = 0.35
#: Bounds of the exponents of the square root of 2: a factor of 1/8 to 4. Rows that no batch has touched would else have
#: steps without a bound.
_MIN_EXPONENT, _MAX_EXPONENT = -6, 4
#: The zone that is rounded to zero is widened by this for each bit that a zero is cheaper than a one.
_DEAD_ZONE: Final = 0.03
#: Steps that planning compares, in units of the root mean square of the weights (with the factors taken out), finest
#: first: from about 7 bits to 0.2 bits a weight.
_STEPS: Final = tuple(2.0 ** (place / 8 - 4.5) for place in range(65))
#: No matrix has more zeros than this by plan: beyond, its errors no longer add up with those of others.
_MAX_SPARSITY: Final = 0.93
#: Static tables by class of magnitude take less than one table for a tensor: see the format's own figures.
_CLASS_GAIN: Final = 0.95
#: How far, as a logarithm, the size may be from what is wanted: while it tightens, and where it is held. Training
#: gathers weights at the borders between levels, so that a scale that followed every small error would throw many of
#: them across at once, to and fro.
_LOOSE, _HELD = 0.02, 0.0015
#: Largest change of the steps' logarithm in one round, and rounds.
_LARGEST: Final = 0.3
_MOST_ROUNDS: Final = 24
#: By how much the logarithm of the size falls with that of the steps: less with many bits a weight, more with few.
_LEAST_SLOPE, _FIRST_SLOPE, _LARGEST_SLOPE = 0.15, 1.0, 3.0
#: Bits per weight at the start of training, or what is planned if that is more.
_FINEST_BITS: Final = 6.0


class GridQuantizer:
    """Levels on an even grid, with steps by tensor, row and column."""

    name: Final = "grid"
    prunes_first: Final = False

    def choices(self, values: FloatArray, importance: FloatArray) -> list[Choice]:
        """Grids of steps from fine to coarse."""
        _check_finite(values)
        rows, columns = step_exponents(importance)
        matrix = _matrix(values)
        unit = _units(rows, columns)
        normed = (matrix / unit).astype(np.float32)
        weighted = (_matrix(importance) * unit * unit).astype(np.float32)
        scale = float(np.sqrt(np.mean(np.square(normed, dtype=np.float64)))) or 1.0
        # A step that is no float32 would be 0.
        least = float(np.finfo(np.float32).tiny)
        found: list[Choice] = []
        for step in (max(scale * factor, least) for factor in _STEPS):
            levels = _rounded(normed / step, _dead_zone(np.abs(normed / step)))
            counts = np.unique(levels, return_counts=True)[1]
            shares = counts / levels.size
            bits = _CLASS_GAIN * float(-(counts * np.log2(shares)).sum()) + 8.0 * (len(rows) + len(columns)) / 4
            squared = np.square(normed - levels * step, dtype=np.float64)
            sparsity = float(np.mean(levels == 0))
            if sparsity > _MAX_SPARSITY and found:
                break
            distortion = 0.5 * float(np.sum(weighted * squared))
            found.append(Choice(levels=len(counts), step=step, sparsity=sparsity, bits=bits, distortion=distortion))
        return found

    def fit(
        self, weights: Mapping[str, FloatArray], plan: Mapping[str, Choice], importance: Mapping[str, FloatArray]
    ) -> "GridWeights":
        """Round every matrix to its grid.

        Raises:
            ModelError: If a weight is not finite.
        """
        tensors = {}
        for name, values in weights.items():
            _check_finite(values)
            rows, columns = step_exponents(importance[name])
            step = _float32(plan[name].step)
            scaled = _matrix(values) / (_units(rows, columns) * step)
            levels = _rounded(scaled, _dead_zone(np.abs(scaled))).astype(np.int32).reshape(values.shape)
            tensors[name] = GridTensor(levels=levels, step=step, row_exponents=rows, column_exponents=columns)
        return GridWeights(tensors)


@dataclass(frozen=True)
class GridWeights:
    """Matrices of levels on grids.

    Attributes:
        tensors: By name.
    """

    tensors: Mapping[str, GridTensor]

    def values(self) -> dict[str, FloatArray]:
        """The weights as decoded."""
        return {name: tensor.values() for name, tensor in self.tensors.items()}

    def encode(self) -> dict[str, EncodedTensor]:
        """Levels of fixed width."""
        return {name: encode_grid(tensor) for name, tensor in self.tensors.items()}

    def encode_entropy(self) -> dict[str, EncodedTensor]:
        """Levels coded by rANS, by class of expected magnitude."""
        return encode_grid_rans(self.tensors)

    def trainable(self, parameters: Mapping[str, nn.Parameter]) -> "TrainedGrid":
        """The weights of the model in units of these steps, to train."""
        return TrainedGrid(parameters, self.tensors)


class TrainedGrid:
    """Weights in training that are rounded to their grids in every forward pass.

    Args:
        parameters: The parameters of the model by name, before rounding.
        tensors: Their grids as planned, under some of these names.
    """

    rate: Final = 1.0

    def __init__(self, parameters: Mapping[str, nn.Parameter], tensors: Mapping[str, GridTensor]) -> None:
        self._names = list(tensors)
        self._planned = dict(tensors)
        self._parameters = [parameters[name] for name in self._names]
        self._target = float(sum(grid_bits(self._planned).values()))
        finest = _FINEST_BITS * sum(tensor.levels.size for tensor in tensors.values())
        self._start = max(self._target, finest)
        self._units = [
            torch.from_numpy(_units(tensor.row_exponents, tensor.column_exponents)).to(parameter.device) * tensor.step
            for tensor, parameter in zip(tensors.values(), self._parameters, strict=True)
        ]
        self._scale, self._slope = 1.0, _FIRST_SLOPE
        self._zones = [_dead_zone(np.abs(tensor.levels).astype(np.float32)) for tensor in tensors.values()]
        self._latents = [
            nn.Parameter(_flat(parameter.detach()).float() / unit)
            for parameter, unit in zip(self._parameters, self._units, strict=True)
        ]

    @property
    def weights(self) -> Sequence[nn.Parameter]:
        """The rounded parameters."""
        return self._parameters

    @property
    def trained(self) -> Sequence[nn.Parameter]:
        """The weights in units of their planned steps."""
        return self._latents

    @torch.no_grad()
    def pass_gradients(self) -> None:
        """By the straight-through estimator."""
        for parameter, latent, unit in zip(self._parameters, self._latents, self._units, strict=True):
            # In units of the present step, in which the optimizer's steps are to be equally long throughout.
            latent.grad = None if parameter.grad is None else _flat(parameter.grad).float() * unit * self._scale
            parameter.grad = None

    @torch.no_grad()
    def update_weights(self) -> None:
        """Round."""
        for parameter, latent, unit, zone in zip(
            self._parameters, self._latents, self._units, self._zones, strict=True
        ):
            parameter.copy_(_round(latent, zone).mul_(unit).mul_(self._scale).view_as(parameter))

    @torch.no_grad()
    def tighten(self, share: float, scale: float = 1.0) -> float:
        """Scale all steps towards the size that is wanted at this point, geometric between fine and planned."""
        wanted = scale * self._target
        if share < 1.0:
            wanted = self._start ** (1.0 - share) * wanted**share
        bits = self._bits()
        precision = _LOOSE if share < 1.0 else _HELD
        if abs(math.log(max(bits, 1.0) / wanted)) > precision:
            if share < 1.0:
                self._follow_zones()
            bits = self._settle(bits, wanted, precision)
        self.update_weights()
        return bits

    def _settle(self, bits: float, wanted: float, precision: float) -> float:
        """Scale all steps until the size is as wanted, within a precision of its logarithm; the size reached.

        Counting the bits takes longer than anything else here: the change is guessed from the former ones, and halves
        what lies between two bounds only where the guess leads beyond them.
        """
        finer, coarser = -math.inf, math.inf
        for number in range(_MOST_ROUNDS):
            error = math.log(max(bits, 1.0) / wanted)
            if abs(error) <= precision:
                break
            present = math.log(self._scale)
            # Not from the first round, whose size is that of other zones.
            if number and error > 0:
                finer = present
            elif number:
                coarser = present
            change = min(max(error / self._slope, -_LARGEST), _LARGEST)
            if not finer < present + change < coarser:
                change = 0.5 * (finer + coarser) - present
            self._scale *= math.exp(change)
            for latent in self._latents:
                latent.mul_(math.exp(-change))
            before, bits = bits, self._bits()
            if number and change:
                slope = -math.log(max(bits, 1.0) / max(before, 1.0)) / change
                self._slope = min(max(slope, _LEAST_SLOPE), _LARGEST_SLOPE)
        return bits

    def _follow_zones(self) -> None:
        """Dead zones as wide as the levels now make them.

        Not where the size is held: after some thousand steps 7 of 100 weights of a large table lie within 0.002 of the
        border of its zone, on either side in turn, so that their mean is between two levels. A border that moves by
        0.005 throws all of them to one side, and late in the training the rate is too low for them to come back.
        """
        self._zones = [
            _dead_zone(_round(latent, zone).abs()) for latent, zone in zip(self._latents, self._zones, strict=True)
        ]

    def _bits(self) -> float:
        """The format's own estimate."""
        return float(sum(grid_bits(self.quantized().tensors).values()))

    def quantized(self) -> GridWeights:
        """Levels and steps at this moment."""
        tensors = {}
        for name, latent, zone in zip(self._names, self._latents, self._zones, strict=True):
            planned = self._planned[name]
            levels = _round(latent.detach(), zone).cpu().numpy().astype(np.int32).reshape(planned.levels.shape)
            tensors[name] = GridTensor(
                levels=levels,
                step=_float32(planned.step * self._scale),
                row_exponents=planned.row_exponents,
                column_exponents=planned.column_exponents,
            )
        return GridWeights(tensors)

    def state(self) -> dict[str, Any]:
        """The scale of the steps, how the size depends on it, and the dead zones."""
        return {"scale": self._scale, "slope": self._slope, "zones": list(self._zones)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on with those."""
        self._scale, self._slope = float(state["scale"]), float(state["slope"])
        self._zones = list(state["zones"])
        self.update_weights()


def step_exponents(importance: FloatArray) -> tuple[IntArray, IntArray]:
    """Exponents of the square root of 2 in the factors of the steps of rows and columns, by their mean information."""
    matrix = _matrix(importance).astype(np.float64)
    mean = max(float(matrix.mean()), 1e-300)
    return _exponents(matrix.mean(axis=1) / mean), _exponents(matrix.mean(axis=0) / mean)


def _exponents(relative: NDArray[np.float64]) -> IntArray:
    exponents = np.round(-2 * _FACTOR_POWER * np.log2(np.maximum(relative, 1e-30)))
    return np.clip(exponents, _MIN_EXPONENT, _MAX_EXPONENT).astype(np.int8)


def _units(rows: IntArray, columns: IntArray) -> FloatArray:
    """(rows, columns) factors of the step."""
    exponents = rows.astype(np.float64)[:, None] + columns.astype(np.float64)[None, :]
    return np.exp2(exponents / 2).astype(np.float32)


def _matrix(values: FloatArray) -> FloatArray:
    """First dimension by the rest."""
    return values.reshape(len(values), -1) if values.ndim > 1 else values.reshape(1, -1)


def _flat(tensor: Tensor) -> Tensor:
    return tensor.reshape(len(tensor), -1) if tensor.ndim > 1 else tensor.reshape(1, -1)


def _round(scaled: Tensor, zone: float) -> Tensor:
    return F.hardshrink(scaled, zone).round_()


def _rounded(scaled: FloatArray, zone: float) -> FloatArray:
    levels: FloatArray = np.where(np.abs(scaled) < zone, 0.0, np.round(scaled)).astype(np.float32)
    return levels


def _dead_zone(magnitudes: FloatArray | Tensor) -> float:
    """Half of the width of the zone that becomes zero, by how much cheaper a zero is than a one among these levels."""
    zeros, ones = int((magnitudes < 0.5).sum()), int((magnitudes < 1.5).sum())
    size = magnitudes.numel() if isinstance(magnitudes, Tensor) else magnitudes.size
    # Ones have a sign.
    one_bits = -math.log2(max(ones - zeros, 1) / (2 * size))
    zero_bits = -math.log2(max(zeros, 1) / size)
    return 0.5 + _DEAD_ZONE * min(max(one_bits - zero_bits, 0.0), 8.0)


def _float32(value: float) -> float:
    return float(np.float32(value))


def _check_finite(values: FloatArray) -> None:
    if bad := int(np.sum(~np.isfinite(values))):
        raise ModelError(f"grid: expected finite weights, found {bad} of {values.size} not")
