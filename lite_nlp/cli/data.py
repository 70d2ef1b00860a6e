"""``lite-nlp data``: corpora to data directories."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.markup import escape
from rich.table import Table
from typer.core import TyperCommand

from lite_nlp.cli.console import err, out, print_json, progress_bar
from lite_nlp.files import check_output

if TYPE_CHECKING:
    from lite_nlp.data.corpus import DataInfo
    from lite_nlp.data.holdout import SplitName
    from lite_nlp.data.prepare import Corpus, OnProgress
    from lite_nlp.data.readers import PairSource

__all__ = ["PUBLISHED", "app"]

app = typer.Typer(help="Prepare corpora for training and evaluation.", no_args_is_help=True)

_PAIR_OPTIONS: Final = ("--train", "--valid", "--test")

#: Names of the published corpora; listed here, since what knows them takes long to import.
PUBLISHED: Final = ("multi30k", "tatoeba", "iwslt14", "wmt14-en-de", "wmt14-en-fr", "shakespeare")

#: Source and target files by split.
_Files = Mapping[str, list[tuple[Path, Path]]]


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


def _pairs(option: str, paths: list[Path] | None) -> list[tuple[Path, Path]]:
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
    corpus: Annotated[
        str | None, typer.Option(metavar="NAME", help="A published corpus: " + ", ".join(PUBLISHED) + ".")
    ] = None,
    from_dir: Annotated[
        Path | None, typer.Option("--from", metavar="DIR", help="Read the corpus from this copy, without a download.")
    ] = None,
    cache: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep downloads here.", envvar="LITE_NLP_CACHE")
    ] = None,
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

    files = {name: _pairs(f"--{name}", paths) for name, paths in (("train", train), ("valid", valid), ("test", test))}
    held_out = {"valid": valid_pairs, "test": test_pairs}
    _check_usage(files, held_out, tsv=tsv, corpus=corpus, from_dir=from_dir)
    check_output(out_dir, force=force)
    known = None if tokenizer is None else Tokenizer.load(tokenizer)
    with _progress() as on_progress:
        if corpus is None:
            text = _corpus_of_files(files, held_out, tsv or [])
            languages = _languages_of_files(files["train"], src_lang, tgt_lang)
        else:
            text, languages = _published_corpus(corpus, from_dir, cache, (src_lang, tgt_lang), on_progress)
        options = PrepareOptions(
            src_lang=languages[0],
            tgt_lang=languages[1],
            vocab_size=vocab_size,
            lowercase=lowercase,
            normalization=normalization.value,
            tokenizer=known,
        )
        info = prepare_data(out_dir, text, options=options, force=force, on_progress=on_progress)
    _warn(info)
    if json:
        print_json({"data": str(out_dir), **info.model_dump(exclude={"schema_version"})})
    else:
        _print_table(out_dir, info)


def _check_usage(
    files: _Files, held_out: Mapping[str, int | None], *, tsv: Any, corpus: str | None, from_dir: Path | None
) -> None:
    if bool(files["train"]) + bool(tsv) + (corpus is not None) != 1:
        raise typer.BadParameter("exactly one of --train, --tsv and --corpus is required.")
    if corpus is not None and corpus not in PUBLISHED:
        raise typer.BadParameter(f"--corpus: expected one of {', '.join(PUBLISHED)}, found {corpus}.")
    if corpus is None and from_dir is not None:
        raise typer.BadParameter("--from needs --corpus.")
    for name in ("valid", "test"):
        if corpus is not None and (files[name] or held_out[name] is not None):
            raise typer.BadParameter(f"--{name} and --{name}-pairs do not go with --corpus, which has its own splits.")
        if files[name] and held_out[name] is not None:
            raise typer.BadParameter(f"--{name} and --{name}-pairs exclude each other.")


def _corpus_of_files(files: _Files, held_out: Mapping[str, int | None], tsv: list[Path]) -> "Corpus":
    from lite_nlp.data.holdout import HoldOut
    from lite_nlp.data.prepare import Corpus
    from lite_nlp.data.readers import TextFiles, TsvFile

    splits: dict[SplitName, list[PairSource]] = {"train": [*map(TsvFile, tsv)]}
    names: tuple[SplitName, ...] = ("train", "valid", "test")
    for name in names:
        splits.setdefault(name, []).extend(TextFiles(*pair, check_ratio=name == "train") for pair in files[name])
    # Who brings a split of their own wants no other, unless they say how many pairs.
    default = 0 if splits["valid"] or splits["test"] else None
    rule = HoldOut(
        valid_pairs=default if held_out["valid"] is None else held_out["valid"],
        test_pairs=default if held_out["test"] is None else held_out["test"],
    )
    return Corpus(splits={name: given for name, given in splits.items() if given}, rule=rule if rule.splits else None)


def _languages_of_files(train: list[tuple[Path, Path]], src_lang: str | None, tgt_lang: str | None) -> tuple[str, str]:
    """Languages asked for, else the endings of the file names, else ``src`` and ``tgt``."""
    ends = [path.name.removesuffix(".gz").rpartition(".")[2] for path in (train[0] if train else ())]
    if len(set(ends)) != 2 or not all(re.fullmatch("[a-z]{2,3}", end) for end in ends):
        ends = ["src", "tgt"]
    return src_lang or ends[0], tgt_lang or ends[1]


def _published_corpus(
    name: str,
    from_dir: Path | None,
    cache: Path | None,
    asked: tuple[str | None, str | None],
    on_progress: "OnProgress",
) -> tuple["Corpus", tuple[str, str]]:
    from lite_nlp.data.download import default_cache
    from lite_nlp.data.named import CORPORA, corpus_languages, download_corpus, local_corpus

    corpus = CORPORA[name]
    languages = corpus_languages(corpus, *asked)
    if from_dir is not None:
        return local_corpus(corpus, from_dir, languages), languages
    err.print(f"{corpus.name}: {corpus.about}", markup=False, soft_wrap=True)
    return download_corpus(corpus, cache or default_cache(), languages, on_progress=on_progress), languages


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
