"""Measured sensitivity: the loss when one matrix alone is stored coarsely, against what its information predicts.

The diagonal Fisher information is cheap and sees all weights, but leaves out how the errors of weights add up in a
layer. Each matrix alone is stored in two ways, with few bits and with many zeros (the sensitivity scan of Han et al.
2015, section 3.1); the quotient of what is measured and what was predicted corrects its predictions.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray
from torch import nn

from lite_nlp.compress.planning import lower_hull
from lite_nlp.compress.prune.magnitude import weights_restored
from lite_nlp.compress.quantize.protocol import Choice, Quantizer
from lite_nlp.compress.stages import set_weights

__all__ = ["Probe", "Sensitivity", "correct_choices", "measure_sensitivity"]

FloatArray = NDArray[np.float32]

#: Bits per weight of the two probes: a few values, and mostly zeros.
PROBED_BITS: Final = (2.5, 1.0)
#: Corrections are kept within these factors: a probe is a measurement on a few sentences.
_SMALLEST, _LARGEST = 0.1, 10.0


@dataclass(frozen=True)
class Probe:
    """One matrix stored coarsely, all others as they are.

    Attributes:
        bits_per_weight: Expected, entropy-coded.
        sparsity: Fraction of zeros.
        predicted: Divergence by the Fisher information, in nats per prediction.
        measured: Increase of the loss; noise may make it negative.
    """

    bits_per_weight: float
    sparsity: float
    predicted: float
    measured: float

    @property
    def factor(self) -> float:
        """Measured against predicted, bounded."""
        if self.predicted <= 0 or self.measured <= 0:
            return _SMALLEST if self.measured <= 0 < self.predicted else 1.0
        return min(max(self.measured / self.predicted, _SMALLEST), _LARGEST)


@dataclass(frozen=True)
class Sensitivity:
    """The probes of one matrix.

    Attributes:
        num_weights: Elements of the matrix.
        probes: At least one, from many bits to few.
    """

    num_weights: int
    probes: tuple[Probe, ...]

    def factor(self, bits_per_weight: float) -> float:
        """Correction of a prediction at so many bits: between the probes by the logarithm, constant beyond them."""
        points = sorted((probe.bits_per_weight, math.log(probe.factor)) for probe in self.probes)
        bits, logarithms = [bits for bits, _ in points], [logarithm for _, logarithm in points]
        return math.exp(float(np.interp(bits_per_weight, bits, logarithms)))


def measure_sensitivity(
    model: nn.Module,
    evaluate: Callable[[nn.Module], float],
    *,
    quantizer: Quantizer,
    parameters: Mapping[str, nn.Parameter],
    importance: Mapping[str, FloatArray],
    choices: Mapping[str, Sequence[Choice]],
    on_evaluation: Callable[[], None] = lambda: None,
) -> dict[str, Sensitivity]:
    """Store each matrix alone in two ways, measure the loss, and put the weights back.

    Args:
        model: Evaluated; its weights are as before afterwards.
        evaluate: The loss of the model, lower is better; called once, then twice for each matrix.
        quantizer: Stores the matrices.
        parameters: The matrices by name.
        importance: Their diagonal Fisher information.
        choices: The quantizer's, for each matrix.
        on_evaluation: Called after each evaluation of a changed model.
    """
    base = evaluate(model)
    found = {}
    for name, parameter in parameters.items():
        values = parameter.detach().float().cpu().numpy()
        probes = []
        for choice in _probed(choices[name], values.size):
            stored = quantizer.fit({name: values}, {name: choice}, {name: importance[name]})
            with weights_restored({name: parameter}):
                set_weights({name: parameter}, stored)
                measured = evaluate(model) - base
            probes.append(Probe(choice.bits / values.size, choice.sparsity, choice.distortion, measured))
            on_evaluation()
        found[name] = Sensitivity(values.size, tuple(probes))
    return found


def correct_choices(
    choices: Mapping[str, Sequence[Choice]], sensitivities: Mapping[str, Sensitivity]
) -> dict[str, list[Choice]]:
    """The choices with distortions corrected by what was measured."""
    corrected = {}
    for name, found in choices.items():
        sensitivity = sensitivities[name]
        corrected[name] = [
            replace(choice, distortion=choice.distortion * sensitivity.factor(choice.bits / sensitivity.num_weights))
            for choice in found
        ]
    return corrected


def _probed(choices: Sequence[Choice], num_weights: int) -> list[Choice]:
    hull = lower_hull(choices)
    probed = [min(hull, key=lambda choice: abs(choice.bits / num_weights - bits)) for bits in PROBED_BITS]
    return probed[:1] if probed[0] == probed[1] else probed
