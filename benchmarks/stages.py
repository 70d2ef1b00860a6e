"""Stages of a long measurement, each a command that is skipped if its result exists.

A training that was stopped is resumed; one that another process is running is skipped. Every run is recorded, with
commit and machine, beside the result.
"""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from provenance import recorded

from lite_nlp.core.files import write_text

__all__ = [
    "Compress",
    "Convert",
    "Failed",
    "Measure",
    "Prepare",
    "Stage",
    "Train",
    "UnderWay",
    "read_json",
    "run_stage",
]

LITE_NLP = str(Path(sys.executable).with_name("lite-nlp"))


class Failed(Exception):  # noqa: N818 - what it says, not an error of ours
    """A stage's command failed."""


class UnderWay(Exception):  # noqa: N818 - the same
    """Another process is running a stage."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A command and its result.

    Attributes:
        out: The directory or file that it writes.
        arguments: Arguments of the program.
        program: The program, with leading arguments.
    """

    out: Path
    arguments: Sequence[str]
    program: tuple[str, ...] = (LITE_NLP,)

    def is_done(self) -> bool:
        """Whether the result is there."""
        return self.out.exists()

    def command(self) -> list[str]:
        """The whole command."""
        return [*self.program, *self.arguments]


class Prepare(Stage):
    """Preparation of a data directory."""

    def is_done(self) -> bool:
        """Whether the directory is there; it appears complete or not at all."""
        return (self.out / "data.json").exists()

    def command(self) -> list[str]:
        """The whole command."""
        return [*super().command(), "--out", str(self.out)]


class Convert(Prepare):
    """Conversion of a model."""

    def is_done(self) -> bool:
        """Whether the directory is there; it appears complete or not at all."""
        return (self.out / "config.toml").exists()


class Compress(Prepare):
    """A compression, which goes on where it was stopped."""

    def is_done(self) -> bool:
        """Whether the directory is there; it appears complete or not at all."""
        return (self.out / "ledger.json").exists()


class Train(Stage):
    """A training run, plain or distilled, resumed where it was stopped."""

    def is_done(self) -> bool:
        """Whether the run has ended."""
        metrics = read_json(self.out / "metrics.json")
        return metrics is not None and metrics["ended_by"] is not None

    def command(self) -> list[str]:
        """The whole command, which resumes from the last checkpoint."""
        begun = any((self.out / "checkpoints").glob("step-*"))
        # Without a checkpoint there is nothing to lose.
        return [*super().command(), "--out", str(self.out), "--resume" if begun else "--force"]


class Measure(Stage):
    """A command whose JSON object is written to ``out``."""


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in ``path``, or None if there is no such file."""
    if not path.exists():
        return None
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def run_stage(stage: Stage) -> None:
    """Run a stage unless it is done.

    Raises:
        UnderWay: If another process trains into the same directory.
        Failed: If the command fails.
    """
    if stage.is_done():
        print(f"done before: {stage.out}", file=sys.stderr)
        return
    if isinstance(stage, Train) and (process := _training_process(stage.out)):
        raise UnderWay(f"{stage.out}: process {process} is training it")
    print(f"running: {' '.join(stage.command())}", file=sys.stderr, flush=True)
    stage.out.parent.mkdir(parents=True, exist_ok=True)
    captured = isinstance(stage, Measure)
    with (
        _stopping_together(),
        recorded(stage.out, stage.command()),
        subprocess.Popen(stage.command(), stdout=subprocess.PIPE if captured else None, text=True) as process,
    ):
        try:
            output, _ = process.communicate()
        except KeyboardInterrupt:
            # Training writes a checkpoint before it ends.
            process.terminate()
            process.wait()
            raise
    if process.returncode:
        raise Failed(f"{stage.out}: the command failed with exit code {process.returncode}")
    if captured:
        json.loads(output)
        write_text(stage.out, output)


@contextmanager
def _stopping_together() -> Iterator[None]:
    """Context in which SIGTERM acts like Ctrl-C, so that no command outlives this program."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _training_process(out: Path) -> int | None:
    """The id of a process that trains into ``out``; None where the system does not list processes as files."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            directory = (entry / "cwd").resolve()
        except OSError:
            # It has ended, or is somebody else's.
            continue
        if not {"train", "distill"} & set(arguments) or "--out" not in arguments[:-1]:
            continue
        if (directory / arguments[arguments.index("--out") + 1]).resolve() == out.resolve():
            return int(entry.name)
    return None
