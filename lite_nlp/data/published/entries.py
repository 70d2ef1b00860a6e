"""Entries of the catalogue: where the parts of a published corpus are, and how they fit together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from lite_nlp.data.choices import PairTask, SplitName
from lite_nlp.data.holdout import SplitRule
from lite_nlp.data.pairs.corpus import MAX_CHARACTERS, MAX_DOCUMENT_CHARACTERS
from lite_nlp.data.pairs.readers import TextFiles
from lite_nlp.data.published.markup import Markup

__all__ = [
    "Archive",
    "Columns",
    "Part",
    "PublishedCorpus",
    "PublishedExamples",
    "PublishedPairs",
    "PublishedText",
    "Stories",
    "Text",
]


@dataclass(frozen=True, slots=True)
class Archive:
    """A file to download.

    Attributes:
        url: Where it is.
        size: Its size in bytes, where that is published.
        checksum: ``algorithm:hexdigest``, where that is published; None if nobody has.
    """

    url: str
    size: int | None = None
    checksum: str | None = None

    @property
    def name(self) -> str:
        """The last part of the URL's path."""
        return urlsplit(self.url).path.rsplit("/", 1)[-1]


@dataclass(frozen=True, slots=True)
class Text:
    """One text: a member of an archive, or the archive itself if ``member`` is None."""

    archive: Archive
    member: str | None = None
    markup: Markup = "none"


@dataclass(frozen=True, slots=True)
class Columns:
    """Both languages in the first two columns of a tab-separated member of an archive, the source language first."""

    archive: Archive
    member: str


@dataclass(frozen=True, slots=True)
class Stories:
    """Articles and their summaries, picked from archives of stories by a list of addresses; see ``extract_stories``."""

    archives: tuple[Archive, ...]
    addresses: Archive


#: A text per language, or one for both.
Part = Mapping[str, Text] | Columns | Stories


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedPairs:
    """A published corpus of pairs.

    Attributes:
        name: Name of the corpus.
        about: Contents, terms of use and home page.
        languages: Source and target language in the usual direction, or names of the sides where both are one language.
        parts: For each split, the parts it is joined from.
        rule: Rule by which the splits that are not published are taken from the training text.
        stems: For each split, the file name without language in a local copy.
        task: What its pairs are for.
    """

    name: str
    about: str
    languages: tuple[str, str]
    parts: Mapping[SplitName, Sequence[Part]]
    rule: SplitRule | None = None
    stems: Mapping[SplitName, str]
    task: PairTask = "translation"

    def text_files(self, src: Path, tgt: Path, split: SplitName) -> TextFiles:
        """Two files of the corpus as a source of pairs."""
        if self.task == "summarization":
            return TextFiles(src, tgt, check_ratio=False, max_characters=MAX_DOCUMENT_CHARACTERS)
        return TextFiles(src, tgt, check_ratio=split == "train", max_characters=MAX_CHARACTERS)


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedExamples:
    """A published corpus of labelled sentences or pairs.

    Attributes:
        name: Name of the corpus.
        about: Contents, terms of use and home page.
        parts: For each split, its texts, whose markup makes them label, tab and sentences.
        rule: Rule by which the splits that are not published are taken from the training text.
    """

    name: str
    about: str
    parts: Mapping[SplitName, Sequence[Text]]
    rule: SplitRule | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedText:
    """A published running text.

    Attributes:
        name: Name of the corpus.
        about: Contents, terms of use and home page.
        parts: For each split, its texts; with ``train`` alone, the end of that is held out.
    """

    name: str
    about: str
    parts: Mapping[SplitName, Sequence[Text]]


PublishedCorpus = PublishedPairs | PublishedExamples | PublishedText
