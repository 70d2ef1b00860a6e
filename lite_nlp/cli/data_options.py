"""Options of ``lite-nlp data prepare``, in the groups of its help; some take two files at once."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import typer
from typer.core import TyperCommand

from lite_nlp.core.bounds import MAX_ITEMS, MAX_VOCAB_SIZE
from lite_nlp.data.published.catalogue import CORPORA

__all__ = [
    *("AlignedOptionsCommand", "Files", "aligned"),
    *("CACHE", "COLUMNS", "CORPUS", "DROP_OVERLAP", "FORCE", "FROM", "JSON", "JSONL", "LABELLED", "LOWERCASE"),
    *("NORMALIZATION", "OUT", "SRC_LANG", "TASK", "TEST", "TEST_FILE", "TEST_LABELLED", "TEST_PAIRS", "TEST_TEXT"),
    *("TEXT", "TGT_LANG", "TMX", "TOKENIZER", "TRAIN", "TSV", "VALID", "VALID_FILE", "VALID_LABELLED"),
    *("VALID_PAIRS", "VALID_TEXT", "VOCAB_SIZE"),
]

#: Value of an option that may be repeated.
Files = list[Path] | None

_ALIGNED: Final = ("--train", "--valid", "--test")


def _panel(panel: str, *names: str, **facts: Any) -> Any:
    """An option in a group of the help."""
    return typer.Option(*names, rich_help_panel=panel, **facts)


def _files(panel: str, name: str, description: str) -> Any:
    """An option that takes a file and may be repeated."""
    return _panel(panel, name, metavar="FILE", help=description)


def _aligned(description: str) -> Any:
    """An option that takes two aligned files and may be repeated, of an :class:`AlignedOptionsCommand`."""
    return _panel(_PAIRS, metavar="SRC TGT", help=description)


_PAIRS: Final = "Sentence pairs"
_TEXT: Final = "Running text, for language models"
_LABELLED: Final = "Labelled examples, for classifiers"
_CORPUS: Final = "Published corpus"
_HELD_OUT: Final = "Held-out data, where none is given"
_TOKENIZER: Final = "Tokenizer"
_OUTPUT: Final = "Output"

TRAIN: Final = _aligned("Two text files for training: line 1 of TGT translates line 1 of SRC.")
VALID: Final = _aligned("The same for validation.")
TEST: Final = _aligned("The same for test.")
TSV: Final = _files(_PAIRS, "--tsv", "Text file for training with source, tab, target on each line.")
TMX: Final = _files(_PAIRS, "--tmx", "Translation memory for training.")
JSONL: Final = _files(
    _PAIRS,
    "--jsonl",
    'JSON lines for training: {"src": ..., "tgt": ...}, {"en": ..., "de": ...} or that in "translation".',
)
VALID_FILE: Final = _files(_PAIRS, "--valid-file", "Validation pairs in the format of --tsv, --tmx or --jsonl.")
TEST_FILE: Final = _files(_PAIRS, "--test-file", "The same for test.")
COLUMNS: Final = _panel(
    _PAIRS,
    metavar="SRC,TGT",
    help="Where source and target are: columns of --tsv from 1 (1,2; 2,1 reverses), or keys of --jsonl (en,de).",
    show_default=False,
)
SRC_LANG: Final = _panel(
    _PAIRS, metavar="CODE", help="Source language; else from names and tags of the files.", show_default=False
)
TGT_LANG: Final = _panel(
    _PAIRS, metavar="CODE", help="Target language; else from names and tags of the files.", show_default=False
)
TASK: Final = _panel(
    _PAIRS,
    help="What the pairs are for: with summarization one side may be long. Else translation.",
    show_default=False,
)
TEXT: Final = _files(_TEXT, "--text", "Text file for training.")
VALID_TEXT: Final = _files(
    _TEXT, "--valid-text", "The same for validation; without this and --test-text the last lines are held out."
)
TEST_TEXT: Final = _files(_TEXT, "--test-text", "The same for test.")
LABELLED: Final = _files(
    _LABELLED, "--labelled", "Text file for training with label, tab, sentence (tab, second sentence) on each line."
)
VALID_LABELLED: Final = _files(_LABELLED, "--valid-labelled", "The same for validation.")
TEST_LABELLED: Final = _files(_LABELLED, "--test-labelled", "The same for test.")
CORPUS: Final = _panel(_CORPUS, metavar="NAME", help=f"One of {', '.join(CORPORA)}.")
FROM: Final = _panel(_CORPUS, "--from", metavar="DIR", help="Read the corpus from this copy, without a download.")
CACHE: Final = _panel(_CORPUS, metavar="DIR", help="Keep downloads here instead of in $LITE_NLP_CACHE or ~/.cache.")
VALID_PAIRS: Final = _panel(
    _HELD_OUT,
    min=0,
    max=MAX_ITEMS,
    help="Pairs or labelled examples of the training data to hold out for validation; 0 for none. Else 2,000 or a "
    "twentieth, whichever is less, and none where validation or test data is given.",
    show_default=False,
)
TEST_PAIRS: Final = _panel(_HELD_OUT, min=0, max=MAX_ITEMS, help="The same for test.", show_default=False)
VOCAB_SIZE: Final = _panel(
    _TOKENIZER,
    min=1,
    max=MAX_VOCAB_SIZE,
    help="Tokens of the vocabulary, 259 or more: one for each byte, and three marks. Else those of --tokenizer, or 500 "
    "to 8,000 by the amount of text.",
    show_default=False,
)
LOWERCASE: Final = _panel(_TOKENIZER, "--lowercase", help="Lowercase the text.")
NORMALIZATION: Final = _panel(_TOKENIZER, help="Unicode normalization.")
TOKENIZER: Final = _panel(
    _TOKENIZER,
    metavar="FILE|MODEL",
    help="Use this tokenizer.json, or this model's, instead of training one; of it the first --vocab-size tokens.",
)
OUT: Final = _panel(_OUTPUT, metavar="DIR", help="The data directory to write.")
DROP_OVERLAP: Final = _panel(
    _OUTPUT,
    "--drop-overlap",
    help="Leave out of train what stands in valid or test, as it is or but for case, punctuation and spacing.",
)
FORCE: Final = _panel(_OUTPUT, "--force", help="Replace an existing data directory.")
JSON: Final = _panel(_OUTPUT, "--json", help="Print the counts as JSON.")


def aligned(option: str, paths: Files) -> list[tuple[Path, Path]]:
    """The pairs of files given for ``option``.

    Raises:
        typer.BadParameter: If one has no partner.
    """
    paths = paths or []
    if len(paths) % 2:
        raise _no_partner(option)
    return list(zip(paths[::2], paths[1::2], strict=True))


class AlignedOptionsCommand(TyperCommand):
    """A command whose ``--train``, ``--valid`` and ``--test`` take two files and may be repeated.

    The command-line library knows options of two values and options that repeat, not both at once: the two values are
    handed to it as two options of one value.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; see :class:`click.Command`."""
        return super().parse_args(ctx, list(_one_value_each(args)))


def _one_value_each(args: Sequence[str]) -> Iterator[str]:
    rest = iter(args)
    for arg in rest:
        yield arg
        if arg in _ALIGNED:
            src, tgt = next(rest, None), next(rest, None)
            if src is None or tgt is None or src.startswith("--") or tgt.startswith("--"):
                raise _no_partner(arg)
            yield from (src, arg, tgt)


def _no_partner(option: str) -> typer.BadParameter:
    return typer.BadParameter(f"{option} requires two files, SRC and TGT.")
