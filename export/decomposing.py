"""What torch looks up about its operators before it decomposes a graph, looked up once."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final
from unittest.mock import patch

import torch
from torch.export import decomp_utils, exported_program

__all__ = ["known_operators"]

_COLLECT: Final = "_collect_all_valid_cia_ops"
_collect: Final[Any] = getattr(exported_program, _COLLECT)


@contextmanager
def known_operators() -> Iterator[None]:
    """Let torch list the operators that it could keep whole once for as long as none is added.

    It goes through all of every library for that, twice for each graph that it decomposes: a fourteenth of the time of
    a small model's export, twice that in a mixed precision, whose products are graphs of their own.
    """
    with patch.object(exported_program, _COLLECT, _collect_new), patch.object(decomp_utils, _COLLECT, _collect_new):
        yield


def _collect_new() -> Any:
    registered = torch._C._dispatch_get_registrations_for_dispatch_key("CompositeImplicitAutograd")
    return set(_collect_once(len(registered), tuple(torch.ops._dir)))


@cache
def _collect_once(registered: int, libraries: tuple[str, ...]) -> Any:
    return _collect()
