"""Every command of README is run, in a directory that has nothing but the reader's own corpus, by what is installed."""

import sys
from pathlib import Path

from tests.integration.pages import fill_workspace, run_page


def test_the_commands_of_readme_work(tmp_path: Path) -> None:
    fill_workspace(tmp_path)
    run_page("README.md", workspace=tmp_path, commands=Path(sys.executable).parent)
