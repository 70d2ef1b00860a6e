"""Running other programs, with their output shown on failure."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.base.errors import BuildError

__all__ = ["java_command", "join_classpath", "run", "say"]

# The end of a failed program's output is where its reason is.
_SHOWN_CHARACTERS = 8000


def say(message: str) -> None:
    """Print one line of progress to stderr."""
    print(message, file=sys.stderr, flush=True)


def join_classpath(*entries: Path | Sequence[Path]) -> str:
    """Join entries to a Java class path."""
    flat: list[str] = []
    for entry in entries:
        flat += [str(entry)] if isinstance(entry, Path) else [str(path) for path in entry]
    return os.pathsep.join(flat)


def java_command(classpath: str, main: str, *, heap: str = "1g", options: Sequence[str] = ()) -> list[str]:
    """Beginning of a command line for a Java program, with settings for a small machine.

    Args:
        classpath: As of `join_classpath`; empty for the one in the environment variable CLASSPATH.
        main: Class to start.
        heap: Largest heap, as -Xmx takes it.
        options: More options of the virtual machine.
    """
    return [
        "java",
        f"-Xmx{heap}",
        "-XX:+UseSerialGC",
        "-Xshare:auto",
        *options,
        *(["-cp", classpath] if classpath else []),
        main,
    ]


def run(
    command: Sequence[str | Path],
    *,
    what: str,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    show: bool = False,
) -> str:
    """Run a program and wait for its end.

    Args:
        command: Program and arguments.
        what: The step, for the error: "aapt2 link".
        cwd: Its working directory.
        env: Variables that are added to ours.
        show: Print what it writes, when it has ended: others may be running beside it.

    Returns:
        Its stdout and stderr together.

    Raises:
        BuildError: It is not there or did not end with 0.
    """
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words,
            cwd=cwd,
            env={**os.environ, **env} if env else None,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
    except FileNotFoundError as error:
        raise BuildError(f"{what}: expected the program {words[0]} on the path, found none") from error
    output = done.stdout
    if show:
        print(output, end="", flush=True)
    if done.returncode:
        shown = f":\n{output[-_SHOWN_CHARACTERS:].rstrip()}" if output and not show else ""
        raise BuildError(f"{what}: {words[0]} ended with {done.returncode}, expected 0{shown}")
    return output
