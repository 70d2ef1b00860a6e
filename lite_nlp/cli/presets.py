"""``lite-nlp presets``: the configurations that come with the package."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from lite_nlp.cli.console import out, print_json
from lite_nlp.configs import list_presets

if TYPE_CHECKING:
    from lite_nlp.config.preset import Config

__all__ = ["presets"]


def presets(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List the presets: name, the paper, table and row that each reproduces, and its model family."""
    from lite_nlp.config.preset import load_config

    configs = [load_config(name) for name in list_presets()]
    if as_json:
        rows = [
            {
                "name": config.name,
                "paper": _paper(config),
                "table": config.reproduces.table if config.reproduces else None,
                "row": config.reproduces.row if config.reproduces else None,
                "family": config.model.family,
            }
            for config in configs
        ]
        print_json({"presets": rows})
        return
    papers = dict.fromkeys(_paper(config) for config in configs)
    for paper in papers:
        out.print(_table(paper, [config for config in configs if _paper(config) == paper]))


def _paper(config: "Config") -> str | None:
    return config.reproduces.paper if config.reproduces else None


def _table(paper: str | None, configs: "list[Config]") -> Table:
    """The presets of one paper, or those that reproduce none."""
    table = Table(title=paper or "Reproduce no published row", title_justify="left")
    table.add_column("name", no_wrap=True)
    for heading in ("family", "table", "row"):
        table.add_column(heading)
    for config in configs:
        published = config.reproduces
        table.add_row(config.name, config.model.family, *((published.table, published.row) if published else ()))
    return table
