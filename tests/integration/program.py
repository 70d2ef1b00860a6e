"""The program as a tree: every command with its parameters, so that a test cannot leave one out."""

from collections.abc import Iterator
from typing import Any

import typer

from lite_nlp.cli.program import make_program

__all__ = ["commands", "parameters"]


def commands() -> Iterator[tuple[str, Any]]:
    """Every command: its words, and what typer makes of it."""
    return _below((), typer.main.get_command(make_program()))


def parameters(kind: type) -> Iterator[tuple[str, Any]]:
    """Every parameter whose value, or each of its values, is of a kind: the words of its command, and the parameter."""
    for words, command in commands():
        for parameter in command.params:
            annotation = parameter.type_descriptor.annotation
            if kind in (annotation, *getattr(annotation, "__args__", ())):
                yield words, parameter


def _below(words: tuple[str, ...], command: Any) -> Iterator[tuple[str, Any]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield " ".join(words), command
    for name, below in (inner or {}).items():
        yield from _below((*words, name), below)
