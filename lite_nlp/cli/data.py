"""``lite-nlp data``: corpora to data directories, and a corpus to try it on."""

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from lite_nlp.cli import data_options as options
from lite_nlp.cli.console import ProgressBars, err, print_json
from lite_nlp.cli.console import out as stdout
from lite_nlp.cli.data_options import AlignedOptionsCommand, Files, aligned
from lite_nlp.cli.data_report import print_info, warn_overlap, warn_skipped
from lite_nlp.data.choices import Normalization, PairTask
from lite_nlp.data.published.catalogue import CORPORA

__all__ = ["app"]

app = typer.Typer(help="Prepare corpora for training and evaluation.", no_args_is_help=True)


@app.callback()
def _data() -> None:
    """Prepare corpora for training and evaluation."""


@app.command(cls=AlignedOptionsCommand)
def prepare(
    *,
    train: Annotated[Files, options.TRAIN] = None,
    valid: Annotated[Files, options.VALID] = None,
    test: Annotated[Files, options.TEST] = None,
    tsv: Annotated[Files, options.TSV] = None,
    tmx: Annotated[Files, options.TMX] = None,
    jsonl: Annotated[Files, options.JSONL] = None,
    valid_file: Annotated[Files, options.VALID_FILE] = None,
    test_file: Annotated[Files, options.TEST_FILE] = None,
    columns: Annotated[str | None, options.COLUMNS] = None,
    src_lang: Annotated[str | None, options.SRC_LANG] = None,
    tgt_lang: Annotated[str | None, options.TGT_LANG] = None,
    task: Annotated[PairTask | None, options.TASK] = None,
    text: Annotated[Files, options.TEXT] = None,
    valid_text: Annotated[Files, options.VALID_TEXT] = None,
    test_text: Annotated[Files, options.TEST_TEXT] = None,
    labelled: Annotated[Files, options.LABELLED] = None,
    valid_labelled: Annotated[Files, options.VALID_LABELLED] = None,
    test_labelled: Annotated[Files, options.TEST_LABELLED] = None,
    corpus: Annotated[str | None, options.CORPUS] = None,
    from_dir: Annotated[Path | None, options.FROM] = None,
    cache: Annotated[Path | None, options.CACHE] = None,
    valid_pairs: Annotated[int | None, options.VALID_PAIRS] = None,
    test_pairs: Annotated[int | None, options.TEST_PAIRS] = None,
    vocab_size: Annotated[int | None, options.VOCAB_SIZE] = None,
    lowercase: Annotated[bool, options.LOWERCASE] = False,
    normalization: Annotated[Normalization, options.NORMALIZATION] = "none",
    tokenizer: Annotated[str | None, options.TOKENIZER] = None,
    drop_overlap: Annotated[bool, options.DROP_OVERLAP] = False,
    out: Annotated[Path, options.OUT],
    force: Annotated[bool, options.FORCE] = False,
    json: Annotated[bool, options.JSON] = False,
) -> None:
    """Tokenize a corpus into a data directory and report the lines that cannot be used.

    Give one kind of data. Text may be plain, .gz or .zst; options that take files may be repeated.
    """
    pairs = [aligned(f"--{name}", paths) for name, paths in (("train", train), ("valid", valid), ("test", test))]
    if corpus is not None and corpus in CORPORA and from_dir is None:
        _say(f"{corpus}: {CORPORA[corpus].about}")
    from lite_nlp.api.data import prepare_data

    with ProgressBars() as progress:
        info = prepare_data(
            out, train=pairs[0], valid=pairs[1], test=pairs[2], tsv=tsv or (), tmx=tmx or (), jsonl=jsonl or (),
            valid_file=valid_file or (), test_file=test_file or (), columns=columns, text=text or (),
            valid_text=valid_text or (), test_text=test_text or (), labelled=labelled or (),
            valid_labelled=valid_labelled or (), test_labelled=test_labelled or (), corpus=corpus, from_dir=from_dir,
            cache=cache, task=task, src_lang=src_lang, tgt_lang=tgt_lang, valid_pairs=valid_pairs,
            test_pairs=test_pairs, vocab_size=vocab_size, lowercase=lowercase, normalization=normalization,
            tokenizer=tokenizer, drop_overlap=drop_overlap, force=force, progress=progress, say=_say,
        )  # fmt: skip
    warn_skipped(info)
    warn_overlap(info)
    print_info(out, info, as_json=json)


@app.command()
def sample(
    out: Annotated[Path, typer.Option(metavar="FILE", help="The file to write, such as sample.en-de.tsv.")],
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Write 400 everyday English-German sentence pairs, to try things on without a corpus of your own."""
    from lite_nlp.api.data import write_sample

    written = write_sample(out, force=force)
    if json:
        languages = {"src": written.src_lang, "tgt": written.tgt_lang}
        print_json({"path": str(out), "pairs": written.pairs, "languages": languages})
    else:
        line = f"{out}: {written.pairs} sentence pairs, {written.src_lang} -> {written.tgt_lang}"
        stdout.print(line, soft_wrap=True)
    named = f"--src-lang {written.src_lang} --tgt-lang {written.tgt_lang}"
    _say(f"next: lite-nlp data prepare --tsv {quote(str(out))} {named} --out data/sample")


def _say(remark: str) -> None:
    err.print(remark, soft_wrap=True)
