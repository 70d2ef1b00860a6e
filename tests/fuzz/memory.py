"""Peak memory of a process, as Linux counts it."""

import re
from pathlib import Path

__all__ = ["peak_bytes", "reset_peak"]


def peak_bytes(process: int | str = "self") -> int:
    """The most memory that a process has held since it began, or since ``reset_peak``.

    Not ``ru_maxrss``, which a process inherits from the one that started it.
    """
    found = re.search(r"^VmHWM:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text(), re.MULTILINE)
    if found is None:
        raise OSError(f"/proc/{process}/status: expected a line VmHWM, found none")
    return 1024 * int(found.group(1))


def reset_peak() -> None:
    """Let the peak begin anew with what is held now."""
    Path("/proc/self/clear_refs").write_text("5")
