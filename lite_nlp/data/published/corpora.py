"""What a published corpus is made of, and how it comes to this machine."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lite_nlp.core.errors import DataError
from lite_nlp.data.holdout import SplitName, SplitRule
from lite_nlp.data.labelled.readers import LabelledCorpus, LabelledFile
from lite_nlp.data.pairs.directory import PairTask
from lite_nlp.data.pairs.prepare import Corpus
from lite_nlp.data.pairs.readers import MAX_CHARACTERS, MAX_DOCUMENT_CHARACTERS, PairSource, TextFiles, TsvFile
from lite_nlp.data.published.download import Archive, OnProgress, extract, fetch
from lite_nlp.data.published.markup import Markup, plain_text
from lite_nlp.data.published.stories import ARTICLE, HIGHLIGHTS, extract_stories
from lite_nlp.data.text.prepare import TextCorpus

__all__ = [
    "Columns",
    "NamedCorpus",
    "NamedExamples",
    "NamedText",
    "Stories",
    "Text",
    "corpus_languages",
    "download_corpus",
    "download_examples",
    "download_text",
    "local_corpus",
    "local_examples",
    "local_text",
]


@dataclass(frozen=True, slots=True)
class Text:
    """One text: a member of an archive, or the archive itself if ``member`` is None."""

    archive: Archive
    member: str | None = None
    markup: Markup = "none"


@dataclass(frozen=True, slots=True)
class Columns:
    """Both languages in one tab-separated member of an archive, the source language of the corpus first."""

    archive: Archive
    member: str
    columns: int


@dataclass(frozen=True, slots=True)
class Stories:
    """Articles and their summaries, picked from archives of stories by a list of addresses; see ``extract_stories``."""

    archives: tuple[Archive, ...]
    addresses: Archive


#: A text per language, or one for both.
Part = Mapping[str, Text] | Columns | Stories


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedCorpus:
    """A published corpus of pairs.

    Attributes:
        name: What ``--corpus`` calls it.
        about: What it is, its terms and its home page.
        languages: Source and target language in the usual direction; what the two sides are where it is not that.
        parts: For each split, what it is made of.
        rule: How the splits that are not published are taken from the training text.
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
class NamedExamples:
    """A published corpus of labelled sentences or pairs.

    Attributes:
        name: What ``--corpus`` calls it.
        about: What it is, its terms and its home page.
        parts: For each split, its texts, whose markup makes them label, tab and sentences.
        rule: How the splits that are not published are taken from the training text.
    """

    name: str
    about: str
    parts: Mapping[SplitName, Sequence[Text]]
    rule: SplitRule | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedText:
    """A published running text.

    Attributes:
        name: What ``--corpus`` calls it.
        about: What it is, its terms and its home page.
        parts: For each split, its texts; with ``train`` alone, the end of that is held out.
    """

    name: str
    about: str
    parts: Mapping[SplitName, Sequence[Text]]


def corpus_languages(corpus: NamedCorpus, src_lang: str | None, tgt_lang: str | None) -> tuple[str, str]:
    """Source and target language: those asked for, or the corpus's own where none are.

    Raises:
        DataError: If the corpus is not in those languages.
    """
    first, second = corpus.languages
    for src, tgt in ((first, second), (second, first)):
        if src_lang in (None, src) and tgt_lang in (None, tgt):
            return src, tgt
    asked = " and ".join(language for language in (src_lang, tgt_lang) if language)
    raise DataError(f"corpus {corpus.name}: expected the languages {first} and {second}, found {asked}")


def local_corpus(corpus: NamedCorpus, directory: Path, languages: tuple[str, str]) -> Corpus:
    """The corpus in a local copy: ``{stem}.{language}``, or the same with ``.gz``, for each split and language.

    Raises:
        DataError: If a file is missing.
    """
    splits: dict[SplitName, list[PairSource]] = {}
    missing: list[str] = []
    for split, stem in corpus.stems.items():
        src, tgt = (_local_file(directory, f"{stem}.{language}", missing) for language in languages)
        splits[split] = [corpus.text_files(src, tgt, split)]
    _check_copy(directory, corpus.name, missing)
    return Corpus(splits=splits, task=corpus.task)


def local_examples(corpus: NamedExamples, directory: Path) -> LabelledCorpus:
    """The corpus in a local copy: ``{split}.tsv``, or the same with ``.gz``, of label, tab and sentences.

    Raises:
        DataError: If a file is missing.
    """
    missing: list[str] = []
    splits = {split: [LabelledFile(_local_file(directory, f"{split}.tsv", missing))] for split in corpus.parts}
    _check_copy(directory, corpus.name, missing)
    return LabelledCorpus(splits=splits, rule=corpus.rule)


def local_text(corpus: NamedText, directory: Path) -> TextCorpus:
    """The text in a local copy: ``{split}.txt``, or the same with ``.gz``.

    Raises:
        DataError: If a file is missing.
    """
    missing: list[str] = []
    splits = {split: [_local_file(directory, f"{split}.txt", missing)] for split in corpus.parts}
    _check_copy(directory, corpus.name, missing)
    return TextCorpus(splits=splits, hold_out=set(corpus.parts) == {"train"})


def _check_copy(directory: Path, name: str, missing: Sequence[str]) -> None:
    if missing:
        raise DataError(f"{directory}: expected a copy of {name}, found no {', '.join(missing)}")


