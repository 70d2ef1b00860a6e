"""The verdict on one file, and the process that gives verdicts under a bound of memory: ``python -m tests.fuzz.judge``.

It takes lines ``KIND<tab>PATH`` and answers each with a line of JSON. The Kotlin program
``dev.litenlp.core.fuzz.JudgeKt`` speaks the same.
"""

import json
import os
import resource
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.fuzz.memory import peak_bytes, reset_peak
from tests.fuzz.readers import KINDS, Kind

__all__ = ["ADDRESS_SPACE", "Verdict", "judge"]

#: Of the process; a file that needs more is a finding, before the machine is in trouble.
ADDRESS_SPACE = 6 << 30

#: What a file of N bytes may cost: memory beyond what the process holds anyway, and time.
_MEMORY_BYTES, _MEMORY_PER_BYTE = 200_000_000, 40
_SECONDS, _SECONDS_PER_BYTE = 10.0, 1e-6

#: A screen of 80 columns.
_MAX_MESSAGE, _MAX_LINES = 2000, 24


@dataclass(frozen=True)
class Verdict:
    """What came of reading a file.

    Attributes:
        outcome: ``accepted``, ``refused``, or ``finding``: neither, or at too high a price.
        detail: Digest of what was read, the message of the refusal, or what was found.
        seconds: Time of the processor that it took, which is the same on a busy machine.
        peak: Bytes of memory that it took beyond those held before.
    """

    outcome: str
    detail: str
    seconds: float = 0.0
    peak: int = 0


def judge(kind: Kind, path: Path) -> Verdict:
    """Read a file, with everything that it prints on stdout caught."""
    with tempfile.TemporaryFile() as printed:
        sys.stdout.flush()
        stdout = os.dup(1)
        os.dup2(printed.fileno(), 1)
        try:
            reset_peak()
            held, started = peak_bytes(), time.process_time()
            outcome, detail = _read(kind, path)
            seconds, peak = time.process_time() - started, peak_bytes() - held
        finally:
            sys.stdout.flush()
            os.dup2(stdout, 1)
            os.close(stdout)
        written = printed.seek(0, os.SEEK_END)
    size = path.stat().st_size
    problems = [detail] if outcome == "finding" else []
    if outcome == "refused" and (len(detail) > _MAX_MESSAGE or detail.count("\n") >= _MAX_LINES):
        problems.append(f"a message of {len(detail)} characters")
    if written:
        problems.append(f"{written} bytes printed on stdout")
    if peak > _MEMORY_BYTES + _MEMORY_PER_BYTE * size:
        problems.append(f"{peak / 1e6:.0f} MB of memory for {size} bytes")
    if seconds > _SECONDS + _SECONDS_PER_BYTE * size:
        problems.append(f"{seconds:.1f} s for {size} bytes")
    if problems:
        return Verdict("finding", "; ".join(problems), seconds, peak)
    return Verdict(outcome, detail, seconds, peak)


def _read(kind: Kind, path: Path) -> tuple[str, str]:
    try:
        return "accepted", kind.read(path)
    except kind.errors as error:
        return "refused", str(error)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        # Whatever else is raised is what is looked for, a panic of a Rust library included.
        return "finding", f"{type(error).__name__}: {str(error)[:500]}"


def main() -> None:
    """Judge the files that stdin names."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    for line in sys.stdin:
        kind, path = line.rstrip("\n").split("\t")
        print(json.dumps(asdict(judge(KINDS[kind], Path(path)))), flush=True)


if __name__ == "__main__":
    main()
