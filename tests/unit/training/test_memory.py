"""Freed memory stays with the process while training, and no longer.

Each case is a process of its own: what else a process holds decides what it can give back.
"""

import ctypes
import subprocess
import sys

import pytest

#: 64 MiB are above the largest block that glibc keeps by itself; its mallinfo2 has the bytes mapped apart fifth.
PREPARE = """
import ctypes, resource, torch
from lite_nlp.training.memory import kept_memory

LARGE = 64 * 2**20

class MallInfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in ("arena", "b", "c", "d", "hblkhd", "f", "g", "h", "i", "j")]

library = ctypes.CDLL(None)
library.mallinfo2.restype = MallInfo

def mapped_for_a_tensor():
    before = library.mallinfo2().hblkhd
    tensor = torch.ones(LARGE, dtype=torch.uint8)
    mapped = library.mallinfo2().hblkhd - before
    del tensor
    return mapped

def resident():
    with open("/proc/self/statm") as pages:
        return int(pages.read().split()[1]) * resource.getpagesize()
"""

KEPT_AND_GIVEN_BACK = """
try:
    with kept_memory(torch.device("cpu")):
        before = resident()
        assert mapped_for_a_tensor() == 0
        inside = resident()
        assert inside > before + LARGE // 2, (before, inside)
        raise KeyboardInterrupt
except KeyboardInterrupt:
    assert resident() < inside - LARGE // 2, (resident(), inside)
    assert mapped_for_a_tensor() >= LARGE
"""

ANOTHER_DEVICE = """
with kept_memory(torch.device("cuda")):
    assert mapped_for_a_tensor() >= LARGE
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="the C library is not glibc 2.33 or newer")
@pytest.mark.parametrize("case", [KEPT_AND_GIVEN_BACK, ANOTHER_DEVICE], ids=["kept and given back", "another device"])
def test_large_tensors(case: str) -> None:
    done = subprocess.run([sys.executable, "-c", PREPARE + case], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
