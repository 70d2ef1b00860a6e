"""Processes that judge files, one line of text for each; a file that ends or stalls one is a finding."""

import json
import os
import selectors
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from tests.fuzz.judge import Verdict
from tests.fuzz.memory import peak_bytes
from tests.fuzz.readers import KINDS, TEXTS

__all__ = ["Worker", "kotlin_worker", "python_worker"]

_ROOT: Final = Path(__file__).parents[2]

#: Beyond what a verdict allows for a file: the process must answer by then.
_STALLED_SECONDS: Final = 60.0

#: Heap of the virtual machine: 200 MB and 40 times the two megabytes that no case exceeds, and the machine itself.
_KOTLIN_HEAP: Final = "300m"


@dataclass
class Worker:
    """A program that answers each line ``KIND<tab>PATH`` with a verdict; started when first needed, and after its end.

    Attributes:
        language: Its name in reports.
        command: Its command line.
        env: Variables of its environment, added to ours.
    """

    language: str
    command: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    _process: subprocess.Popen[bytes] | None = None
    _errors: IO[bytes] | None = None
    _unread: bytes = b""

    def judge(self, kind: str, path: Path) -> Verdict | None:
        """The verdict on a file; None for a kind that this language does not read."""
        if self.language == "Kotlin" and not KINDS[kind].in_kotlin:
            return None
        if self._process is None:
            self._errors = tempfile.TemporaryFile()  # noqa: SIM115, closed with the process
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                cwd=_ROOT,
                env={**os.environ, **self.env},
            )
        try:
            self._stdin.write(f"{kind}\t{path}\n".encode())
            self._stdin.flush()
            return Verdict(**json.loads(self._read_line()))
        except (OSError, ValueError) as error:
            return Verdict("finding", f"the process failed: {error}{self._end()}")

    def peak_bytes(self) -> int:
        """The most memory that the process has held; 0 if there is none."""
        return peak_bytes(self._process.pid) if self._process is not None else 0

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._end()

    @property
    def _stdin(self) -> IO[bytes]:
        assert self._process is not None and self._process.stdin is not None  # noqa: PT018
        return self._process.stdin

    def _read_line(self) -> bytes:
        assert self._process is not None and self._process.stdout is not None  # noqa: PT018
        stdout = self._process.stdout
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            while b"\n" not in self._unread:
                if not selector.select(_STALLED_SECONDS):
                    raise OSError(f"expected an answer within {_STALLED_SECONDS:.0f} s, found none")
                more = os.read(stdout.fileno(), 1 << 16)
                if not more:
                    raise OSError(f"expected an answer, found the end of the process ({self._process.wait()})")
                self._unread += more
        line, self._unread = self._unread.split(b"\n", 1)
        return line

    def _end(self) -> str:
        """End the process; the end of what it wrote on stderr."""
        assert self._process is not None and self._errors is not None  # noqa: PT018
        self._process.kill()
        self._process.communicate()
        self._process, self._unread = None, b""
        with self._errors as errors:
            errors.seek(0)
            written = errors.read().decode(errors="replace").strip()
        return f"; stderr: ...{written[-300:]}" if written else ""


def python_worker() -> Worker:
    """The readers of the Python package."""
    paths = os.pathsep.join([str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    # One thread: each reserves memory that no file has asked for.
    return Worker("Python", [sys.executable, "-m", "tests.fuzz.judge"], {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"})


def kotlin_worker() -> Worker:
    """The readers of the Android app on the Java virtual machine: what they take is installed and compiled first.

    Raises:
        OSError: If that fails; the build has said why.
    """
    android = str(_ROOT / "android_demo")
    build = [sys.executable, "-m", "tools", "compile", "core", "core-test"]
    if code := subprocess.run(build, env={**os.environ, "PYTHONPATH": android}, cwd=_ROOT, check=False).returncode:
        raise OSError(f"the Kotlin readers: expected a build that succeeds, found exit code {code}")
    sys.path.insert(0, android)
    from tools.base.fetch import jars
    from tools.base.processes import java_command, join_classpath
    from tools.package.kotlin import classes

    classpath = join_classpath(classes("core-test"), classes("core"), jars("stdlib", "json"))
    command = java_command(
        classpath, "dev.litenlp.core.fuzz.JudgeKt", heap=_KOTLIN_HEAP, options=["-Dfile.encoding=UTF-8"]
    )
    return Worker("Kotlin", [*command, *TEXTS], {"LC_ALL": "C.UTF-8"})
