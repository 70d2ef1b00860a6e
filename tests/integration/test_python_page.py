"""The Python of docs/python.md runs section by section, beside user files that have the names of our folders."""

import re
import subprocess
import sys
from pathlib import Path

from tests.integration.pages import ROOT, fill_workspace


def test_the_sections_of_the_python_page_run(tmp_path: Path) -> None:
    fill_workspace(tmp_path)
    text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    sections = {
        part.partition("\n")[0]: re.findall(r"```python\n(.*?)```", part, re.DOTALL) for part in text.split("\n## ")
    }
    scripts = {title: "\n".join(blocks) for title, blocks in sections.items() if blocks}
    assert len(scripts) == 6
    for title, script in scripts.items():
        done = subprocess.run(
            [sys.executable, "-W", "error::SyntaxWarning", "section.py"],
            cwd=_user_directory(tmp_path, script),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{title}\n{done.stdout}\n{done.stderr}"
        for line, shown in re.findall(r"^(print\(.*\))  # (.+)$", script, re.MULTILINE):
            if shown[0].isdigit() or shown == "True":
                assert shown in done.stdout.splitlines(), f"{title}: {line}\n{done.stdout}"


def _user_directory(workspace: Path, script: str) -> Path:
    """The workspace with the script in it, and files of a user's that have the names of our folders."""
    for name in ("export", "compress", "config"):
        (workspace / f"{name}.py").write_text(f"raise RuntimeError('the user's own {name}.py was imported')\n")
    (workspace / "section.py").write_text(script, encoding="utf-8")
    return workspace
