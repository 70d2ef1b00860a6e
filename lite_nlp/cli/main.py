"""Assembly of the commands, and the exit codes of the project's errors."""

import sys
import traceback
from typing import Annotated, Final

import typer

from lite_nlp.cli.bench import bench
from lite_nlp.cli.budget import budget
from lite_nlp.cli.compress import compress
from lite_nlp.cli.console import err
from lite_nlp.cli.convert import app as convert
from lite_nlp.cli.data import app as data
from lite_nlp.cli.evaluate import evaluate
from lite_nlp.cli.export import export
from lite_nlp.cli.models import models
from lite_nlp.cli.presets import presets
from lite_nlp.cli.report import report
from lite_nlp.cli.train import train
from lite_nlp.cli.translate import translate
from lite_nlp.core.errors import LiteNlpError, OverBudgetError, UsageError
from lite_nlp.core.extras import needs_extra
from lite_nlp.core.version import __version__

__all__ = ["app", "main"]

app = typer.Typer(
    name="lite-nlp",
    help="Train, count, compress, export and run small text-to-text models that fit a phone.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)

#: Errors with another exit code than 1.
_EXIT_CODES: Final = {UsageError: 2, OverBudgetError: 3}

for command in (presets, models, budget, train, evaluate, translate, compress, export, bench, report):
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


def main() -> None:
    """Run the command line. Exit codes: 0 done, 1 failed, 2 wrong usage, 3 over budget."""
    debug = "--debug" in sys.argv[1:]
    if debug:
        # Accepted anywhere on the line, since people add it to the end of the command that just failed.
        sys.argv = [sys.argv[0], "--debug", *(word for word in sys.argv[1:] if word != "--debug")]
    try:
        app()
    except LiteNlpError as error:
        _fail(error, debug=debug)
    except BrokenPipeError:
        # The reader of our output has closed the pipe (`| head`).
        sys.stdout = None
        raise SystemExit(1) from None


def _fail(error: LiteNlpError, *, debug: bool) -> None:
    if debug:
        traceback.print_exc()
    # An excess is a result of several lines; everything else is an error.
    prefix = "" if isinstance(error, OverBudgetError) else "error: "
    err.print(f"{prefix}{error}", markup=False, soft_wrap=True)
    raise SystemExit(next((code for kind, code in _EXIT_CODES.items() if isinstance(error, kind)), 1))
