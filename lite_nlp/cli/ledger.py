"""The ledger of a compression as tables."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.table import Table

from lite_nlp.budget.reporting.compression import KIND_NAMES
from lite_nlp.budget.reporting.plan_tables import compared_table, matrices_table
from lite_nlp.cli.console import out
from lite_nlp.compress.compressed import CompressedModel

if TYPE_CHECKING:
    from lite_nlp.compress.ledger import StageRow
    from lite_nlp.compress.prune.structure import Structure

__all__ = ["print_ledger"]


def print_ledger(compressed: CompressedModel, *, path: bool = True) -> None:
    """Print the ledger as tables that fit 80 columns: stages, paired tests, the plan, the bytes of the final file.

    Args:
        compressed: The ledger.
        path: Whether to print the path of the file to keep too.
    """
    out.print(_stages(compressed))
    if compressed.structure is not None:
        out.print(_removed(compressed.structure, compressed.stages))
    if compressed.stages[-1].against_original.get(compressed.metric.name):
        out.print(_tests(compressed))
    if compressed.reference is not None:
        out.print(_reference(compressed))
    if compressed.plan is not None:
        out.print(compared_table(compressed.plan))
        out.print(matrices_table(compressed.plan))
    out.print(_kinds(compressed))
    if path:
        out.print(str(compressed.path), soft_wrap=True)


def _stages(compressed: CompressedModel) -> Table:
    metric = compressed.metric
    table = _table(f"{compressed.name}, {metric.label} on {compressed.text}", "stage")
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
    return table


def _removed(structure: "Structure", stages: Sequence["StageRow"]) -> Table:
    """What structured pruning removed."""
    gone = 1 - structure.macs_after / structure.macs_before
    title = f"Removed with {gone:.1%} of the Mult-Adds"
    before, after = stages[0].estimated_ms, stages[-1].estimated_ms
    if before is not None and after is not None:
        title += f"; {before:.1f} to {after:.1f} ms an output on a Cortex-A72, estimated"
    table = _table(title, "units", no_wrap=False)
    for heading in ("before", "after", "expected loss"):
        table.add_column(heading, justify="right", no_wrap=True)
    for removal in structure.removed:
        layers = ", ".join(str(position + 1) for position in removal.positions)
        kind = f"{removal.kind} ({layers})" if layers else removal.kind
        table.add_row(kind, f"{removal.before:,}", f"{removal.after:,}", f"{removal.expected_loss:.4f}")
    table.add_row("all, together", "", "", f"{structure.expected_loss:.4f}")
    table.add_row("all, as measured before finetuning", "", "", f"{structure.measured_loss:.4f}")
    return table


def _tests(compressed: CompressedModel) -> Table:
    """The interval of every score, and the paired test against the original."""
    name = compressed.metric.name
    table = _table("95 % intervals, and paired bootstrap against the original", "stage")
    for heading in (compressed.metric.label, "difference", "interval", "p"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in compressed.stages:
        low, high = row.scored.intervals()[name]
        change = row.against_original.get(name)
        test = (
            ("", "", "")
            if change is None
            else (
                f"{change.difference:+.2f}",
                f"{change.low:+.2f} to {change.high:+.2f}",
                f"{change.p:.3f}",
            )
        )
        table.add_row(row.stage, f"{low:.2f} to {high:.2f}", *test)
    return table


def _reference(compressed: CompressedModel) -> Table:
    """The reference model beside the final file."""
    reference, last, metric = compressed.reference, compressed.stages[-1], compressed.metric
    if reference is None:
        raise ValueError("expected a reference")
    table = _table("The reference model, as fp32", "model", no_wrap=False)
    for heading in ("bytes", "ratio", "Mult-Adds", metric.label, "difference", "p"):
        table.add_column(heading, justify="right", no_wrap=True)
    change = last.against_reference.get(metric.name)
    for name, row, ratio, score, test in (
        (reference.name, reference, 1.0, reference.scored.scores.get(metric.name), None),
        (last.file, last, last.reference_ratio, last.scores[metric.name], change),
    ):
        table.add_row(
            name,
            f"{row.size_bytes:,}",
            f"{ratio:.2f}x",
            "" if row.macs is None else f"{row.macs / 1e6:.1f}M",
            "" if score is None else f"{score:.2f}",
            "" if test is None else f"{test.difference:+.2f}",
            "" if test is None else f"{test.p:.3f}",
        )
    return table


def _kinds(compressed: CompressedModel) -> Table:
    """The bytes of the final file by kind."""
    last = compressed.stages[-1]
    table = _table(f"Bytes of {last.file}", "kind")
    for heading in ("bytes", "share"):
        table.add_column(heading, justify="right", no_wrap=True)
    for kind, count in last.bytes_by_kind.items():
        if count:
            table.add_row(KIND_NAMES[kind][0], f"{count:,}", f"{count / last.size_bytes:.1%}")
    return table


def _table(title: str, first: str, *, no_wrap: bool = True) -> Table:
    table = Table(title=title, box=SIMPLE_HEAD, pad_edge=False)
    table.add_column(first, no_wrap=no_wrap)
    return table
