"""Lines in, lines out: the input and output of the commands that answer every line with a line."""

import gzip
import io
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from lite_nlp.core.files import atomic_file

__all__ = ["ForceOption", "InputOption", "OutputOption", "open_input", "write_lines"]

InputOption = Annotated[
    Path | None, typer.Option("--input", metavar="FILE", help="Text file, .gz or not; else standard input.")
]
OutputOption = Annotated[
    Path | None, typer.Option("--output", metavar="FILE", help="Text file to write, .gz or not; else standard output.")
]
ForceOption = Annotated[bool, typer.Option("--force", help="Overwrite --output.")]


@contextmanager
def open_input(text: Sequence[str] | None, path: Path | None) -> Iterator[tuple[BinaryIO, str]]:
    """Open the input of a command: ``--text``, ``--input`` or standard input.

    Args:
        text: What each ``--text`` gave, one or more lines; nothing without that option.
        path: What ``--input`` gave.

    Yields:
        The open stream and its name for messages.

    Raises:
        typer.BadParameter: If both are given.
        DataError: If the file cannot be read or is not UTF-8.
    """
    from lite_nlp.decoding.lines import open_lines

    if text and path is not None:
        raise typer.BadParameter("--text and --input: expected one of them, found both")
    if text:
        # The bytes as they were typed: Python escapes those that are not UTF-8 in the argument. Nothing is a line too.
        lines = "\n".join(text)
        yield io.BytesIO(os.fsencode(lines if text[-1] else f"{lines}\n")), "--text"
        return
    with open_lines(path) as opened:
        yield opened


def write_lines(lines: Iterable[str], path: Path | None, *, force: bool) -> None:
    """Write lines to a file, packed if its name ends in ``.gz``, or to standard output, each as soon as it is ready.

    The file appears complete or not at all.

    Raises:
        OutputError: If the system refuses the write.
    """
    if path is None:
        for line in _encoded(lines):
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
        return
    with atomic_file(path, force=force) as partial, partial.open("wb") as file:
        if path.suffix != ".gz":
            file.writelines(_encoded(lines))
            return
        # Without the name of the partial file, and the same bytes whenever it is written.
        with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:
            packed.writelines(_encoded(lines))


def _encoded(lines: Iterable[str]) -> Iterator[bytes]:
    """In UTF-8 whatever the locale."""
    for line in lines:
        yield line.encode("utf-8") + b"\n"
