"""Pages that commands write, with the command line in their footer."""

import shlex
import sys
from pathlib import Path

from lite_nlp.cli.console import err
from lite_nlp.core.display import displayable
from lite_nlp.core.files import write_text

__all__ = ["command_line", "write_page"]


def command_line() -> str:
    """The command line of this process, quoted for a shell."""
    return displayable(shlex.join(["lite-nlp", *sys.argv[1:]]))


def write_page(path: Path, content: str, *, force: bool) -> None:
    """Write a page and report its path on stderr.

    Raises:
        OutputError: If another process wrote it in the meantime and ``force`` is false, or the system refuses.
    """
    write_text(path, content, force=force)
    err.print(f"wrote {path}", soft_wrap=True)
