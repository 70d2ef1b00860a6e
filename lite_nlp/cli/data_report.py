"""Output of ``lite-nlp data prepare``: skipped lines, lines in two splits, counts."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.table import Table

from lite_nlp.cli.console import err, out, print_json, warn
from lite_nlp.data.sources import MEANINGS
from lite_nlp.tasks.usefulness import excluded_warnings, overlap_warnings

if TYPE_CHECKING:
    from lite_nlp.data.labelled.directory import LabelledInfo, LabelledSplitInfo
    from lite_nlp.data.pairs.directory import PairInfo, PairSplitInfo
    from lite_nlp.data.text.directory import TextInfo, TextSplitInfo

__all__ = ["print_info", "warn_overlap", "warn_skipped"]

#: Lines in two splits that are shown, and how they are the same.
_NAMED: Final[dict[str, str]] = {"exact": "the same", "near": "nearly the same", "source": "the source alone"}

#: Columns of every table, at its end.
_LAST_COLUMNS: Final = ("skipped", "overlap", "near", "dropped")

#: Most labels with a column of their own.
_MOST_LABELS: Final = 6


def warn_skipped(info: "PairInfo | TextInfo | LabelledInfo") -> None:
    """Warn about skipped lines on stderr, with examples, and say what to do where most lines of a file were skipped."""
    for name, split in info.splits.items():
        for reason, lines in split.skipped.items():
            meaning = MEANINGS.get(reason, "")
            warn(f"{name}: {lines.count:,} skipped, {reason}: {meaning}")
            for example in lines.examples:
                err.print(f"  {example.place}: {example.text}", soft_wrap=True)
            if lines.advice is not None:
                err.print(f"  {lines.advice}", soft_wrap=True)


def warn_overlap(info: "PairInfo | TextInfo | LabelledInfo") -> None:
    """Warn on stderr about lines of valid or test that stand in other splits, with examples."""
    for warning in _warnings(info):
        warn(warning)
    for split in info.splits.values():
        for other, overlap in split.overlaps.items():
            for example in overlap.examples:
                if example.kind in _NAMED:
                    own, others = example.places
                    line = f"  {own} stands in {other} as {others} ({_NAMED[example.kind]}): {example.text}"
                    err.print(line, soft_wrap=True)


def print_info(path: Path, info: "PairInfo | TextInfo | LabelledInfo", *, as_json: bool) -> None:
    """Print the facts of a new directory, as a table or as JSON."""
    if as_json:
        facts = info.model_dump(exclude={"schema_version"})
        print_json({"data": str(path), **facts, "warnings": _warnings(info)})
    elif info.kind == "pairs":
        out.print(_pairs_table(path, info))
    elif info.kind == "text":
        out.print(_text_table(path, info))
    else:
        out.print(_labelled_table(path, info))


def _warnings(info: "PairInfo | TextInfo | LabelledInfo") -> list[str]:
    train = info.splits["train"]
    return [
        *excluded_warnings(train.excluded, _items(train)),
        *(warning for name, split in info.splits.items() for warning in overlap_warnings(name, split.overlaps)),
    ]


def _items(split: "PairSplitInfo | TextSplitInfo | LabelledSplitInfo") -> int:
    """The number of what a split is made of: pairs, lines or examples."""
    return int(next(iter(split.model_dump(include={"pairs", "lines", "examples"}).values())))


def _pairs_table(path: Path, info: "PairInfo") -> Table:
    columns = ("pairs", f"{info.src_lang} tokens", f"{info.tgt_lang} tokens", *_LAST_COLUMNS)
    table = _table(f"{path}: {info.src_lang} -> {info.tgt_lang}", info, columns)
    for name, split in info.splits.items():
        _add_counts(table, name, (split.pairs, split.src_tokens, split.tgt_tokens, *_last_counts(split)))
    return table


def _text_table(path: Path, info: "TextInfo") -> Table:
    table = _table(f"{path}: running text", info, ("lines", "words", "bytes", "tokens", *_LAST_COLUMNS))
    for name, split in info.splits.items():
        _add_counts(table, name, (split.lines, split.words, split.bytes, split.tokens, *_last_counts(split)))
    return table


def _labelled_table(path: Path, info: "LabelledInfo") -> Table:
    """The counts of labelled examples, also by label if there are few labels."""
    shown = info.labels if len(info.labels) <= _MOST_LABELS else []
    title = f"{path}: {len(info.labels)} labels, sentences: {info.sentences}"
    table = _table(title, info, ("examples", *shown, "tokens", *_LAST_COLUMNS))
    for name, split in info.splits.items():
        tokens = split.first_tokens + split.second_tokens
        by_label = [split.by_label[label] for label in shown]
        _add_counts(table, name, (split.examples, *by_label, tokens, *_last_counts(split)))
    return table


def _last_counts(split: "PairSplitInfo | TextSplitInfo | LabelledSplitInfo") -> tuple[int, ...]:
    skipped = sum(lines.count for lines in split.skipped.values())
    return skipped, split.overlapping, split.near_duplicates, split.dropped


def _table(title: str, info: "PairInfo | TextInfo | LabelledInfo", columns: Iterable[str]) -> Table:
    table = Table(title=f"{title}, {info.tokenizer.vocab_size:,} tokens")
    table.add_column("split")
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _add_counts(table: Table, split: str, counts: Iterable[int]) -> None:
    table.add_row(split, *(f"{count:,}" for count in counts))
