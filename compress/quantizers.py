"""The table of quantizers. A new one is a file of ``quantize/`` and a row of ``_ROWS``."""

import re
from typing import Final

from lite_nlp.compress.quantize.clustering import KMeansQuantizer
from lite_nlp.compress.quantize.protocol import Quantizer
from lite_nlp.compress.quantize.trained_grid import GridQuantizer
from lite_nlp.compress.stages import FIXED_STAGES, stage_file
from lite_nlp.core.errors import UsageError
from lite_nlp.core.suggestions import expected_one_of

__all__ = ["COMPARED", "get_quantizer", "register_quantizer"]

_ROWS: Final[tuple[Quantizer, ...]] = (KMeansQuantizer(), GridQuantizer())
#: Those that planning compares where none is named, in the order of preference.
COMPARED: Final = tuple(row.name for row in _ROWS)
_QUANTIZERS: Final = {row.name: row for row in _ROWS}
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]*")


def register_quantizer(quantizer: Quantizer) -> None:
    """Add a quantizer to the table while the program runs, so that ``CompressionOptions.quantizer`` can name it.

    Raises:
        UsageError: If its name is taken by another quantizer or by a stage, or is not made of small letters, digits and
            hyphens.
    """
    name = quantizer.name
    files = {stage_file(stage) for stage in (*FIXED_STAGES, *_QUANTIZERS)}
    if not _NAME.fullmatch(name) or stage_file(name) in files:
        raise UsageError(
            f"quantizer {name!r}: expected small letters, digits and hyphens, and a file beside {', '.join(files)}"
        )
    _QUANTIZERS[name] = quantizer


def get_quantizer(name: str) -> Quantizer:
    """The quantizer of this name.

    Raises:
        UsageError: If there is none.
    """
    if name not in _QUANTIZERS:
        raise UsageError(f"quantizer: {expected_one_of(_QUANTIZERS, name)}")
    return _QUANTIZERS[name]
