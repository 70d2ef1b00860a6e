"""Closed forms of the initial weights, by scheme and by the names of the parameters.

Formulas take the inputs d and outputs k of one map.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

__all__ = ["EXPECTED", "PARTS", "Law", "torch_default", "xavier", "zero"]


class Law(NamedTuple):
    """Distribution of entries: uniform within sqrt(3) std, or normal."""

    std: float
    normal: bool = False


Formula = Callable[[int, int], Law]


def xavier(d: int, k: int) -> Law:
    return Law(math.sqrt(2 / (d + k)))


def half(d: int, k: int) -> Law:
    """Half the variance of Xavier."""
    return Law(math.sqrt(1 / (d + k)))


def sixth(d: int, k: int) -> Law:
    return Law(math.sqrt(2 / (6 * (d + k))))


def wide(d: int, k: int) -> Law:
    return Law(math.sqrt(2 / (d + 2 * d)))


def torch_default(d: int, k: int) -> Law:
    """Uniform within 1 / sqrt(d)."""
    return Law(1 / math.sqrt(3 * d))


def zero(d: int, k: int) -> Law:
    return Law(0.0)


def small(d: int, k: int) -> Law:
    return Law(0.02, normal=True)


def by_inputs(d: int, k: int) -> Law:
    return Law(d**-0.5, normal=True)


def by_outputs(d: int, k: int) -> Law:
    return Law(k**-0.5, normal=True)


# What a parameter is, by its name in the state dict; the first pattern that is found decides.
PARTS = [
    (r"temperature", "ones"),
    (r"feature_map", "map"),
    (r"(attention|cross)\.(in_proj|query_proj|memory_proj)", "qkv"),
    (r"(attention|cross)\.out_proj", "attention output"),
    (r"(ffn|_input)\.(up|down)_proj|extra_proj", "ffn"),
    (r"convolution\.(in|out)_proj", "convolution"),
    (r"convolution\.kernel$", "kernel"),
    (r"convolution\.kernel_proj", "generator"),
    (r"own_output", "output table"),
    (r"vocabulary\.tables", "adaptive table"),
    (r"embedding\.weight|vocabulary\.table", "table"),
    (r"_gates", "gates"),
    (r"first_proj|second_proj|^output\.|clusters|projections", "plain"),
    (r"entry\.proj|exit\.proj|output_proj|input\.projection", "plain"),
]

COMMON: dict[str, Formula] = dict.fromkeys(
    ("ffn", "attention output", "convolution", "generator", "output table", "gates", "plain"), xavier
) | {"qkv": half, "map": torch_default, "table": by_outputs, "adaptive table": by_outputs}
# Kernels of H heads and K taps: d = K, k = H.
COMMON["kernel"] = xavier
FAIRSEQ: dict[str, Formula] = {
    **COMMON,
    "output table": by_inputs,
    "generator": torch_default,
    # Xavier of a tensor (H, 1, K): K inputs and H K outputs.
    "kernel": lambda taps, heads: xavier(taps, heads * taps),
}

#: Weights and biases by scheme and part; a part that is not among the biases has zeros.
EXPECTED: dict[str, tuple[dict[str, Formula], dict[str, Formula]]] = {
    "xavier": (COMMON, {"map": torch_default}),
    "lite-transformer": (FAIRSEQ, {"map": torch_default, "qkv": torch_default}),
    "lite-transformer-iwslt": ({**FAIRSEQ, "ffn": wide}, {"map": torch_default, "qkv": torch_default}),
    "subformer": (
        {**FAIRSEQ, "ffn": torch_default},
        {"map": torch_default, "qkv": torch_default, "ffn": torch_default},
    ),
    "t2r": (
        {**FAIRSEQ, "ffn": torch_default, "linear qkv": sixth, "linear attention output": sixth},
        {"map": torch_default, "qkv": torch_default, "ffn": torch_default},
    ),
    "r2d2": ({**COMMON, "qkv": xavier, "output table": by_inputs}, {"map": torch_default}),
    "torch": (
        {
            **COMMON,
            **dict.fromkeys(
                ("ffn", "convolution", "generator", "output table", "plain", "attention output"), torch_default
            ),
            # Uniform within the root of the hidden channels.
            "gates": lambda d, k: Law(1 / math.sqrt(3 * k)),
        },
        dict.fromkeys(("ffn", "convolution", "plain", "map"), torch_default),
    ),
    "normal": (dict.fromkeys(COMMON, small), {}),
    "depth-scaled": (
        {**FAIRSEQ, "ffn": torch_default},
        {"map": torch_default, "qkv": torch_default, "ffn": torch_default},
    ),
}
