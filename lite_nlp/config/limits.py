"""Largest sizes that a configuration may state. Imports no torch.

A model's file may hold any configuration; with these bounds no key of it alone costs much memory or time before the
weights in the file, whose number is bounded by the file's size, are compared with it. Published models are far below.
"""

from typing import Annotated, Final

from pydantic import Field

__all__ = ["MAX_LAYERS", "MAX_POSITIONS", "MAX_WIDTH", "KernelSizes", "RecordedInt"]

#: Channels, features, classes and heads; the widest published model here has 8,192.
MAX_WIDTH: Final = 1 << 16

#: Layers of a stack; the deepest published model here has 32.
MAX_LAYERS: Final = 256

#: Rows of a position table; the longest published model here has 8,192.
MAX_POSITIONS: Final = 1 << 17

#: An integer that TOML and the records of a run hold; one beyond would be found when the first record is read back.
RecordedInt = Annotated[int, Field(le=2**63 - 1)]

#: One kernel size per layer.
KernelSizes = Annotated[tuple[Annotated[int, Field(le=MAX_POSITIONS)], ...], Field(max_length=MAX_LAYERS)]
