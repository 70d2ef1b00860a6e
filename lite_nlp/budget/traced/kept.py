"""What modules keep from call to call, as it was before they ran on tensors without numbers."""

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any

__all__ = ["kept_as_it_was"]


@contextmanager
def kept_as_it_was(modules: Iterable[object]) -> Iterator[None]:
    """Give modules back what they keep: attributes, buffers, and the items of their collections."""
    kept = [(vars(module), dict(vars(module))) for module in modules]
    collections = [
        (value, copy(value))
        for _, before in kept
        for value in before.values()
        if isinstance(value, list | deque | dict | set)
    ]
    try:
        yield
    finally:
        for attributes, before in kept:
            _refill(attributes, before)
        for value, items in collections:
            _refill(value, items)


def _refill(collection: Any, items: Any) -> None:
    """Give a collection these items, in place."""
    collection.clear()
    if isinstance(collection, list | deque):
        collection.extend(items)
    else:
        collection.update(items)
