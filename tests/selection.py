"""What every run of the tests takes of the presets and of the combinations of options; ``make test-all`` takes all."""

from collections.abc import Collection, Hashable, Iterable
from typing import Final

import pytest
from _pytest.mark import ParameterSet

from lite_nlp.configs import list_presets

__all__ = ["PRESETS", "VARIANT_NAMES", "select"]

#: One preset of each architecture, family and way to share, factorize, embed and attend.
_DOZEN: Final = (
    "adaptive-inputs-lm-512",
    "lightconv-iwslt-192",
    "lite-transformer-lm-896",
    "lite-transformer-wmt-496",
    "multi30k-t2r",
    "r2d2-lstm-nli-5",
    "r2d2-nmt-4",
    "r2d2-sva-2",
    "subformer-base-ende",
    "t2r-75-lm",
    "transformer-cnndm-512",
    "transformer-iwslt-240",
)

#: Of the small models of ``tests/unit/models/conftest.py``, those that between them have every block and option.
VARIANT_NAMES: Final = (
    "transformer-pre-norm",
    "lsra-dynamic-glu",
    "lsra-untied",
    "lightconv",
    "subformer",
    "embedding-two-layer",
    "safe-untied",
    "t2r",
    "t2r-every-second",
    "random-features",
    "r2d2",
    "lsra-quaternion",
    "low-rank",
    "expanded-lsra-t2r",
)


def select(cases: Iterable[Hashable], chosen: Collection[Hashable]) -> list[ParameterSet]:
    """Names, or other cases, as parameters of a test; all but the chosen ones are left to ``make test-all``.

    Raises:
        ValueError: If a chosen one is not among the cases.
    """
    cases = list(cases)
    if missing := set(chosen) - set(cases):
        raise ValueError(f"expected chosen cases among the parameters, found {sorted(map(str, missing))} besides")
    return [pytest.param(case, marks=() if case in chosen else pytest.mark.exhaustive) for case in cases]


#: Parameters of a test of every preset.
PRESETS: Final = select(list_presets(), _DOZEN)
