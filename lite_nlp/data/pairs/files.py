"""A corpus of pairs out of files of any format that :mod:`lite_nlp.data.pairs` reads."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final, Literal

from lite_nlp.core.errors import UsageError
from lite_nlp.data.choices import PairTask, SplitName
from lite_nlp.data.holdout import hold_out
from lite_nlp.data.languages import language_code, languages_in_name, languages_of_names
from lite_nlp.data.pairs.corpus import MAX_CHARACTERS, MAX_DOCUMENT_CHARACTERS, Pair, PairCorpus
from lite_nlp.data.pairs.guesses import UNKNOWN, PartlyKnown, check_look, table_languages, tmx_languages
from lite_nlp.data.pairs.json_lines import JsonLinesFile, find_keys
from lite_nlp.data.pairs.readers import TextFiles, TsvFile
from lite_nlp.data.pairs.tmx import TmxFile
from lite_nlp.data.sources import ItemSource, ignore_bad_line

__all__ = ["PairFiles", "TableFormat", "pairs_in_files"]

#: Formats of files that hold both sides.
TableFormat = Literal["tsv", "tmx", "jsonl"]

#: Pairs that the look of the text is judged by.
_SAMPLE_PAIRS: Final = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class PairFiles:
    """Files of pairs as the user names them.

    Attributes:
        aligned: For each split, pairs of aligned text files.
        tables: For each split, files that hold both sides.
        table_format: Format of the latter.
        columns: Where source and target are in them: numbers of columns from 1 (``tsv``) or keys (``jsonl``).
        languages: Codes of source and target language, where they are given.
        task: What the pairs are for. Pairs to summarize may be long, and of any length ratio.
        valid_pairs: Pairs to hold out for validation; see :func:`lite_nlp.data.holdout.hold_out`.
        test_pairs: The same for the test.
    """

    aligned: Mapping[SplitName, Sequence[tuple[Path, Path]]]
    tables: Mapping[SplitName, Sequence[Path]]
    table_format: TableFormat = "tsv"
    columns: tuple[str, str] | None = None
    languages: PartlyKnown = (None, None)
    task: PairTask = "translation"
    valid_pairs: int | None = None
    test_pairs: int | None = None


def pairs_in_files(files: PairFiles, *, say: Callable[[str], None] | None = None) -> PairCorpus:
    """The corpus that the files hold.

    Args:
        files: The files.
        say: Receiver of the languages that were guessed, and of doubts about them.

    Raises:
        UsageError: If ``columns`` are no two columns.
        DataError: If a file whose languages or keys must be found is missing or damaged, or does not show them.
    """
    long = files.task == "summarization"
    bound = MAX_DOCUMENT_CHARACTERS if long else MAX_CHARACTERS
    splits: dict[SplitName, list[ItemSource[Pair]]] = {}
    languages = _hints(files)
    for name in ("train", "valid", "test"):
        # Scores on a test set are compared with those of others, so it stays whole.
        check_ratio = name == "train" and not long
        tables = files.tables.get(name, ())
        splits[name] = [_table(path, files, languages, check_ratio, bound) for path in tables]
        splits[name] += [
            TextFiles(src, tgt, check_ratio=check_ratio, max_characters=bound)
            for src, tgt in files.aligned.get(name, ())
        ]
    given = {name: sources for name, sources in splits.items() if sources}
    rule = hold_out(files.valid_pairs, files.test_pairs, given=len(given) > 1)
    known = _languages(files, given["train"][0], say)
    return PairCorpus(splits=given, rule=rule, languages=known, task=files.task)


def _hints(files: PairFiles) -> PartlyKnown:
    """What the first table says about the languages, for the keys and tags of all: they may be in another order."""
    if not files.tables.get("train") or files.table_format == "tsv":
        return files.languages
    first = files.tables["train"][0]
    if files.table_format == "tmx":
        return tmx_languages(first, files.languages)
    named = languages_in_name(first)
    hints = (named[0], named[1]) if files.languages == (None, None) and len(named) == 2 else files.languages
    src, tgt = map(language_code, files.columns or find_keys(first, hints))
    return (src, tgt) if src is not None and tgt is not None else hints


def _table(
    path: Path, files: PairFiles, languages: PartlyKnown, check_ratio: bool, max_characters: int
) -> TsvFile | TmxFile | JsonLinesFile:
    if files.table_format == "tmx":
        src, tgt = (language or unknown for language, unknown in zip(languages, UNKNOWN, strict=True))
        return TmxFile(path, (src, tgt), check_ratio=check_ratio, max_characters=max_characters)
    if files.table_format == "tsv":
        return TsvFile(path, _numbers(files.columns), check_ratio=check_ratio, max_characters=max_characters)
    keys = files.columns or find_keys(path, languages)
    return JsonLinesFile(path, keys, check_ratio=check_ratio, max_characters=max_characters)


def _numbers(columns: tuple[str, str] | None) -> tuple[int, int] | None:
    if columns is None:
        return None
    if not all(re.fullmatch("[1-9][0-9]{0,3}", column) for column in columns) or columns[0] == columns[1]:
        raise UsageError(f"--columns: expected two different numbers from 1, such as 1,2, found {','.join(columns)}.")
    return int(columns[0]), int(columns[1])


def _languages(files: PairFiles, source: ItemSource[Pair], say: Callable[[str], None] | None) -> tuple[str, str]:
    """Source and target language: those that are known, else guessed."""
    known: PartlyKnown = (_short(files.languages[0]), _short(files.languages[1]))
    if files.task != "translation":
        named = languages_of_names(source.src, source.tgt) if isinstance(source, TextFiles) else None
        return _first(known, named or UNKNOWN)
    tell = say or _ignore
    needed = say is not None or (None in known and isinstance(source, TsvFile | JsonLinesFile))
    sample = [pair for _, pair in islice(source.read(ignore_bad_line), _SAMPLE_PAIRS)] if needed else []
    if isinstance(source, TextFiles):
        found = _first(known, languages_of_names(source.src, source.tgt) or UNKNOWN)
    elif isinstance(source, JsonLinesFile):
        src, tgt = (language or language_code(key) for language, key in zip(known, source.keys, strict=True))
        found = table_languages(source.path, sample, (src, tgt), tell)
    elif isinstance(source, TsvFile):
        found = table_languages(source.path, sample, known, tell)
    else:
        found = _first(known, source.languages if isinstance(source, TmxFile) else UNKNOWN)
    if say is not None:
        if isinstance(source, TextFiles) and sample and all("\t" in src + tgt for src, tgt in sample):
            say(f"warning: {source.name}: all lines have tabs: give a file that holds both sides as --tsv FILE")
        check_look(sample, found, say, swap=_swap(source))
    return found


def _swap(source: ItemSource[Pair]) -> str:
    """What a reader may swap where source and target are the wrong way round."""
    if isinstance(source, JsonLinesFile):
        return f"the keys (--columns {source.keys[1]},{source.keys[0]})"
    if isinstance(source, TsvFile):
        src, tgt = source.columns or (1, 2)
        return f"the columns (--columns {tgt},{src})"
    return "the files" if isinstance(source, TextFiles) else "the languages"


def _short(language: str | None) -> str | None:
    """The code that a language is known by: that of two letters for one of three letters; others stay as they are."""
    return language_code(language) if language and len(language) == 3 and language_code(language) else language


def _first(languages: PartlyKnown, others: tuple[str, str]) -> tuple[str, str]:
    return languages[0] or others[0], languages[1] or others[1]


def _ignore(remark: str) -> None:
    del remark
