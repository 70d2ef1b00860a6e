"""Every command that the docs show is run, page after page, in one working directory."""

from pathlib import Path

from tests.integration.command_server import command_directory
from tests.integration.pages import ROOT, fill_workspace, run_page

#: In reading order: later pages use what the earlier ones made.
PAGES = [
    "docs/tutorial.md",
    "docs/data.md",
    "docs/training.md",
    "docs/tasks.md",
    "docs/classification.md",
    "docs/distillation.md",
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
]

#: Run by tests of their own, or without commands.
ELSEWHERE = ("README.md", "docs/python.md", "docs/architecture.md", "docs/comparison.md", "docs/faq.md")


def test_the_commands_of_all_pages_work(tmp_path: Path) -> None:
    fill_workspace(tmp_path)
    with command_directory(tmp_path / "bin") as commands:
        for page in PAGES:
            run_page(page, workspace=tmp_path, commands=commands)


def test_every_page_is_run() -> None:
    pages = {str(path.relative_to(ROOT)) for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]}
    assert pages == {*PAGES, *ELSEWHERE}
