"""Sentence pairs out of JSON lines: an object on each line, two keys of which hold the sides."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

from lite_nlp.core.errors import DataError
from lite_nlp.data.languages import language_code, speaks
from lite_nlp.data.lines import LongLine, read_lines
from lite_nlp.data.pairs.corpus import MAX_CHARACTERS, Pair, examine_texts, one_line, raw_text, usable_pairs
from lite_nlp.data.sources import OnBadLine, Reason, general_advice
from lite_nlp.data.troubles import excerpt

__all__ = ["JsonLinesFile", "find_keys"]

#: The key under which the datasets of Hugging Face hold a pair.
_TRANSLATION: Final = "translation"

#: The usual key of a line's number or name, and the code of Indonesian.
_ID: Final = "id"

#: Keys that say which side is which.
_SIDES: Final = (("src", "tgt"), ("source", "target"))

#: Bytes that JSON can need for a character, and bytes left for other keys of the object.
_CHARACTER_BYTES: Final = 12
_OTHER_BYTES: Final = 1 << 16

#: Keys that a message lists.
_SHOWN_KEYS: Final = 12

#: Lines whose objects tell the keys.
_SAMPLE_LINES: Final = 20


@dataclass(frozen=True, slots=True)
class JsonLinesFile:
    """A file of JSON lines, plain or compressed, with both sides of a pair in each object or its ``translation``.

    Attributes:
        path: The file.
        keys: The keys of source and target.
        check_ratio: Whether to skip absurd length ratios.
        max_characters: A side with more is too long.
    """

    path: Path
    keys: tuple[str, str]
    check_ratio: bool = True
    max_characters: int = MAX_CHARACTERS

    @property
    def name(self) -> str:
        """The file."""
        return str(self.path)

    @property
    def file(self) -> str:
        """See :class:`~lite_nlp.data.sources.ItemSource`."""
        return str(self.path)

    def read(self, on_bad: OnBadLine) -> Iterator[tuple[int, Pair]]:
        """See :class:`~lite_nlp.data.sources.ItemSource`; line breaks inside a side become spaces."""
        return usable_pairs(self.name, _lines(self.path, self.max_characters), self._examine, on_bad)

    def advise(self, reason: Reason) -> str:
        """See :class:`~lite_nlp.data.sources.ItemSource`."""
        if reason != "missing_key":
            return general_advice(reason)
        objects = map(_parse, map(raw_text, islice(_lines(self.path, self.max_characters), _SAMPLE_LINES)))
        items = (item for parsed in objects if not isinstance(parsed, str) for item in parsed.items())
        others = sorted({key for key, value in items if isinstance(value, str)} - set(self.keys))
        few = f"few objects have text in both {' and '.join(self.keys)}"
        if not others:
            return f"{few}: in the others one of them is null or missing, and no other key has text"
        return f"{few}: other keys with text are {_listed(others)}; name two keys with --columns SRC_KEY,TGT_KEY"

    def _examine(self, line: bytes | LongLine) -> Pair | Reason:
        if isinstance(line, LongLine):
            return "too_long"
        parsed = _parse(line)
        if isinstance(parsed, str):
            return parsed
        sides = [parsed.get(key) for key in self.keys]
        src, tgt = sides
        if not isinstance(src, str) or not isinstance(tgt, str):
            return "missing_key"
        try:
            (src + tgt).encode("utf-8")
        except UnicodeEncodeError:
            # JSON can spell half a character.
            return "invalid_utf8"
        return examine_texts(
            one_line(src), one_line(tgt), check_ratio=self.check_ratio, max_characters=self.max_characters
        )


def find_keys(path: Path, languages: tuple[str | None, str | None]) -> tuple[str, str]:
    """The keys of source and target in the first objects of a file.

    Args:
        path: The file.
        languages: Codes of the source and target language where they are known: keys may be their names.

    Raises:
        DataError: If the file is missing, damaged or empty, or it does not show which keys are meant.
    """
    lines = list(map(raw_text, islice(_lines(path, MAX_CHARACTERS), _SAMPLE_LINES)))
    objects = [parsed for parsed in map(_parse, lines) if not isinstance(parsed, str)]
    if not objects:
        first = next(filter(None, lines), b"")
        array = ": an array, of which each element must be on a line of its own" * first.lstrip().startswith(b"[")
        raise DataError(f"{path}: expected a JSON object on each line, found {excerpt(first)}{array}")
    # An id beside the sides is none of them, whatever language "id" is the code of.
    sides = [inner if isinstance(inner := parsed.get(_TRANSLATION), dict) else parsed for parsed in objects]
    # An object may lack a side, which is null then.
    keys = list(dict.fromkeys(key for texts in sides for key, value in texts.items() if isinstance(value, str)))
    for pair in _SIDES:
        if set(pair) <= set(keys):
            return pair
    codes = [key for key in keys if language_code(key) is not None]
    if len(codes) > 2 and not any(wanted and speaks(_ID, wanted) for wanted in languages):
        codes = [key for key in codes if key != _ID]
    src, tgt = (next((key for key in codes if wanted and speaks(key, wanted)), None) for wanted in languages)
    others = [key for key in codes if key not in (src, tgt)]
    if src is None and languages[0] is None and len(others) == (2 if tgt is None else 1):
        src = others.pop(0)
    if tgt is None and languages[1] is None and len(others) == 1:
        tgt = others.pop()
    if src is None or tgt is None:
        raise DataError(
            f"{path}: expected the keys src and tgt, or two that are language codes, found "
            f"{_listed(keys)}: name them with --columns SRC_KEY,TGT_KEY, or their languages with --src-lang, --tgt-lang"
        )
    return src, tgt


def _listed(keys: Sequence[str]) -> str:
    return ", ".join(map(excerpt, keys[:_SHOWN_KEYS])) + ", ..." * (len(keys) > _SHOWN_KEYS) or "no key with text"


def _lines(path: Path, max_characters: int) -> Iterator[bytes | LongLine]:
    return read_lines(path, max_bytes=2 * _CHARACTER_BYTES * max_characters + _OTHER_BYTES)


def _parse(line: bytes) -> Mapping[str, Any] | Reason:
    """The object on a line, joined with its translation if it has one; or why there is none."""
    try:
        found = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError:
        return "invalid_utf8"
    except (ValueError, RecursionError):
        return "invalid_json"
    if not isinstance(found, dict):
        return "invalid_json"
    inner = found.get(_TRANSLATION)
    return found | inner if isinstance(inner, dict) else found
