"""What options of ``data prepare`` go together, for the command and the function alike."""

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Final

from lite_nlp.core.display import with_letters
from lite_nlp.core.errors import UsageError
from lite_nlp.core.suggestions import expected_one_of
from lite_nlp.data.published.catalogue import CORPORA
from lite_nlp.data.published.entries import PublishedPairs

__all__ = ["check_choice", "check_options", "parse_columns"]

#: Options for files that hold both sides of pairs.
_TABLES: Final = ("--tsv", "--tmx", "--jsonl")

#: Options that name the corpus; exactly one is given.
_SOURCES: Final = ("--train", *_TABLES, "--text", "--labelled", "--corpus")

#: The only sources that an option applies to.
_ONLY_WITH: Final[Mapping[str, Sequence[str]]] = {
    "--valid-file": _TABLES,
    "--test-file": _TABLES,
    "--columns": ("--tsv", "--jsonl"),
    "--valid-text": ("--text",),
    "--test-text": ("--text",),
    "--valid-labelled": ("--labelled",),
    "--test-labelled": ("--labelled",),
    "--from": ("--corpus",),
    "--cache": ("--corpus",),
}

#: Options of sentence pairs; those of held-out pairs apply to labelled examples too.
_OF_PAIRS: Final = ("--valid", "--test", "--src-lang", "--tgt-lang", "--task")
_HELD_OUT: Final = ("--valid-pairs", "--test-pairs")


def check_options(given: Mapping[str, object]) -> str:
    """The one source among the given options.

    Raises:
        UsageError: If the options exclude each other.
    """
    sources = [option for option in _SOURCES if option in given]
    if len(sources) != 1:
        raise UsageError(f"exactly one of {', '.join(_SOURCES[:-1])} and {_SOURCES[-1]} is required.")
    source = sources[0]
    for option, needed in _ONLY_WITH.items():
        if option in given and source not in needed:
            raise UsageError(f"{option} needs {' or '.join(needed)}.")
    if source == "--corpus":
        _check_corpus_options(given)
    elif source == "--text":
        _refuse(given, (*_OF_PAIRS, *_HELD_OUT), "--text, which holds no pairs")
    elif source == "--labelled":
        _refuse(given, _OF_PAIRS, "--labelled, which holds no pairs")
    for option in ("--src-lang", "--tgt-lang"):
        if not str(given.get(option, "en")).strip():
            raise UsageError(f"{option}: expected a language code such as en, found none")
    for name in ("--valid", "--test"):
        for option in (name, f"{name}-file", f"{name}-labelled"):
            if option in given and f"{name}-pairs" in given:
                raise UsageError(f"{option} and {name}-pairs exclude each other.")
    for option in _HELD_OUT:
        number = given.get(option, 0)
        if not isinstance(number, Integral) or isinstance(number, bool) or number < 0:
            raise UsageError(f"{option}: expected 0 or more, found {number}.")
    return source


def _check_corpus_options(given: Mapping[str, object]) -> None:
    name = str(given["--corpus"])
    check_choice("--corpus", name, tuple(CORPORA))
    for split in ("--valid", "--test"):
        if split in given or f"{split}-pairs" in given:
            raise UsageError(f"{split} and {split}-pairs do not go with --corpus, which has its own splits.")
    if not isinstance(CORPORA[name], PublishedPairs):
        _refuse(given, _OF_PAIRS, f"--corpus {name}, which holds no pairs")
    _refuse(given, ("--task",), "--corpus, which has its own")


def check_choice(option: str, value: str, choices: Sequence[str]) -> None:
    """Refuse a value that is not among ``choices``.

    Raises:
        UsageError: If it is not.
    """
    if value not in choices:
        raise UsageError(f"{option}: {expected_one_of(choices, value)}")


def parse_columns(columns: str | Sequence[str | int] | None) -> tuple[str, str] | None:
    """The two columns or keys of ``--columns``, separated by a comma or in a sequence.

    Raises:
        UsageError: If there are not two different ones.
    """
    if columns is None:
        return None
    words = columns.split(",") if isinstance(columns, str) else map(str, columns)
    found = [with_letters(word).strip() for word in words]
    if len(found) != 2 or not all(found) or found[0] == found[1]:
        raise UsageError(
            f"--columns: expected two different columns, such as 1,2 or src,tgt, found {','.join(found) or 'none'}."
        )
    return found[0], found[1]


def _refuse(given: Mapping[str, object], options: Sequence[str], source: str) -> None:
    for option in options:
        if option in given:
            raise UsageError(f"{option} does not go with {source}.")