def _local_file(directory: Path, name: str, missing: list[str]) -> Path:
    path = directory / f"{name}.gz"
    if not path.is_file():
        path = directory / name
    if not path.is_file():
        missing.append(f"{name}[.gz]")
    return path


def download_corpus(
    corpus: NamedCorpus, cache: Path, languages: tuple[str, str], *, on_progress: OnProgress, pause_s: float = 2.0
) -> Corpus:
    """The corpus from its publisher; what the cache holds is not downloaded again.

    Raises:
        DataError: If a download fails or does not hold what it should.
        OutputError: If the cache cannot be written.
    """
    paths = _fetch_all(_archives(corpus), cache, on_progress, pause_s)
    texts = _extract_all(_texts(corpus), paths, cache / corpus.name)
    stories = _stories(corpus, paths, cache / corpus.name)
    splits: dict[SplitName, list[PairSource]] = {}
    for split, parts in corpus.parts.items():
        splits[split] = []
        for part in parts:
            if isinstance(part, Columns):
                path = texts[Text(part.archive, part.member)]
                splits[split].append(TsvFile(path, columns=part.columns, swap=languages != corpus.languages))
                continue
            files = stories[split] if isinstance(part, Stories) else {key: texts[text] for key, text in part.items()}
            src, tgt = (files[language] for language in languages)
            splits[split].append(corpus.text_files(src, tgt, split))
    return Corpus(splits=splits, rule=corpus.rule, task=corpus.task)


def download_examples(
    corpus: NamedExamples, cache: Path, *, on_progress: OnProgress, pause_s: float = 2.0
) -> LabelledCorpus:
    """The labelled examples from their publisher; see ``download_corpus``."""
    texts = _download_texts(corpus.name, corpus.parts, cache, on_progress, pause_s)
    splits = {split: [LabelledFile(texts[text]) for text in parts] for split, parts in corpus.parts.items()}
    return LabelledCorpus(splits=splits, rule=corpus.rule)


def download_text(corpus: NamedText, cache: Path, *, on_progress: OnProgress, pause_s: float = 2.0) -> TextCorpus:
    """The running text from its publisher; see ``download_corpus``."""
    texts = _download_texts(corpus.name, corpus.parts, cache, on_progress, pause_s)
    splits = {split: [texts[text] for text in parts] for split, parts in corpus.parts.items()}
    return TextCorpus(splits=splits, hold_out=set(splits) == {"train"})


def _download_texts(
    name: str, parts: Mapping[SplitName, Sequence[Text]], cache: Path, on_progress: OnProgress, pause_s: float
) -> dict[Text, Path]:
    """Where each text is, without its markup."""
    texts = [text for group in parts.values() for text in group]
    paths = _fetch_all((text.archive for text in texts), cache, on_progress, pause_s)
    return _extract_all(texts, paths, cache / name)


def _archives(corpus: NamedCorpus) -> list[Archive]:
    """The archives in the order of the parts."""
    found: list[Archive] = []
    for part in (part for parts in corpus.parts.values() for part in parts):
        if isinstance(part, Stories):
            found += [*part.archives, part.addresses]
        elif isinstance(part, Columns):
            found.append(part.archive)
        else:
            found += [text.archive for text in part.values()]
    return found


def _texts(corpus: NamedCorpus) -> list[Text]:
    """All texts that are a file, or a member of an archive."""
    texts: list[Text] = []
    for part in (part for parts in corpus.parts.values() for part in parts):
        if isinstance(part, Columns):
            texts.append(Text(part.archive, part.member))
        elif not isinstance(part, Stories):
            texts += part.values()
    return texts


def _fetch_all(
    archives: Iterable[Archive], cache: Path, on_progress: OnProgress, pause_s: float
) -> dict[Archive, Path]:
    """Where each archive is in the cache; each is downloaded once."""
    return {
        archive: fetch(archive, cache, on_progress=on_progress, pause_s=pause_s) for archive in dict.fromkeys(archives)
    }


def _extract_all(texts: Sequence[Text], paths: Mapping[Archive, Path], out: Path) -> dict[Text, Path]:
    """Where each text is, without its markup; all members of an archive are taken in one pass over it."""
    places: dict[tuple[Archive, str | None], Path] = {}
    for archive, path in paths.items():
        names = [text.member for text in texts if text.archive == archive and text.member is not None]
        for name, extracted in zip(names, extract(path, names, out / path.name) if names else [], strict=True):
            places[archive, name] = extracted
        places[archive, None] = path
    return {text: plain_text(places[text.archive, text.member], text.markup) for text in texts}


def _stories(corpus: NamedCorpus, paths: Mapping[Archive, Path], out: Path) -> dict[SplitName, dict[str, Path]]:
    """The two files of each split that is made of stories, by what the sides are called."""
    picked = {split: part for split, parts in corpus.parts.items() for part in parts if isinstance(part, Stories)}
    if not picked:
        return {}
    archives = list(dict.fromkeys(archive for part in picked.values() for archive in part.archives))
    addresses = {split: paths[part.addresses] for split, part in picked.items()}
    written = extract_stories([paths[archive] for archive in archives], addresses, out / "stories")
    return {split: {ARTICLE: article, HIGHLIGHTS: highlights} for split, (article, highlights) in written.items()}
