"""The commands, assembled: all of them, or the one that is run, so that no other is imported."""

from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Final

import typer

from lite_nlp.core.version import __version__

__all__ = ["command_name", "make_program"]

#: In the order of the help. Each is a function of its name in the module of its name.
_COMMANDS: Final = (
    *("presets", "models", "budget", "train", "distill", "evaluate", "translate", "generate", "classify"),
    *("compress", "export", "bench", "report"),
)

#: Commands with commands of their own: each is the ``app`` of the module of its name.
_GROUPS: Final = ("data", "convert")

_NAMES: Final = (*_COMMANDS, *_GROUPS)


def command_name(words: Sequence[str]) -> str:
    """The command that a command line names, such as ``data prepare``, as far as there is one."""
    names = [word for word in words if not word.startswith("-")]
    if not names or names[0] not in _NAMES:
        return "lite-nlp"
    return " ".join(names[: 2 if names[0] in _GROUPS else 1])


def make_program(words: Sequence[str] = ()) -> typer.Typer:
    """The program that a command line needs.

    Args:
        words: The command line. If its first word is a command, the program has that one alone; else, as for the help
            or for what a misspelt one may mean, all of them.
    """
    program = typer.Typer(
        name="lite-nlp",
        help="Train, count, compress, export and run small models of text that fit a phone.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        add_completion=False,
    )
    named = command_name(words).partition(" ")[0]
    for name in (named,) if named in _NAMES else _NAMES:
        module = import_module(f"lite_nlp.cli.{name}")
        if name in _GROUPS:
            program.add_typer(module.app, name=name)
        else:
            program.command()(getattr(module, name))
    program.callback()(_options)
    return program


def _print_version(value: bool) -> None:
    if value:
        print(__version__)
        raise typer.Exit


def _options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options of every command."""
