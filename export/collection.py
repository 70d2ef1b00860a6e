"""Python's collection of cycles while graphs are made."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["rare_collections"]

#: New objects, and collections of a younger generation, between two of each. Python's own first number is 700.
_RARELY: Final = (50_000, 20, 50)


@contextmanager
def rare_collections() -> Iterator[None]:
    """Collect cycles rarely within the context.

    Tracing and lowering make tens of millions of objects, most of which stay: with Python's own thresholds a sixth of
    the time of a small model's export is spent on looking for cycles among them. It takes a tenth more memory.
    """
    before = gc.get_threshold()
    gc.set_threshold(*_RARELY)
    try:
        yield
    finally:
        gc.set_threshold(*before)
