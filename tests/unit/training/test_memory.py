"""Freed memory stays with the process while training, and no longer."""

import ctypes

import pytest
import torch

from lite_nlp.training.memory import kept_memory

CPU = torch.device("cpu")
#: Above the largest block that glibc keeps by itself.
LARGE = 64 * 2**20


class _MallInfo(ctypes.Structure):
    # glibc's mallinfo2: bytes of the heap first, bytes mapped apart fifth.
    _fields_ = [(name, ctypes.c_size_t) for name in ("arena", "b", "c", "d", "hblkhd", "f", "g", "h", "i", "j")]


@pytest.fixture
def library() -> ctypes.CDLL:
    found = ctypes.CDLL(None)
    if not hasattr(found, "mallinfo2"):
        pytest.skip("the C library is not glibc 2.33 or newer")
    found.mallinfo2.restype = _MallInfo
    return found


def _mapped_for_a_tensor(library: ctypes.CDLL) -> int:
    """Bytes that are mapped apart while a large tensor lives, and so given back when it is freed."""
    before = library.mallinfo2().hblkhd
    tensor = torch.empty(LARGE, dtype=torch.uint8)
    mapped: int = library.mallinfo2().hblkhd - before
    del tensor
    return mapped


def test_large_tensors_are_kept_inside_and_given_back_afterwards(library: ctypes.CDLL) -> None:
    with pytest.raises(KeyboardInterrupt), kept_memory(CPU):
        assert _mapped_for_a_tensor(library) == 0
        inside = library.mallinfo2().arena
        assert inside >= LARGE
        raise KeyboardInterrupt
    assert library.mallinfo2().arena < inside - LARGE // 2
    assert _mapped_for_a_tensor(library) >= LARGE


def test_other_devices_change_nothing(library: ctypes.CDLL) -> None:
    with kept_memory(torch.device("cuda")):
        assert _mapped_for_a_tensor(library) >= LARGE
