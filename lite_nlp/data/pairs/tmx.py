"""Sentence pairs out of TMX, the exchange format of translation memories (version 1.4b, and older), streaming.

Entities that a file declares itself, which may grow without bound or name other files, are refused; a document type
that names a DTD is accepted and not read. Codes of formatting inside a segment (``bpt``, ``ept``, ``ph``, ``it``,
``ut``) are no text and left out, what ``hi`` highlights is text.
"""

from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from xml.sax import SAXException, SAXParseException
from xml.sax.handler import ContentHandler, feature_external_ges

from defusedxml.common import EntitiesForbidden
from defusedxml.sax import make_parser

from lite_nlp.core.errors import DataError
from lite_nlp.data.languages import speaks
from lite_nlp.data.lines import read_blocks
from lite_nlp.data.pairs.corpus import MAX_CHARACTERS, Pair, examine_texts, one_line
from lite_nlp.data.sources import BadLine, OnBadLine, Reason, general_advice

__all__ = ["TmxFile", "TmxLanguages", "survey_languages"]

#: Bytes that are parsed at a time.
_BLOCK: Final = 1 << 16

#: Units that show the languages of a file.
_SAMPLE_UNITS: Final = 1_000

#: Elements inside a segment whose content is no text.
_CODES: Final = frozenset(("bpt", "ept", "ph", "it", "ut"))

#: Header attribute of a file whose units have no language in common that the others translate.
_ANY_SOURCE: Final = "*all*"


@dataclass(frozen=True, slots=True)
class TmxLanguages:
    """Languages of a file.

    Attributes:
        source: That of the header, as it is written there; None if it names none.
        tags: Tags in the first units, in the order in which they first occur.
    """

    source: str | None
    tags: list[str]


@dataclass(frozen=True, slots=True)
class TmxFile:
    """A TMX file, plain or compressed.

    Attributes:
        path: The file.
        languages: Codes of source and target; ``en`` includes ``en-US``.
        check_ratio: Whether to skip absurd length ratios.
        max_characters: A side with more is too long.
    """

    path: Path
    languages: tuple[str, str]
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
        found = False
        for unit in _read_units(self.path, _Units(self.max_characters)):
            found = True
            usable = self._examine(unit)
            if isinstance(usable, str):
                on_bad(BadLine(self.name, unit.line, usable, unit.shown))
            else:
                yield unit.line, usable
        if not found:
            raise DataError(f"{self.path}: expected translation units, found none")

    def advise(self, reason: Reason) -> str:
        """See :class:`~lite_nlp.data.sources.ItemSource`."""
        if reason == "missing_language":
            tags = ", ".join(survey_languages(self.path).tags)
            return (
                f"few units have both {' and '.join(self.languages)}: give two of {tags} as --src-lang and --tgt-lang"
            )
        return general_advice(reason)

    def _examine(self, unit: "_Unit") -> Pair | Reason:
        sides = [unit.text_in(language) for language in self.languages]
        if sides[0] is None or sides[1] is None:
            return "missing_language"
        src, tgt = (one_line(side) for side in sides if side is not None)
        return examine_texts(src, tgt, check_ratio=self.check_ratio, max_characters=self.max_characters)


def survey_languages(path: Path, wanted: Collection[str] = ()) -> TmxLanguages:
    """The languages in the header and the first units of a file.

    Args:
        path: The file.
        wanted: Languages to go on reading for, if the first units have them not.

    Raises:
        DataError: If it is missing, no TMX file, or damaged so early.
    """
    units = _Units(MAX_CHARACTERS)
    tags: dict[str, None] = {}
    for number, unit in enumerate(_read_units(path, units), start=1):
        tags.update(dict.fromkeys(tag for tag, _ in unit.variants))
        if number >= _SAMPLE_UNITS and all(any(speaks(tag, language) for tag in tags) for language in wanted):
            break
    source = units.source if units.source and units.source.casefold() != _ANY_SOURCE else None
    return TmxLanguages(source, list(tags))


