"""The commands, assembled."""

from typing import Annotated

import typer

from lite_nlp.cli.bench import bench
from lite_nlp.cli.budget import budget
from lite_nlp.cli.classify import classify
from lite_nlp.cli.compress import compress
from lite_nlp.cli.convert import app as convert
from lite_nlp.cli.data import app as data
from lite_nlp.cli.distill import distill
from lite_nlp.cli.evaluate import evaluate
from lite_nlp.cli.export import export
from lite_nlp.cli.generate import generate
from lite_nlp.cli.models import models
from lite_nlp.cli.presets import presets
from lite_nlp.cli.report import report
from lite_nlp.cli.train import train
from lite_nlp.cli.translate import translate
from lite_nlp.core.extras import needs_extra
from lite_nlp.core.version import __version__

__all__ = ["app"]

app = typer.Typer(
    name="lite-nlp",
    help="Train, count, compress, export and run small models of text that fit a phone.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)

for command in (
    *(presets, models, budget, train, distill, evaluate, translate, generate, classify),
    *(compress, export, bench, report),
):
    app.command()(command)
app.add_typer(data, name="data")
app.add_typer(convert, name="convert")


def _name_missing_extras(group: typer.Typer, *words: str) -> None:
    """Let every command of a group, and of the groups in it, say which extra it needs."""
    for row in group.registered_commands:
        if row.callback is not None:
            name = row.name or row.callback.__name__.replace("_", "-")
            row.callback = needs_extra(" ".join((*words, name)))(row.callback)
    for inner in group.registered_groups:
        if inner.typer_instance is not None:
            _name_missing_extras(inner.typer_instance, *words, str(inner.name))


_name_missing_extras(app)


def _print_version(value: bool) -> None:
    if value:
        print(__version__)
        raise typer.Exit


@app.callback()
def _options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options of every command."""
