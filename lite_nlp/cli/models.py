"""``lite-nlp models``: the models that come with the package."""

from typing import Annotated

import typer
from rich.table import Table

from lite_nlp.artifacts.models import DEFAULT_MODEL, list_shipped
from lite_nlp.cli.console import out, print_json

__all__ = ["models"]


def models(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List the shipped models: name, size, task, scores and path."""
    shipped = list_shipped()
    if as_json:
        rows = [
            {
                "name": model.name,
                "path": str(model.path),
                "size_bytes": model.path.stat().st_size,
                "default": model.name == DEFAULT_MODEL,
                **model.card,
            }
            for model in shipped
        ]
        print_json({"models": rows})
        return
    table = Table("name", "task", "bytes", "scores")
    for model in shipped:
        scores = "\n".join(
            f"{test}: BLEU {score['bleu']:.1f}, chrF {score['chrf']:.1f}"
            for test, score in model.card["scores"].items()
        )
        table.add_row(model.name, model.card["task"], f"{model.path.stat().st_size:,}", scores)
    out.print(table)
    for model in shipped:
        out.print(f"{model.name}: {model.path}", soft_wrap=True, highlight=False)
