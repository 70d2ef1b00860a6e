"""The Python package's command line, as the suites run it."""

from pathlib import Path

from tools.base.layout import ROOT
from tools.base.steps import list_files

__all__ = ["PROGRAM", "package_sources"]

#: What `python -c` takes before the words of the command.
PROGRAM = "from lite_nlp.cli.main import main; main()"


def package_sources() -> list[Path]:
    """The Python files that its results depend on."""
    return list_files(*(ROOT / name for name in ("lite_nlp", "compress", "export")), pattern="*.py")
