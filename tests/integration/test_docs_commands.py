"""Every command that the docs show is run, page after page, in a working directory for each set of pages."""

from pathlib import Path

import pytest

from tests.integration.command_server import command_directory
from tests.integration.pages import ROOT, fill_workspace, run_page

#: In reading order: later pages of a set use what its earlier ones made, and nothing of the other sets.
PAGES = {
    "main": [
        "docs/data.md",
        "docs/training.md",
        "docs/tasks.md",
        "docs/classification.md",
        "docs/distillation.md",
        "docs/compression.md",
        "docs/export.md",
        "docs/budget.md",
        "docs/translate.md",
        "docs/bench.md",
        "docs/bench-schema.md",
        "docs/android.md",
    ],
    "tutorial": ["docs/tutorial.md"],
    "conversion": ["docs/conversion.md", "docs/budget-schema.md", "docs/results.md"],
}

#: Run by tests of their own, or without commands.
ELSEWHERE = ("README.md", "docs/python.md", "docs/architecture.md", "docs/comparison.md", "docs/faq.md")


@pytest.mark.parametrize("pages", PAGES.values(), ids=PAGES)
def test_the_commands_of_all_pages_work(tmp_path: Path, pages: list[str]) -> None:
    fill_workspace(tmp_path)
    with command_directory(tmp_path / "bin") as commands:
        for page in pages:
            run_page(page, workspace=tmp_path, commands=commands)


def test_every_page_is_run() -> None:
    pages = {str(path.relative_to(ROOT)) for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]}
    assert pages == {*(page for found in PAGES.values() for page in found), *ELSEWHERE}
