"""``lite-nlp data``: corpora to data directories."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer
from typer.core import TyperCommand

from lite_nlp.cli.console import print_json
from lite_nlp.cli.data_report import print_examples, print_pairs, print_text, report_progress, warn_skipped
from lite_nlp.cli.data_sources import (
    PairFiles,
    corpus_of_files,
    labelled_corpus,
    languages_of_files,
    published_corpus,
    published_examples,
    published_text,
    text_corpus,
)
from lite_nlp.core.files import check_output

if TYPE_CHECKING:
    from lite_nlp.data.pairs.directory import Facts

__all__ = ["PUBLISHED", "app"]

InfoT = TypeVar("InfoT", bound="Facts")

app = typer.Typer(help="Prepare corpora for training and evaluation.", no_args_is_help=True)

_PAIR_OPTIONS: Final = ("--train", "--valid", "--test")

#: Names of the published corpora: pairs, labelled examples and running texts. They are listed here, since what knows
#: them takes long to import.
_PUBLISHED_PAIRS: Final = (
    *("multi30k", "tatoeba", "iwslt14", "wmt14-en-de", "wmt14-en-fr", "wmt16-en-ro", "shakespeare", "cnn-dailymail"),
)
_PUBLISHED_EXAMPLES: Final = ("snli", "multinli", "agreement")
_PUBLISHED_TEXTS: Final = ("wikitext-103", "tinyshakespeare")
PUBLISHED: Final = (*_PUBLISHED_PAIRS, *_PUBLISHED_EXAMPLES, *_PUBLISHED_TEXTS)


class Task(StrEnum):
    """What pairs are for."""

    TRANSLATION = "translation"
    SUMMARIZATION = "summarization"


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
    text: Annotated[
        list[Path] | None,
        typer.Option(
            "--text", metavar="FILE", help="Running text to learn a language model from, plain or .gz; repeatable."
        ),
    ] = None,
    valid_text: Annotated[
        list[Path] | None, typer.Option("--valid-text", metavar="FILE", help="The same, to validate on.")
    ] = None,
    test_text: Annotated[
        list[Path] | None, typer.Option("--test-text", metavar="FILE", help="The same, to test on.")
    ] = None,
    labelled: Annotated[
        list[Path] | None,
        typer.Option(
            "--labelled",
            metavar="FILE",
            help="Text file with label, tab, sentence (tab, second sentence) on each line, plain or .gz; repeatable.",
        ),
    ] = None,
    valid_labelled: Annotated[
        list[Path] | None, typer.Option("--valid-labelled", metavar="FILE", help="The same, to validate on.")
    ] = None,
    test_labelled: Annotated[
        list[Path] | None, typer.Option("--test-labelled", metavar="FILE", help="The same, to test on.")
    ] = None,
    task: Annotated[
        Task | None,
        typer.Option(
            help="What pairs are for: those for summarization are long on one side; else translation.",
            show_default=False,
        ),
    ] = None,
    src_lang: Annotated[str | None, typer.Option(help="Source language; else from the corpus or file name.")] = None,
    tgt_lang: Annotated[str | None, typer.Option(help="Target language; else from the corpus or file name.")] = None,
    vocab_size: Annotated[int, typer.Option(help="Tokens of the vocabulary, which two languages share.")] = 8000,
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
        int | None, typer.Option(min=0, help="Pairs (or labelled examples) to hold out for validation, 0 for none.")
    ] = None,
    test_pairs: Annotated[
        int | None, typer.Option(min=0, help="Pairs (or labelled examples) to hold out for test, 0 for none.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing data directory.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the counts as JSON.")] = False,
) -> None:
    """Tokenize a corpus into a data directory and report the lines that cannot be used."""
    from lite_nlp.data.tokenizer import Tokenizer

    files = {name: _pairs(f"--{name}", paths) for name, paths in (("train", train), ("valid", valid), ("test", test))}
    held_out = {"valid": valid_pairs, "test": test_pairs}
    of_pairs = {
        "--valid": valid, "--test": test, "--src-lang": src_lang, "--tgt-lang": tgt_lang,
        "--valid-pairs": valid_pairs, "--test-pairs": test_pairs, "--task": task,
    }  # fmt: skip
    of_text = {"--valid-text": valid_text, "--test-text": test_text}
    of_examples = {"--valid-labelled": valid_labelled, "--test-labelled": test_labelled}
    _check_source({"--train": files["train"], "--tsv": tsv, "--text": text, "--labelled": labelled, "--corpus": corpus})
    _check_kind("--text", text, own=of_text, without=of_pairs)
    # Examples are held out as pairs are.
    _check_held_out(of_examples, held_out)
    not_of_examples = {option: value for option, value in of_pairs.items() if not option.endswith("-pairs")}
    _check_kind("--labelled", labelled, own=of_examples, without=not_of_examples)
    _check_pairs(files, held_out, corpus=corpus, from_dir=from_dir)
    from lite_nlp.data.pairs.prepare import PrepareOptions, VocabularyOptions, prepare_data

    _check_published(corpus, task, of_pairs)
    check_output(out_dir, force=force)
    vocabulary: dict[str, Any] = {
        "vocab_size": vocab_size,
        "lowercase": lowercase,
        "normalization": normalization.value,
        "tokenizer": None if tokenizer is None else Tokenizer.load(tokenizer),
    }
    if labelled or corpus in _PUBLISHED_EXAMPLES:
        from lite_nlp.data.labelled.prepare import prepare_labelled

        with report_progress() as on_progress:
            if corpus is None:
                examples = labelled_corpus(labelled or [], valid_labelled or [], test_labelled or [], held_out)
            else:
                examples = published_examples(corpus, from_dir, cache, on_progress)
            found = prepare_labelled(
                out_dir, examples, options=VocabularyOptions(**vocabulary), force=force, on_progress=on_progress
            )
        warn_skipped(found.splits)
        _show(out_dir, found, as_json=json, table=print_examples)
        return
    if text or corpus in _PUBLISHED_TEXTS:
        from lite_nlp.data.text.prepare import prepare_text

        with report_progress() as on_progress:
            if corpus is None:
                corpus_text = text_corpus(text or [], valid_text or [], test_text or [])
            else:
                corpus_text = published_text(corpus, from_dir, cache, on_progress)
            told = prepare_text(
                out_dir, corpus_text, options=VocabularyOptions(**vocabulary), force=force, on_progress=on_progress
            )
        warn_skipped(told.splits)
        _show(out_dir, told, as_json=json, table=print_text)
        return

    with report_progress() as on_progress:
        if corpus is None:
            pairs = corpus_of_files(files, held_out, tsv or [], "translation" if task is None else task.value)
            languages = languages_of_files(files["train"], src_lang, tgt_lang)
        else:
            pairs, languages = published_corpus(corpus, from_dir, cache, (src_lang, tgt_lang), on_progress)
        options = PrepareOptions(src_lang=languages[0], tgt_lang=languages[1], **vocabulary)
        info = prepare_data(out_dir, pairs, options=options, force=force, on_progress=on_progress)
    warn_skipped(info.splits)
    _show(out_dir, info, as_json=json, table=print_pairs)


def _show(path: Path, info: InfoT, *, as_json: bool, table: Callable[[Path, InfoT], None]) -> None:
    """The facts of the new directory, for people or as JSON."""
    if as_json:
        print_json({"data": str(path), **info.model_dump(exclude={"schema_version"})})
    else:
        table(path, info)


def _check_source(sources: Mapping[str, Any]) -> None:
    """One corpus, named in one way."""
    if sum(bool(source) for source in sources.values()) != 1:
        *some, last = sources
        raise typer.BadParameter(f"exactly one of {', '.join(some)} and {last} is required.")


def _check_kind(option: str, paths: list[Path] | None, *, own: Mapping[str, Any], without: Mapping[str, Any]) -> None:
    """Options that go with running text or labelled examples only, and those that do not go with either."""
    for other, value in own.items():
        if value and not paths:
            raise typer.BadParameter(f"{other} needs {option}.")
    for other, value in without.items():
        if paths and value is not None and value != []:
            raise typer.BadParameter(f"{other} does not go with {option}, which is no pairs.")


def _check_held_out(given: Mapping[str, Any], held_out: Mapping[str, int | None]) -> None:
    """A split of labelled examples is either given or held out."""
    for option, (name, examples) in zip(given, held_out.items(), strict=True):
        if given[option] and examples is not None:
            raise typer.BadParameter(f"{option} and --{name}-pairs exclude each other.")


def _check_pairs(
    files: PairFiles, held_out: Mapping[str, int | None], *, corpus: str | None, from_dir: Path | None
) -> None:
    if corpus is not None and corpus not in PUBLISHED:
        raise typer.BadParameter(f"--corpus: expected one of {', '.join(PUBLISHED)}, found {corpus}.")
    if corpus is None and from_dir is not None:
        raise typer.BadParameter("--from needs --corpus.")
    for name in ("valid", "test"):
        if corpus is not None and (files[name] or held_out[name] is not None):
            raise typer.BadParameter(f"--{name} and --{name}-pairs do not go with --corpus, which has its own splits.")
        if files[name] and held_out[name] is not None:
            raise typer.BadParameter(f"--{name} and --{name}-pairs exclude each other.")


def _check_published(corpus: str | None, task: Task | None, of_pairs: Mapping[str, Any]) -> None:
    """Options of pairs that do not go with a corpus that has none, or has its own task."""
    for option, value in of_pairs.items():
        if corpus in (*_PUBLISHED_EXAMPLES, *_PUBLISHED_TEXTS) and value is not None and value != []:
            raise typer.BadParameter(f"{option} does not go with --corpus {corpus}, which is no pairs.")
    if corpus is not None and task is not None:
        raise typer.BadParameter("--task does not go with --corpus, which has its own.")
