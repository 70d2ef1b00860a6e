"""The largest values of options: far above what makes sense, and below what aborts the process or fills the memory."""

import math
from numbers import Integral, Real
from typing import Any, Final

from lite_nlp.core.errors import UsageError

__all__ = [
    "MAX_ACCUMULATION",
    "MAX_BATCH",
    "MAX_BEAM",
    "MAX_COUNT",
    "MAX_CYCLES",
    "MAX_FEATURES",
    "MAX_ITEMS",
    "MAX_LENGTH_PENALTY",
    "MAX_REPEATS",
    "MAX_SEED",
    "MAX_STEPS",
    "MAX_TEMPERATURE",
    "MAX_THREADS",
    "MAX_TOKENS",
    "MAX_VOCAB_SIZE",
    "MIN_TEMPERATURE",
    "check_loss",
    "check_range",
    "plain_integer",
]

#: Threads: OpenMP aborts the process if the system refuses one.
MAX_THREADS: Final = 512

#: Types of a vocabulary: the trainer allocates for all of them at once, and models and tokenizers of more are not read.
#: The largest published one here, that of WikiText-103, has 267,744.
MAX_VOCAB_SIZE: Final = 1 << 19

#: Hypotheses of a search. Every vocabulary has a token for each of the 256 bytes, so there are always as many different
#: extensions; quality falls long before (Koehn and Knowles, 2017, section 3.6), and memory grows with each.
MAX_BEAM: Final = 256

#: Sentences in a batch.
MAX_BATCH: Final = 1 << 16

#: Tokens of a text, which models take some thousand of; the square of it is counted.
MAX_TOKENS: Final = 1 << 20

#: Exponent of the length penalty: powers of texts of any length above stay finite.
MAX_LENGTH_PENALTY: Final = 10.0

#: Features per head, of which a random map makes a matrix.
MAX_FEATURES: Final = 1 << 14

#: Passes of a benchmark.
MAX_REPEATS: Final = 10_000

#: Optimizer steps of a finetuning.
MAX_STEPS: Final = 10_000_000

#: Batches of a step of it.
MAX_ACCUMULATION: Final = 1_024

#: Cycles of a fine-tuning's learning rate.
MAX_CYCLES: Final = 100

#: Temperature of a softmax: beyond, distributions are one type or all types alike, and its square weighs a loss.
MIN_TEMPERATURE: Final = 0.1
MAX_TEMPERATURE: Final = 100.0

#: Sentence pairs or examples.
MAX_ITEMS: Final = 1_000_000_000

#: What generators of random numbers take.
MAX_SEED: Final = (1 << 63) - 1

#: Bytes, parameters or Mult-Adds.
MAX_COUNT: Final = 10**18


def check_range(name: str, value: float | None, least: float, most: float) -> None:
    """Refuse an option out of its range, of which NaN is none; None is an option that is not given.

    Args:
        name: Of the option.
        value: What is given.
        least: The least value, a whole number, as the greatest is, where the option counts something.
        most: The greatest value.

    Raises:
        UsageError: If it is out of range, no number, or no whole one where both ends are.
    """
    if value is None:
        return
    whole = isinstance(least, Integral) and isinstance(most, Integral)
    if not isinstance(value, Integral if whole else Real):
        raise UsageError(f"{name}: expected a {'whole ' if whole else ''}number, found {value!r}")
    if not least <= value <= most:
        raise UsageError(f"{name}: expected {least:,} to {most:,}, found {value}")


def plain_integer(value: Any) -> Any:
    """Python's own integer for one of NumPy, which JSON does not take; anything else as it is."""
    return int(value) if isinstance(value, Integral) else value


def check_loss(name: str, value: float | None) -> None:
    """Refuse a largest loss that is no number of at least 0, or infinite; None is one that is not given.

    Args:
        name: Of the option.
        value: What is given.

    Raises:
        UsageError: If it is none.
    """
    if value is not None and not (isinstance(value, Real) and 0 <= value < math.inf):
        raise UsageError(f"{name}: expected a number of at least 0, found {value!r}")
