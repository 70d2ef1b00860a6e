"""Options of ``lite-nlp data prepare`` that take files."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import typer
from typer.core import TyperCommand

__all__ = ["AlignedOptionsCommand", "Files", "aligned", "aligned_option", "files_option"]

#: Value of an option that may be repeated.
Files = list[Path] | None

_ALIGNED: Final = ("--train", "--valid", "--test")


def files_option(name: str, description: str) -> Any:
    """An option that takes a file and may be repeated."""
    return typer.Option(name, metavar="FILE", help=description)


def aligned_option(description: str) -> Any:
    """An option that takes two aligned files and may be repeated, of an :class:`AlignedOptionsCommand`."""
    return typer.Option(metavar="SRC TGT", help=description)


def aligned(option: str, paths: Files) -> list[tuple[Path, Path]]:
    """The pairs of files given for ``option``.

    Raises:
        typer.BadParameter: If one has no partner.
    """
    paths = paths or []
    if len(paths) % 2:
        raise _no_partner(option)
    return list(zip(paths[::2], paths[1::2], strict=True))


class AlignedOptionsCommand(TyperCommand):
    """A command whose ``--train``, ``--valid`` and ``--test`` take two files and may be repeated.

    The command-line library knows options of two values and options that repeat, not both at once: the two values are
    handed to it as two options of one value.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; see :class:`click.Command`."""
        return super().parse_args(ctx, list(_one_value_each(args)))


def _one_value_each(args: Sequence[str]) -> Iterator[str]:
    rest = iter(args)
    for arg in rest:
        yield arg
        if arg in _ALIGNED:
            src, tgt = next(rest, None), next(rest, None)
            if src is None or tgt is None or src.startswith("--") or tgt.startswith("--"):
                raise _no_partner(arg)
            yield from (src, arg, tgt)


def _no_partner(option: str) -> typer.BadParameter:
    return typer.BadParameter(f"{option} requires two files, SRC and TGT.")
