"""The ledger of a compression as a table."""

from rich.box import SIMPLE_HEAD
from rich.table import Table

from lite_nlp.api.compress import CompressedModel
from lite_nlp.cli.console import out

__all__ = ["print_ledger"]


def print_ledger(compressed: CompressedModel, *, path: bool = True) -> None:
    """Print the ledger as a table that fits 80 columns.

    Args:
        compressed: The ledger.
        path: Whether to print the path of the file to keep too.
    """
    metric = compressed.metric
    table = Table(title=f"{compressed.name}, {metric.label} on {compressed.text}", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("stage", no_wrap=True)
    table.add_column("bytes", justify="right", no_wrap=True)
    # A heading of several words wraps, so that the table fits 80 columns.
    for heading in ("ratio", "sparsity", "bits per weight", "Mult-Adds", metric.label):
        table.add_column(heading, justify="right")
    for row in compressed.stages:
        table.add_row(
            row.stage,
            f"{row.size_bytes:,}",
            f"{row.ratio:.2f}x",
            f"{row.sparsity:.1%}",
            f"{row.bits_per_weight:.2f}",
            "" if row.macs is None else f"{row.macs / 1e6:.1f}M",
            f"{row.scores[metric.name]:.2f}",
        )
    out.print(table)
    if path:
        out.print(str(compressed.path), markup=False, soft_wrap=True)
