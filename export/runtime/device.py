"""Facts of this machine and memory of this process; empty or 0 where the system does not provide them."""

import os
import platform
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from lite_nlp.core.bounds import MAX_THREADS

__all__ = [
    "Device",
    "Memory",
    "MemoryNow",
    "count_data_memory",
    "default_threads",
    "describe_device",
    "read_data_memory",
    "read_memory",
    "reset_peak_memory",
    "usable_cores",
]

#: Boards say their name here, desktops there.
_BOARD_NAME: Final = Path("/sys/firmware/devicetree/base/model")
_PRODUCT_NAME: Final = Path("/sys/devices/virtual/dmi/id/product_name")
_CPU_INFO: Final = Path("/proc/cpuinfo")
_STATUS: Final = Path("/proc/self/status")
_MAPPINGS: Final = Path("/proc/self/smaps")

#: Writing 5 makes the system forget the peak of the resident memory.
_CLEAR_REFS: Final = Path("/proc/self/clear_refs")


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Resident bytes before an engine was opened, after it was opened, and at most."""

    before: int
    loaded: int
    peak: int


@dataclass(frozen=True)
class MemoryNow:
    """Resident bytes now and at most so far."""

    resident: int
    peak: int


@dataclass(frozen=True, kw_only=True)
class Device:
    """Facts of a machine for a report.

    Attributes:
        kind: ``board`` for a single-board computer, ``host`` for any other.
        name: As its maker calls it.
        os: Operating system with its version.
        abi: Such as ``x86_64`` or ``aarch64``.
        cpu: Name of the processor.
        cores: Number of cores that this process may use.
        cpu_features: Flags that the processor reports, sorted.
        memory_bytes: Of the whole machine.
    """

    kind: Literal["host", "board"]
    name: str
    os: str
    abi: str
    cpu: str
    cores: int
    cpu_features: tuple[str, ...]
    memory_bytes: int

    def to_json(self) -> dict[str, Any]:
        """For a report."""
        return {**vars(self), "cpu_features": list(self.cpu_features)}


def describe_device() -> Device:
    """Collect the facts of this machine."""
    board = _read(_BOARD_NAME).strip("\0 \n")
    cpu, features = parse_cpu_info(_read(_CPU_INFO))
    return Device(
        kind="board" if board else "host",
        name=board or _read(_PRODUCT_NAME).strip(),
        os=_os_name(),
        abi=platform.machine(),
        cpu=cpu or platform.processor(),
        cores=usable_cores(),
        cpu_features=features,
        memory_bytes=_memory_bytes(),
    )


def parse_cpu_info(text: str) -> tuple[str, tuple[str, ...]]:
    """Name and sorted features of the processor, from ``/proc/cpuinfo`` of x86 or ARM."""
    fields = dict(re.findall(r"^([^\t\n:]+?)[ \t]*:[ \t]*(.*)$", text, re.MULTILINE))
    name = fields.get("model name") or fields.get("Hardware") or ""
    return name.strip(), tuple(sorted((fields.get("flags") or fields.get("Features") or "").split()))


def usable_cores() -> int:
    """Number of cores that this process may use; in a container fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def default_threads() -> int:
    """Number of threads of a runtime where none is asked for: ``OMP_NUM_THREADS``, else one per usable core.

    At most as many as may be asked for: a runtime starts all of them.
    """
    given = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    return min(int(given), MAX_THREADS) if given.isdecimal() and int(given) else usable_cores()


def read_memory() -> MemoryNow:
    """Resident memory of this process; zeros where the system has no ``/proc``."""
    kilobytes = dict(re.findall(r"^(VmRSS|VmHWM):\s*(\d+) kB$", _read(_STATUS), re.MULTILINE))
    return MemoryNow(1024 * int(kilobytes.get("VmRSS", 0)), 1024 * int(kilobytes.get("VmHWM", 0)))


def read_data_memory() -> int:
    """Resident bytes of this process without the files of programs and libraries; 0 where there is no ``/proc``.

    The pages of a library come into memory as its code is first run, whatever it works on.
    """
    return count_data_memory(_read(_MAPPINGS))


def count_data_memory(text: str) -> int:
    """The same from the content of ``/proc/PID/smaps``."""
    kilobytes, is_code = 0, False
    for line in text.splitlines():
        if mapping := re.match(r"[0-9a-f]+-[0-9a-f]+ (\S+) \S+ \S+ (\d+) *(.*)", line):
            permissions, inode, name = mapping.groups()
            is_code = inode != "0" and ("x" in permissions or ".so" in Path(name).name)
        elif line.startswith("Rss:") and not is_code:
            kilobytes += int(line.split()[1])
    return 1024 * kilobytes


def reset_peak_memory() -> None:
    """Reset the peak to the resident memory of now, where the system can."""
    with suppress(OSError):
        _CLEAR_REFS.write_text("5")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _os_name() -> str:
    try:
        name = platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    except OSError:
        return f"{platform.system()} {platform.release()}".strip()
    return f"{name}, {platform.system()} {platform.release()}"


def _memory_bytes() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 0
