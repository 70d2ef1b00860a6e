"""``lite-nlp presets``: the configurations that come with the package."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from lite_nlp.cli.console import out, print_json

if TYPE_CHECKING:
    from lite_nlp.config.preset import Config

__all__ = ["presets"]


def presets(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List the presets: name, the paper, table and row that each reproduces, and its model family."""
    from lite_nlp.config.preset import load_presets

    configs = load_presets()
    if as_json:
        print_json({"presets": [_to_json(config) for config in configs]})
    else:
        out.print(*_tables(configs), sep="")


def _to_json(config: "Config") -> dict[str, Any]:
    published = config.reproduces
    return {
        "name": config.name,
        "paper": published.paper if published else None,
        "table": published.table if published else None,
        "row": published.row if published else None,
        "family": config.model.family,
    }


def _tables(configs: "Sequence[Config]") -> Iterator[Table]:
    """One table per paper, and one for presets that reproduce no row."""
    papers = [config.reproduces.paper if config.reproduces else None for config in configs]
    for paper in dict.fromkeys(papers):
        table = Table("name", "family", "table", "row", title=paper or "No published row", title_justify="left")
        table.columns[0].no_wrap = True
        for config, its_paper in zip(configs, papers, strict=True):
            if its_paper == paper:
                published = config.reproduces
                cells = (published.table, published.row) if published else ()
                table.add_row(config.name, config.model.family, *cells)
        yield table
