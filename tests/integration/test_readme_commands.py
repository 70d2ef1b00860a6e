"""Every command of README is run, in a directory that has nothing but the reader's own corpus.

``make demo`` runs the ``lite-nlp`` that is installed; for the others a process that has imported torch stands in.
"""

from pathlib import Path

from tests.integration.command_server import command_directory
from tests.integration.pages import fill_workspace, run_page


def test_the_commands_of_readme_work(tmp_path: Path) -> None:
    fill_workspace(tmp_path)
    with command_directory(tmp_path / "bin") as commands:
        run_page("README.md", workspace=tmp_path, commands=commands)
