"""Instructions that a token takes in the emulated processor, whose wall time says nothing.

Debian's qemu has no plugins, which could count. Its log has each block of instructions once, when it is translated, and
a line whenever one begins; lines times sizes are the instructions. Those of the runtime's library alone are logged: an
interpreter's would take hours. Opening a bundle takes a hundred times as many as a token, so that the same sentence is
translated to two lengths, and the difference counts.
"""

import os
import re
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tools.base.errors import BuildError
from tools.base.processes import run, say
from tools.testing.command import PROGRAM
from tools.testing.emulation import PYTHON, emulate

__all__ = ["check_counts", "count_blocks", "count_token"]

_SENTENCE: Final = "Where is the nearest train station?"
#: Lengths that the translation is made to have.
_SHORT, _LONG = 4, 24

#: Without instructions for dot products, integers save bytes alone. A matrix turned into floats takes an instruction or
#: two for each four of its values, besides those of the product.
_MOST_OF_FP32: Final = 1.5

#: Processes tried until one has the library where the one before had it.
_ATTEMPTS: Final = 4

_LIBRARY: Final = "onnxruntime_pybind11_state"
# Says at its end where the library was: the log must be told before.
_PROGRAM: Final = f"""
import atexit, sys
def tell():
    for line in open("/proc/self/maps"):
        if "{_LIBRARY}" in line and " r-xp " in line:
            print("library", line.split()[0], file=sys.stderr)
atexit.register(tell)
{PROGRAM}
"""


def count_token(root: Path, site: Path, bundle: Path) -> int:
    """Count the instructions of the runtime's library for one step of greedy search, one thread.

    Args:
        root: Of `unpack_programs`.
        site: Where the runtime's wheels for arm64 are.
        bundle: The bundle.

    Raises:
        BuildError: A translation failed, or the library was elsewhere every time.
    """
    place = _locate(root, site, bundle)
    counted = []
    for length in (_SHORT, _LONG):
        say(f"counting the instructions of a translation of {length} tokens by {bundle.name}")
        count, place = _count(root, site, bundle, length, place)
        counted.append(count)
    return (counted[1] - counted[0]) // (_LONG - _SHORT)


def check_counts(*, fp32: int, int8: int) -> None:
    """Refuse int8 that takes far more instructions a token than fp32: it would turn a matrix into floats at every call.

    Raises:
        BuildError: It does.
    """
    if int8 > _MOST_OF_FP32 * fp32:
        raise BuildError(
            f"a token in int8: expected at most {_MOST_OF_FP32} times the {fp32:,} instructions in fp32, found {int8:,}"
        )


def count_blocks(lines: Iterable[bytes]) -> int:
    """Instructions in qemu's log of `in_asm` and `exec`, not chained.

    Raises:
        BuildError: A block ran that the log does not have.
    """
    sizes: dict[int, int] = {}
    runs: Counter[bytes] = Counter()
    start, size = 0, 0
    for line in lines:
        if line.startswith(b"Trace"):
            # "Trace 0: HOST [BASE/START/FLAGS/FLAGS] SYMBOL"
            runs[line.split(b"/", 2)[1]] += 1
        elif line.startswith(b"0x"):
            # "0xSTART:  CODE  WORDS", an instruction a line, until an empty line.
            start = start or int(line.partition(b":")[0], 16)
            size += 1
        elif start:
            sizes[start] = size
            start, size = 0, 0
    unknown = [block for block in runs if int(block, 16) not in sizes]
    if unknown:
        raise BuildError(f"qemu's log: expected each block before it runs, found {len(unknown)} that are not there")
    return sum(count * sizes[int(block, 16)] for block, count in runs.items())


def _locate(root: Path, site: Path, bundle: Path) -> range:
    """Addresses of the library's code, the same in each such process, mostly: the system does not shuffle them."""
    return _place(_translate(root, site, bundle, _SHORT, []))


def _count(root: Path, site: Path, bundle: Path, length: int, place: range) -> tuple[int, range]:
    """The instructions of a translation, and where the library was: at ``place``, unless it was somewhere else."""
    for _ in range(_ATTEMPTS):
        count, found = _count_at(root, site, bundle, length, place)
        if found == place:
            return count, place
        place = found
    raise BuildError(f"expected {_LIBRARY} where it was in the process before, found it elsewhere {_ATTEMPTS} times")


def _count_at(root: Path, site: Path, bundle: Path, length: int, place: range) -> tuple[int, range]:
    """The instructions at ``place``, and where the library was."""
    with TemporaryDirectory() as folder:
        pipe = Path(folder) / "log"
        os.mkfifo(pipe)
        log = ["-d", "exec,nochain,in_asm", "-dfilter", f"{place.start:#x}+{len(place):#x}", "-D", str(pipe)]
        counts: list[int] = []

        def read() -> None:
            with pipe.open("rb", buffering=1 << 20) as lines:
                counts.append(count_blocks(lines))

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        output = _translate(root, site, bundle, length, log)
        reader.join()
    (count,) = counts
    return count, _place(output)


def _translate(root: Path, site: Path, bundle: Path, length: int, log: Sequence[str]) -> str:
    qemu, *emulated = emulate(root, PYTHON)
    words = ["translate", str(bundle), "--runtime", "onnx", "--threads", "1", "--text", _SENTENCE]
    lengths = ["--min-length", str(length), "--max-length", str(length)]
    return run(
        ["setarch", "--addr-no-randomize", qemu, *log, *emulated, "-c", _PROGRAM, *words, *lengths],
        what="translate, emulated",
        env={"PYTHONPATH": str(site), "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"},
    )


def _place(output: str) -> range:
    found = re.search("^library ([0-9a-f]+)-([0-9a-f]+)$", output, re.MULTILINE)
    if found is None:
        raise BuildError(f"translate, emulated: expected {_LIBRARY} to be loaded, found it nowhere\n{output}")
    return range(int(found[1], 16), int(found[2], 16))
