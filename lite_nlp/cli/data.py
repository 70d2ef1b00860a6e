"""``lite-nlp data``: corpora to data directories."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.markup import escape
from rich.table import Table
from typer.core import TyperCommand

from lite_nlp.cli.console import err, out, print_json, progress_bar

if TYPE_CHECKING:
    from lite_nlp.data.corpus import DataInfo
    from lite_nlp.data.prepare import Corpus, OnProgress

__all__ = ["app"]

app = typer.Typer(help="Prepare corpora for training and evaluation.", no_args_is_help=True)

_PAIR_OPTIONS: Final = ("--train", "--valid", "--test")


class Normalization(StrEnum):
    """Unicode normalization forms of the tokenizer."""

    NONE = "none"
    NFC = "nfc"
    NFKC = "nfkc"


class _PairOptionsCommand(TyperCommand):
    """A command whose ``--train``, ``--valid`` and ``--test`` take two files and may be repeated.

    The command-line library knows options of two values and options that repeat, not both at once: the two values are
    handed to it as two options of one value.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, list(_one_value_each(args)))


def _one_value_each(args: Sequence[str]) -> Iterator[str]:
    rest = iter(args)
    for arg in rest:
        yield arg
        if arg in _PAIR_OPTIONS:
            src, tgt = next(rest, None), next(rest, None)
            if src is None or tgt is None or src.startswith("--") or tgt.startswith("--"):
                raise typer.BadParameter(f"{arg} requires two files, SRC and TGT.")
            yield from (src, arg, tgt)


def _files(option: str, paths: list[Path] | None) -> list[tuple[Path, Path]]:
    paths = paths or []
    if len(paths) % 2:
        raise typer.BadParameter(f"{option} requires two files, SRC and TGT.")
    return list(zip(paths[::2], paths[1::2], strict=True))


@app.callback()
def _data() -> None:
    """Prepare corpora for training and evaluation."""


@app.command(cls=_PairOptionsCommand)
def prepare(
    out_dir: Annotated[Path, typer.Option("--out", metavar="DIR", help="The data directory to write.")],
    train: Annotated[
        list[Path] | None,
        typer.Option(metavar="SRC TGT", help="Two aligned text files, plain or .gz, to train on; repeat to add more."),
    ] = None,
    valid: Annotated[list[Path] | None, typer.Option(metavar="SRC TGT", help="The same, to validate on.")] = None,
    test: Annotated[list[Path] | None, typer.Option(metavar="SRC TGT", help="The same, to test on.")] = None,
    tsv: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Text file with source, tab, target on each line, plain or .gz; repeatable."),
    ] = None,
    src_lang: Annotated[str | None, typer.Option(help="Source language; else from the corpus or file name.")] = None,
    tgt_lang: Annotated[str | None, typer.Option(help="Target language; else from the corpus or file name.")] = None,
    vocab_size: Annotated[int, typer.Option(help="Tokens of the joint vocabulary.")] = 8000,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Lowercase the text.")] = False,
    normalization: Annotated[Normalization, typer.Option(help="Unicode normalization.")] = Normalization.NONE,
    tokenizer: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Use this tokenizer.json instead of training one.")
    ] = None,
    valid_pairs: Annotated[
        int | None, typer.Option(min=0, help="Pairs to hold out of the training text for validation, 0 for none.")
    ] = None,
    test_pairs: Annotated[
        int | None, typer.Option(min=0, help="Pairs to hold out of the training text for test, 0 for none.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing data directory.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the counts as JSON.")] = False,
) -> None:
    """Tokenize a corpus into a data directory and report the lines that cannot be used."""
    from lite_nlp.data.prepare import PrepareOptions, prepare_data
    from lite_nlp.data.tokenizer import Tokenizer

    if bool(train) + bool(tsv) != 1:
        raise typer.BadParameter("exactly one of --train and --tsv is required.")
    corpus = _corpus_of_files(_files("--train", train), _files("--valid", valid), _files("--test", test), tsv or [])
    options = PrepareOptions(
        src_lang=src_lang or "src",
        tgt_lang=tgt_lang or "tgt",
        vocab_size=vocab_size,
        lowercase=lowercase,
        normalization=normalization.value,
        tokenizer=None if tokenizer is None else Tokenizer.load(tokenizer),
    )
    with _progress() as on_progress:
        info = prepare_data(out_dir, corpus, options=options, force=force, on_progress=on_progress)
    _warn(info)
    if json:
        print_json({"data": str(out_dir), **info.model_dump(exclude={"schema_version"})})
    else:
        _print_table(out_dir, info)


def _corpus_of_files(
    train: list[tuple[Path, Path]], valid: list[tuple[Path, Path]], test: list[tuple[Path, Path]], tsv: list[Path]
) -> "Corpus":
    from lite_nlp.data.prepare import Corpus
    from lite_nlp.data.readers import PairSource, TextFiles, TsvFile

    splits: dict[str, list[PairSource]] = {"train": [*map(TsvFile, tsv), *(TextFiles(*files) for files in train)]}
    for name, files in (("valid", valid), ("test", test)):
        if files:
            splits[name] = [TextFiles(*pair) for pair in files]
    return Corpus(splits=splits)


@contextmanager
def _progress() -> Iterator["OnProgress"]:
    """Show each stage as a bar on stderr."""
    with progress_bar() as bar:
        tasks = {}

        def show(stage: str, done: int, total: int | None) -> None:
            if stage not in tasks:
                tasks[stage] = bar.add_task(stage, total=total)
            bar.update(tasks[stage], completed=done, total=total)

        yield show


def _warn(info: "DataInfo") -> None:
    """Say on stderr which lines were skipped."""
    for name, split in info.splits.items():
        for reason, lines in split.skipped.items():
            shown = ", ".join(lines.first) + (", ..." if lines.count > len(lines.first) else "")
            err.print(f"warning: {name}: {lines.count:,} skipped, {reason}: {shown}", markup=False, soft_wrap=True)


def _print_table(path: Path, info: "DataInfo") -> None:
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
