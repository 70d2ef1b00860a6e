"""``lite-nlp data``: corpora to data directories."""

from pathlib import Path
from typing import Annotated

import typer

from lite_nlp.cli.console import ProgressBars, err
from lite_nlp.cli.data_options import AlignedOptionsCommand, Files, aligned, aligned_option, files_option
from lite_nlp.cli.data_report import print_info, warn_skipped
from lite_nlp.data.choices import Normalization, PairTask
from lite_nlp.data.published.catalogue import CORPORA

__all__ = ["app"]

app = typer.Typer(help="Prepare corpora for training and evaluation.", no_args_is_help=True)


@app.callback()
def _data() -> None:
    """Prepare corpora for training and evaluation."""


@app.command(cls=AlignedOptionsCommand)
def prepare(
    out: Annotated[Path, typer.Option(metavar="DIR", help="The data directory to write.")],
    train: Annotated[Files, aligned_option("Two aligned text files for training, plain or .gz; repeatable.")] = None,
    valid: Annotated[Files, aligned_option("The same for validation.")] = None,
    test: Annotated[Files, aligned_option("The same for test.")] = None,
    tsv: Annotated[
        Files,
        files_option("--tsv", "Text file with source, tab, target on each line, plain or .gz; repeatable."),
    ] = None,
    text: Annotated[
        Files,
        files_option("--text", "Running text to train a language model on, plain or .gz; repeatable."),
    ] = None,
    valid_text: Annotated[Files, files_option("--valid-text", "The same for validation.")] = None,
    test_text: Annotated[Files, files_option("--test-text", "The same for test.")] = None,
    labelled: Annotated[
        Files,
        files_option(
            "--labelled",
            "Text file with label, tab, sentence (tab, second sentence) on each line, plain or .gz; repeatable.",
        ),
    ] = None,
    valid_labelled: Annotated[Files, files_option("--valid-labelled", "The same for validation.")] = None,
    test_labelled: Annotated[Files, files_option("--test-labelled", "The same for test.")] = None,
    task: Annotated[
        PairTask | None,
        typer.Option(
            help="Task of pairs; for summarization one side may be long. Else translation.",
            show_default=False,
        ),
    ] = None,
    src_lang: Annotated[str | None, typer.Option(help="Source language; else from the corpus or file name.")] = None,
    tgt_lang: Annotated[str | None, typer.Option(help="Target language; else from the corpus or file name.")] = None,
    vocab_size: Annotated[int, typer.Option(help="Size of the vocabulary, which both languages share.")] = 8000,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Lowercase the text.")] = False,
    normalization: Annotated[Normalization, typer.Option(help="Unicode normalization.")] = "none",
    corpus: Annotated[
        str | None, typer.Option(metavar="NAME", help="A published corpus: " + ", ".join(CORPORA) + ".")
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
    pairs = [aligned(f"--{name}", paths) for name, paths in (("train", train), ("valid", valid), ("test", test))]
    if corpus is not None and corpus in CORPORA and from_dir is None:
        err.print(f"{corpus}: {CORPORA[corpus].about}", markup=False, soft_wrap=True)
    from lite_nlp.api.data import prepare_data

    with ProgressBars() as progress:
        info = prepare_data(
            out, train=pairs[0], valid=pairs[1], test=pairs[2], tsv=tsv or (), text=text or (),
            valid_text=valid_text or (), test_text=test_text or (), labelled=labelled or (),
            valid_labelled=valid_labelled or (), test_labelled=test_labelled or (), corpus=corpus, from_dir=from_dir,
            cache=cache, task=task, src_lang=src_lang, tgt_lang=tgt_lang, valid_pairs=valid_pairs,
            test_pairs=test_pairs, vocab_size=vocab_size, lowercase=lowercase, normalization=normalization,
            tokenizer=tokenizer, force=force, progress=progress,
        )  # fmt: skip
    warn_skipped(info)
    print_info(out, info, as_json=json)
