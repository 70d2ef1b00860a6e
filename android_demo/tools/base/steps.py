"""Build steps: skipped while their inputs are unchanged, locked against parallel builds."""

import contextlib
import fcntl
import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tools.base.layout import BUILD
from tools.base.processes import say

__all__ = ["digest_file", "digest_inputs", "exclusively", "list_files", "run_step"]


def digest_file(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def list_files(*roots: Path, pattern: str = "*") -> list[Path]:
    """All files under folders (or the files themselves) in one order for every machine; a missing root has none."""
    found: set[Path] = set()
    for root in roots:
        if root.is_file():
            found.add(root)
        else:
            found.update(path for path in root.rglob(pattern) if path.is_file() and "__pycache__" not in path.parts)
    return sorted(found)


def digest_inputs(files: Iterable[Path], settings: Mapping[str, Any]) -> str:
    """SHA-256 over the names and contents of files and over settings (anything JSON can hold)."""
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for path in files:
        digest.update(f"\n{path} {digest_file(path)}".encode())
    return digest.hexdigest()


@contextlib.contextmanager
def exclusively(name: str) -> Iterator[None]:
    """Hold the lock of a step; another build waits for it."""
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / f".{name.replace('/', '-')}.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another build to finish with {name}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def run_step(output: Path, inputs: Iterable[Path], settings: Mapping[str, Any], make: Callable[[Path], None]) -> bool:
    """Make a file or folder unless it was made from the same inputs.

    Args:
        output: What is made. It is replaced as a whole, and only when `make` is through.
        inputs: Files that it is made from.
        settings: Whatever else decides what it becomes.
        make: Makes it at the path given, where nothing is.

    Returns:
        Whether it had to be made.
    """
    stamp = output.with_name(output.name + ".stamp")
    with exclusively(str(output.relative_to(BUILD)) if output.is_relative_to(BUILD) else output.name):
        digest = digest_inputs(inputs, settings)
        if output.exists() and stamp.is_file() and stamp.read_text() == digest:
            return False
        stamp.unlink(missing_ok=True)
        fresh = output.with_name(f".{output.name}.new")
        _remove(fresh)
        fresh.parent.mkdir(parents=True, exist_ok=True)
        make(fresh)
        _remove(output)
        fresh.rename(output)
        stamp.write_text(digest)
        return True


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