@dataclass(slots=True)
class _Unit:
    """A translation unit: the line it starts on, and tag and text of each variant."""

    line: int
    variants: list[tuple[str, str]] = field(default_factory=list)

    def text_in(self, language: str) -> str | None:
        """The text of the first variant in a language, one with just this tag before others; None if there is none."""
        found = [(tag, text) for tag, text in self.variants if speaks(tag, language)]
        exact = [(tag, text) for tag, text in found if tag.casefold() == language.casefold()]
        return next((text for _, text in exact or found), None)

    @property
    def shown(self) -> str:
        """The unit as reports of bad lines show it."""
        return " ||| ".join(f"{tag}: {text}" for tag, text in self.variants) or "<tu>"


class _Units(ContentHandler):
    """Collects translation units; no text longer than needed to see that it is too long."""

    def __init__(self, max_characters: int) -> None:
        super().__init__()
        self.done: deque[_Unit] = deque()
        self.source: str | None = None
        self._max_characters = max_characters
        self._locator: Any = None
        self.begun = False
        self._unit: _Unit | None = None
        self._tag = ""
        self._text: list[str] | None = None
        self._size = 0
        #: Depth inside an element of formatting code.
        self._code = 0

    def setDocumentLocator(self, locator: Any) -> None:  # noqa: N802
        self._locator = locator

    def startElement(self, name: str, attrs: Any) -> None:  # noqa: N802
        if not self.begun:
            self.begun = True
            if name != "tmx":
                raise SAXException(f"the root element {name}")
        if self._code or name in _CODES:
            self._code += 1
        elif name == "header":
            self.source = attrs.get("srclang")
        elif name == "tu":
            self._unit = _Unit(self._locator.getLineNumber())
        elif name == "tuv":
            self._tag = attrs.get("xml:lang") or attrs.get("lang") or ""
        elif name == "seg" and self._unit is not None:
            self._text, self._size = [], 0

    def endElement(self, name: str) -> None:  # noqa: N802
        if self._code:
            self._code -= 1
        elif name == "seg" and self._unit is not None and self._text is not None:
            self._unit.variants.append((self._tag, "".join(self._text)))
            self._text = None
        elif name == "tu" and self._unit is not None:
            self.done.append(self._unit)
            self._unit = None

    def characters(self, content: str) -> None:
        if self._text is not None and not self._code and self._size <= self._max_characters:
            self._text.append(content)
            # White space that will be removed must not make a text too long.
            self._size += len(content.strip())


def _read_units(path: Path, units: _Units) -> Iterator[_Unit]:
    """The units of a file, parsed block by block."""
    parser = make_parser()
    parser.setContentHandler(units)
    units.setDocumentLocator(parser)
    # The DTD that a document type names is not an entity of the file, and is skipped like all that is external.
    parser.forbid_external = False
    parser.setFeature(feature_external_ges, False)
    empty = True
    try:
        for block in read_blocks(path, _BLOCK):
            empty = False
            parser.feed(block)
            while units.done:
                yield units.done.popleft()
        if empty:
            raise DataError(f"{path}: expected a TMX file, found an empty file")
        parser.close()
    except EntitiesForbidden as error:
        raise DataError(
            f"{path}: expected a TMX file without entities of its own, found the entity {error.name}"
        ) from error
    except SAXParseException as error:
        if not units.begun:
            raise DataError(f"{path}: expected a TMX file, found no XML: {error.getMessage()}") from error
        raise DataError(
            f"{path}: expected a whole TMX file, found it damaged at line {error.getLineNumber():,}: "
            f"{error.getMessage()}"
        ) from error
    except SAXException as error:
        raise DataError(f"{path}: expected a TMX file, found {error.getMessage()}") from error
    except (LookupError, ValueError) as error:
        raise DataError(f"{path}: expected a TMX file in an encoding that can be read, found {error}") from error
    yield from units.done
