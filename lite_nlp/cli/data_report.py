"""What ``lite-nlp data prepare`` shows: progress, skipped lines, counts."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.markup import escape
from rich.table import Table

from lite_nlp.cli.console import err, out, progress_bar

if TYPE_CHECKING:
    from lite_nlp.data.holdout import SplitName
    from lite_nlp.data.labelled.directory import LabelledInfo, LabelledSplitInfo
    from lite_nlp.data.pairs.directory import DataInfo, SplitInfo
    from lite_nlp.data.pairs.prepare import OnProgress
    from lite_nlp.data.text.directory import TextInfo, TextSplitInfo

__all__ = ["print_examples", "print_pairs", "print_text", "report_progress", "warn_skipped"]

#: With more labels than this, a table does not count each.
_MOST_LABELS: Final = 6


@contextmanager
def report_progress() -> Iterator["OnProgress"]:
    """Show each stage as a bar on stderr."""
    with progress_bar() as bar:
        tasks = {}

        def show(stage: str, done: int, total: int | None) -> None:
            if stage not in tasks:
                tasks[stage] = bar.add_task(stage, total=total)
            bar.update(tasks[stage], completed=done, total=total)

        yield show


def warn_skipped(splits: "Mapping[SplitName, SplitInfo | LabelledSplitInfo | TextSplitInfo]") -> None:
    """Say on stderr which lines were skipped."""
    for name, split in splits.items():
        for reason, lines in split.skipped.items():
            shown = ", ".join(lines.first) + (", ..." if lines.count > len(lines.first) else "")
            err.print(f"warning: {name}: {lines.count:,} skipped, {reason}: {shown}", markup=False, soft_wrap=True)


def print_pairs(path: Path, info: "DataInfo") -> None:
    """The counts of sentence pairs."""
    table = Table(
        title=f"{escape(str(path))}: {info.src_lang} -> {info.tgt_lang}, {info.tokenizer.vocab_size:,} tokens"
    )
    table.add_column("split")
    for column in ("pairs", f"{info.src_lang} tokens", f"{info.tgt_lang} tokens", "skipped", "overlapping"):
        table.add_column(column, justify="right")
    for name, split in info.splits.items():
        skipped = sum(lines.count for lines in split.skipped.values())
        counts = (split.pairs, split.src_tokens, split.tgt_tokens, skipped, split.overlapping)
        table.add_row(name, *(f"{count:,}" for count in counts))
    out.print(table)


def print_text(path: Path, info: "TextInfo") -> None:
    """The counts of running text."""
    table = Table(title=f"{escape(str(path))}: running text, {info.tokenizer.vocab_size:,} tokens")
    table.add_column("split")
    for column in ("lines", "words", "bytes", "tokens", "skipped"):
        table.add_column(column, justify="right")
    for name, split in info.splits.items():
        skipped = sum(lines.count for lines in split.skipped.values())
        counts = (split.lines, split.words, split.bytes, split.tokens, skipped)
        table.add_row(name, *(f"{count:,}" for count in counts))
    out.print(table)


def print_examples(path: Path, info: "LabelledInfo") -> None:
    """The counts of labelled examples, those of each label among them where there are few."""
    shown = info.labels if len(info.labels) <= _MOST_LABELS else []
    table = Table(
        title=f"{escape(str(path))}: {len(info.labels)} labels, sentences: {info.sentences}, "
        f"{info.tokenizer.vocab_size:,} tokens"
    )
    table.add_column("split")
    for column in ("examples", *map(escape, shown), "tokens", "skipped", "overlapping"):
        table.add_column(column, justify="right")
    for name, split in info.splits.items():
        skipped = sum(lines.count for lines in split.skipped.values())
        by_label = [split.by_label[label] for label in shown]
        counts = (split.examples, *by_label, split.first_tokens + split.second_tokens, skipped, split.overlapping)
        table.add_row(name, *(f"{count:,}" for count in counts))
    out.print(table)
