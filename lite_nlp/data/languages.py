"""Codes of languages: in names of files, keys and tags."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import langcodes
from langcodes.tag_parser import LanguageTagError

__all__ = ["language_code", "languages_in_name", "languages_of_names", "speaks"]

#: Endings of names that tell the format.
_ENDINGS: Final = frozenset(("gz", "zst", "tsv", "txt", "tmx", "json", "jsonl", "csv", "tab", "xml"))

#: Parts of names that are no language where they stand, though some language has this code of three letters.
_WORDS: Final = _ENDINGS | {
    *("all", "bpe", "dev", "doc", "hyp", "new", "old", "out", "raw", "ref", "set", "src", "sub", "sum", "tgt", "tok"),
    *("trg", "val", "cor", "dat", "lin", "mix"),
}


@cache
def language_code(tag: str) -> str | None:
    """The code of the language that ``tag`` names, of two letters where ISO 639-1 has one, else of three.

    A region or script is left out: ``en-US``, ``en_us``, ``eng`` and ``EN`` are all ``en``. None if it names none.
    """
    if not re.fullmatch(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]{1,8})*", tag) or tag.lower() in _WORDS:
        return None
    try:
        language = langcodes.Language.get(tag)
        if not language.is_valid() or language.language is None:
            return None
        if len(language.language) == 2:
            return language.language
        # Mandarin is Chinese, where that is all that the two letters can say.
        wider = langcodes.Language.get(langcodes.standardize_tag(language.language, macro=True)).language
    except LanguageTagError:
        return None
    return wider if wider is not None and len(wider) == 2 else language.language


@cache
def speaks(tag: str, wanted: str) -> bool:
    """Whether text tagged ``tag`` is in the language ``wanted``.

    ``en`` is spoken by ``en-US`` and ``en-GB``; ``en-US`` by itself alone. Case and the separator do not matter.
    """
    if language_code(tag) is None or language_code(wanted) is None:
        return tag.casefold() == wanted.casefold()
    if language_code(tag) != language_code(wanted):
        return False
    asked, found = langcodes.Language.get(wanted), langcodes.Language.get(tag)
    return asked.territory in (None, found.territory) and asked.script in (None, found.script)


def languages_of_names(src: Path, tgt: Path) -> tuple[str, str] | None:
    """The languages of two aligned files, by the one part in which their names differ: ``train.en``, ``train.de.gz``.

    Parts are separated by dots, hyphens and underscores. None if they do not differ so, or not by languages.
    """
    names = [_parts(path) for path in (src, tgt)]
    different = [pair for pair in zip(*names, strict=False) if pair[0] != pair[1]]
    # Words of three letters are too often the code of some language: only the last part may be one without a shorter.
    candidates = [(pair, 2) for pair in different if len(different) == 1 and len(names[0]) == len(names[1])]
    for pair, longest in [*candidates, ((_dotted(src)[-1], _dotted(tgt)[-1]), 3)]:
        first, second = map(language_code, pair)
        if first is not None and second is not None and first != second and max(len(first), len(second)) <= longest:
            return first, second
    return None


def languages_in_name(path: Path) -> tuple[str, ...]:
    """The languages in the name of a file that holds pairs: two side by side, else one, else none.

    ``corpus.fr-en.tsv``, ``fra-eng.tsv`` and ``en_fr.tmx`` name two. One is named only by a part between dots, as in
    ``fra.txt``: other words of two letters are too often no language.
    """
    found: tuple[str, ...] = ()
    for first, second in _neighbours(".".join(_dotted(path))):
        src, tgt = language_code(first), language_code(second)
        if src is not None and tgt is not None and src != tgt and 2 in (len(src), len(tgt)):
            found = (src, tgt)
    if found:
        return found
    single = [code for part in _dotted(path) if part.isalpha() and (code := language_code(part)) and len(code) == 2]
    return (single[-1],) if single else ()


def _neighbours(stem: str) -> Iterator[tuple[str, str]]:
    """The parts of two or three letters with a hyphen or underscore between them and no letter around."""
    for found in re.finditer(
        r"(?<![A-Za-z0-9])(?=([A-Za-z]{2,3})(?:[-_][A-Z]{2})?[-_]([A-Za-z]{2,3})(?![A-Za-z0-9]))", stem
    ):
        yield found[1], found[2]


def _dotted(path: Path) -> list[str]:
    """The parts of a name between dots, without the endings that tell the format."""
    parts = path.name.split(".")
    while len(parts) > 1 and parts[-1].lower() in _ENDINGS:
        parts.pop()
    return parts


def _parts(path: Path) -> list[str]:
    return re.split(r"[._-]", ".".join(_dotted(path)))
