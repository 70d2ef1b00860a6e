"""Every command that README and the docs show is run, page after page, in one working directory."""

import gzip
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

#: In reading order: later pages use what the earlier ones made.
PAGES = [
    "docs/data.md",
    "docs/training.md",
    "docs/budget.md",
    "docs/compression.md",
    "docs/export.md",
    "docs/translate.md",
    "README.md",
]

#: Shown so often that every page must have at least this many commands.
FEWEST = 3


@dataclass(frozen=True)
class _Command:
    text: str
    exit_code: int


def _commands(page: str) -> Iterator[_Command]:
    """The lines of the page's ``bash`` blocks; a block headed ``bash not-run`` needs what a test cannot have."""
    for block in re.findall(
        r"^```bash\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    ):
        for line in block.replace("\\\n", " ").splitlines():
            if line.strip():
                stated = re.search(r"# exits with (\d+)", line)
                yield _Command(line, int(stated[1]) if stated else 0)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the pages take for granted: corpora as the reader would have them, made of our own sentences."""
    path = tmp_path_factory.mktemp("reader")
    pairs = (ROOT / "lite_nlp" / "assets" / "everyday.en-de.tsv").read_text(encoding="utf-8").splitlines()
    sides = dict(zip(("en", "de"), zip(*(pair.split("\t") for pair in pairs), strict=True), strict=True))
    (path / "copies" / "tatoeba").mkdir(parents=True)
    parts = {"train": slice(0, 250), "valid": slice(250, 300), "test": slice(300, 330)}
    parts |= {"copies/tatoeba/train": slice(0, 250), "copies/tatoeba/valid": slice(250, 300)}
    parts |= {"copies/tatoeba/test": slice(300, 330), "more": slice(330, 400)}
    for name, rows in parts.items():
        for language, lines in sides.items():
            (path / f"{name}.{language}").write_text("\n".join(lines[rows]) + "\n", encoding="utf-8")
    (path / "pairs.tsv").write_text("\n".join(pairs) + "\n", encoding="utf-8")
    (path / "english.txt").write_text("\n".join(sides["en"][:12]) + "\n", encoding="utf-8")
    (path / "english.txt.gz").write_bytes(gzip.compress((path / "english.txt").read_bytes()))
    (path / "german.txt").write_text("\n".join(sides["de"][:12]) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_the_page_work(page: str, workspace: Path) -> None:
    commands = list(_commands(page))
    assert len(commands) >= FEWEST
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for command in commands:
        where = ROOT if command.text.startswith("make ") else workspace
        if command.text.startswith("make test"):
            # This very run; that the target starts it is all there is to check.
            command = _Command(f"{command.text} --dry-run | grep -q 'python -m pytest'", 0)
        done = subprocess.run(
            ["/bin/bash", "-o", "pipefail", "-c", command.text],
            cwd=where,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == command.exit_code, f"{command.text}\n{done.stdout}\n{done.stderr}"


def test_every_page_is_run() -> None:
    pages = {str(path.relative_to(ROOT)) for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]}
    assert pages == set(PAGES)


def test_make_is_there() -> None:
    assert shutil.which("make")
