"""Every command that README and the docs show is run, page after page, in one working directory."""

import gzip
import os
import re
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
    "docs/tasks.md",
    "docs/classification.md",
    "docs/conversion.md",
    "docs/compression.md",
    "docs/export.md",
    "docs/budget.md",
    "docs/budget-schema.md",
    "docs/results.md",
    "docs/translate.md",
    "docs/bench.md",
    "docs/bench-schema.md",
    "docs/android.md",
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


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """The files that the pages take for granted: corpora as the reader would have them, made of our own sentences."""
    pairs = (ROOT / "lite_nlp" / "assets" / "everyday.en-de.tsv").read_text(encoding="utf-8").splitlines()
    sides = dict(zip(("en", "de"), zip(*(pair.split("\t") for pair in pairs), strict=True), strict=True))
    (tmp_path / "copies" / "tatoeba").mkdir(parents=True)
    parts = {"train": slice(0, 250), "valid": slice(250, 300), "test": slice(300, 330)}
    parts |= {"copies/tatoeba/train": slice(0, 250), "copies/tatoeba/valid": slice(250, 300)}
    parts |= {"copies/tatoeba/test": slice(300, 330), "more": slice(330, 400)}
    for name, rows in parts.items():
        for language, lines in sides.items():
            (tmp_path / f"{name}.{language}").write_text("\n".join(lines[rows]) + "\n", encoding="utf-8")
    articles = [" ".join(sides["en"][start : start + 8]) for start in range(60)]
    (tmp_path / "news.article").write_text("\n".join(articles) + "\n", encoding="utf-8")
    (tmp_path / "news.highlights").write_text("\n".join(sides["en"][:60]) + "\n", encoding="utf-8")
    (tmp_path / "pairs.tsv").write_text("\n".join(pairs) + "\n", encoding="utf-8")
    (tmp_path / "english.txt").write_text("\n".join(sides["en"][:12]) + "\n", encoding="utf-8")
    (tmp_path / "english.txt.gz").write_bytes(gzip.compress((tmp_path / "english.txt").read_bytes()))
    (tmp_path / "german.txt").write_text("\n".join(sides["de"][:12]) + "\n", encoding="utf-8")
    training = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
    (small,) = re.findall(r"^```toml\n(.*?)^```", training, re.DOTALL | re.MULTILINE)
    (tmp_path / "small.toml").write_text(small, encoding="utf-8")
    return tmp_path


def test_the_commands_of_all_pages_work(workspace: Path) -> None:
    for page in PAGES:
        commands = list(_commands(page))
        assert len(commands) >= FEWEST, page
        for command in commands:
            _check(command, page=page, workspace=workspace)


def _check(command: _Command, *, page: str, workspace: Path) -> None:
    text = command.text
    if text.startswith("make test"):
        # This very run; that the target starts it is all there is to check.
        text += " --dry-run | grep -q 'python -m pytest'"
    done = subprocess.run(
        ["/bin/bash", "-o", "pipefail", "-c", text],
        cwd=ROOT if text.startswith("make ") else workspace,
        env=os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == command.exit_code, f"{page}: {command.text}\n{done.stdout}\n{done.stderr}"


def test_every_page_is_run() -> None:
    pages = {str(path.relative_to(ROOT)) for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]}
    assert pages == set(PAGES)
