"""Environments in which only some of the extras are installed: made in a second, of links to what is installed here."""

import json
import os
import subprocess
import venv
from collections.abc import Iterator, Sequence
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Final, NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

_ROOT = Path(__file__).parents[2]

#: Forks for each command line, since most of a command's time would be the start of Python.
_RUN_COMMANDS: Final = """
import io, json, os, sys, tempfile
from lite_nlp.cli.main import main
results = []
for words in json.loads(sys.argv[1]):
    files = [tempfile.TemporaryFile("w+b") for _ in range(2)]
    child = os.fork()
    if child == 0:
        for place, file in enumerate(files, start=1):
            os.dup2(file.fileno(), place)
        sys.argv = ["lite-nlp", *words]
        code = 70
        try:
            main()
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        except BaseException:
            import traceback
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    texts = []
    for file in files:
        file.seek(0)
        texts.append(file.read().decode())
    results.append([code, *texts])
print(json.dumps(results))
"""


class Done(NamedTuple):
    """What a command line or a program came to."""

    code: int
    out: str
    err: str


class Installation:
    """A virtual environment with ``requirement`` and all that it requires, and with nothing else.

    Args:
        path: Directory to be made.
        requirement: Such as ``lite-nlp[runtime]``.
    """

    def __init__(self, path: Path, requirement: str) -> None:
        self.path = path
        venv.create(path, symlinks=True)
        (packages,) = path.glob("lib/python*/site-packages")
        for needed in _closure(requirement):
            _link(needed, packages)
        (packages / "lite_nlp.pth").write_text(f"{_ROOT}\n", encoding="utf-8")

    def run_commands(self, lines: Sequence[Sequence[str]]) -> list[Done]:
        """What the command lines come to, one after the other."""
        printed = self.run_code(_RUN_COMMANDS, json.dumps(lines))
        assert printed.code == 0, printed.err
        return [Done(*values) for values in json.loads(printed.out)]

    def run_code(self, code: str, *words: str) -> Done:
        """What a Python program comes to."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COVERAGE"))}
        done = subprocess.run(
            [self.path / "bin" / "python", "-c", code, *words],
            cwd=self.path,
            env={**kept, "COLUMNS": "200", "LITE_NLP_CACHE": str(self.path / "cache")},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)


def _closure(requirement: str) -> Iterator[Distribution]:
    """The distributions that ``requirement`` needs, without our own; an extra counts only where it is asked for."""
    seen: set[tuple[str, str]] = set()
    waiting = [Requirement(requirement)]
    yielded = {canonicalize_name("lite-nlp")}
    while waiting:
        asked = waiting.pop()
        name = canonicalize_name(asked.name)
        found = distribution(name)
        if name not in yielded:
            yielded.add(name)
            yield found
        for extra in {"", *asked.extras}:
            if (name, extra) not in seen:
                seen.add((name, extra))
                inner = map(Requirement, found.requires or ())
                waiting += [row for row in inner if row.marker is None or row.marker.evaluate({"extra": extra})]


def _link(found: Distribution, packages: Path) -> None:
    for name in {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
        link = packages / name
        if not link.exists() and not name.endswith(".pth"):
            link.symlink_to(Path(str(found.locate_file(name))), target_is_directory=True)
