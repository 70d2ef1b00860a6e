"""The corpora known by name: where they are published, what is in them, and how they are divided."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from lite_nlp.data.download import Archive, OnProgress, extract, fetch
from lite_nlp.data.holdout import EveryNth, HoldOut, SplitName, SplitRule
from lite_nlp.data.prepare import Corpus
from lite_nlp.data.readers import PairSource, TextFiles, TsvFile, open_text
from lite_nlp.errors import DataError
from lite_nlp.files import atomic_file

__all__ = ["CORPORA", "NamedCorpus", "corpus_languages", "download_corpus", "local_corpus"]

Markup = Literal["none", "segments", "talks"]


@dataclass(frozen=True, slots=True)
class Text:
    """The text of one language: a member of an archive, or the archive itself if ``member`` is None."""

    archive: Archive
    member: str | None = None
    markup: Markup = "none"


@dataclass(frozen=True, slots=True)
class Columns:
    """Both languages in one tab-separated member of an archive, the source language of the corpus first."""

    archive: Archive
    member: str
    columns: int


#: A text per language, or one for both.
Part = Mapping[str, Text] | Columns


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedCorpus:
    """A published corpus.

    Attributes:
        name: What ``--corpus`` calls it.
        about: What it is, its terms and its home page.
        languages: Source and target language in the usual direction.
        parts: For each split, what it is made of.
        rule: How the splits that are not published are taken from the training text.
        stems: For each split, the file name without language in a local copy.
    """

    name: str
    about: str
    languages: tuple[str, str]
    parts: Mapping[SplitName, Sequence[Part]]
    rule: SplitRule | None = None
    stems: Mapping[SplitName, str]


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
        splits[split] = [TextFiles(src, tgt, check_ratio=split == "train")]
    if missing:
        raise DataError(f"{directory}: expected a copy of {corpus.name}, found no {', '.join(missing)}")
    return Corpus(splits=splits)


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
    paths: dict[Archive, Path] = {}
    for archive in _archives(corpus):
        paths[archive] = fetch(archive, cache, on_progress=on_progress, pause_s=pause_s)
    texts = _extract_all(corpus, paths, cache / corpus.name)
    splits: dict[SplitName, list[PairSource]] = {}
    for split, parts in corpus.parts.items():
        splits[split] = []
        for part in parts:
            if isinstance(part, Columns):
                path = texts[part.archive, part.member]
                splits[split].append(TsvFile(path, columns=part.columns, swap=languages != corpus.languages))
            else:
                src, tgt = (_plain(part[language], texts) for language in languages)
                splits[split].append(TextFiles(src, tgt, check_ratio=split == "train"))
    return Corpus(splits=splits, rule=corpus.rule)


def _archives(corpus: NamedCorpus) -> list[Archive]:
    """Each archive once, in the order of the parts."""
    return list(dict.fromkeys(archive for archive, _ in _members(corpus)))


def _members(corpus: NamedCorpus) -> list[tuple[Archive, str | None]]:
    members: list[tuple[Archive, str | None]] = []
    for parts in corpus.parts.values():
        for part in parts:
            texts = [part] if isinstance(part, Columns) else list(part.values())
            members += [(text.archive, text.member) for text in texts]
    return members


def _extract_all(
    corpus: NamedCorpus, paths: Mapping[Archive, Path], out: Path
) -> dict[tuple[Archive, str | None], Path]:
    """Where each member is; all members of an archive are taken in one pass over it."""
    texts: dict[tuple[Archive, str | None], Path] = {}
    for archive, path in paths.items():
        names = [member for of, member in _members(corpus) if of == archive and member is not None]
        for name, extracted in zip(names, extract(path, names, out / path.name) if names else [], strict=True):
            texts[archive, name] = extracted
        texts[archive, None] = path
    return texts


def _plain(text: Text, texts: Mapping[tuple[Archive, str | None], Path]) -> Path:
    """The text with one sentence per line: itself, or a copy beside it without its markup."""
    path = texts[text.archive, text.member]
    if text.markup == "none":
        return path
    plain = path.with_name(path.name + ".txt")
    if not plain.is_file():
        with open_text(path) as marked, atomic_file(plain) as partial, partial.open("wb") as file:
            for line in marked:
                sentence = _segment(line) if text.markup == "segments" else _talk_line(line)
                if sentence is not None:
                    file.write(sentence.strip() + b"\n")
    return plain


def _segment(line: bytes) -> bytes | None:
    """The sentence of a line of an SGML test set; None for a line without one."""
    match = re.search(rb"<seg[^>]*>(.*?)</seg>", line)
    return match[1] if match else None


def _talk_line(line: bytes) -> bytes | None:
    """A line of the transcribed talks; None for what is about a talk but has no translation."""
    if re.match(rb"\s*<(url|talkid|keywords|speaker|reviewer|translator)\b", line):
        return None
    # Title and description are translated; other angle brackets are the speaker's own.
    return re.sub(rb"</?(title|description)>", b"", line)


_MULTI30K = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
_SHAKESPEARE = "https://raw.githubusercontent.com/harsh19/Shakespearizing-Modern-English/master/data"
_IWSLT = Archive(
    "http://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz", checksum="md5:10936dfdf616504ddbd844e91b94ef4a"
)
_EUROPARL = Archive("https://www.statmt.org/wmt13/training-parallel-europarl-v7.tgz")
_COMMON_CRAWL = Archive("https://www.statmt.org/wmt13/training-parallel-commoncrawl.tgz")
_UNITED_NATIONS = Archive("https://www.statmt.org/wmt13/training-parallel-un.tgz")
_NEWS_COMMENTARY = Archive("https://www.statmt.org/wmt14/training-parallel-nc-v9.tgz")
_GIGA_FREN = Archive("https://www.statmt.org/wmt10/training-giga-fren.tar", size=2_595_102_720)
_NEWS_DEV = Archive("https://data.statmt.org/wmt17/translation-task/dev.tgz")
_NEWS_TEST = Archive("https://www.statmt.org/wmt14/test-full.tgz")

#: The splits in local copies of most corpora.
_STEMS: Final[Mapping[SplitName, str]] = {"train": "train", "valid": "valid", "test": "test"}


def _files(url: str, languages: Sequence[str]) -> Mapping[str, Text]:
    """One download per language."""
    return {language: Text(Archive(url.format(language))) for language in languages}


def _aligned(archive: Archive, stem: str, languages: Sequence[str], suffix: str = "") -> Mapping[str, Text]:
    """Two members of an archive that differ in the language at their end."""
    return {language: Text(archive, f"{stem}.{language}{suffix}") for language in languages}


def _news(archive: Archive, stem: str, src: str, tgt: str) -> Mapping[str, Text]:
    """Source and reference of a news test set."""
    return {
        src: Text(archive, f"{stem}-src.{src}.sgm", "segments"),
        tgt: Text(archive, f"{stem}-ref.{tgt}.sgm", "segments"),
    }


def _talks(year: str) -> Mapping[str, Text]:
    return {
        language: Text(_IWSLT, f"de-en/IWSLT14.{year}.de-en.{language}.xml", "segments") for language in ("de", "en")
    }


CORPORA: Final[Mapping[str, NamedCorpus]] = {
    corpus.name: corpus
    for corpus in (
        NamedCorpus(
            name="multi30k",
            about="29,000 image descriptions (Elliott et al. 2016), research use, https://github.com/multi30k/dataset",
            languages=("en", "de"),
            parts={
                "train": [_files(f"{_MULTI30K}/train.{{}}.gz", ("en", "de"))],
                "valid": [_files(f"{_MULTI30K}/val.{{}}.gz", ("en", "de"))],
                "test": [_files(f"{_MULTI30K}/test_2016_flickr.{{}}.gz", ("en", "de"))],
            },
            stems={"train": "train", "valid": "val", "test": "test2016"},
        ),
        NamedCorpus(
            name="tatoeba",
            about="Everyday sentences of the Tatoeba project, CC BY 2.0 FR, https://www.manythings.org/anki",
            languages=("en", "de"),
            parts={"train": [Columns(Archive("https://www.manythings.org/anki/deu-eng.zip"), "deu.txt", 3)]},
            rule=HoldOut(valid_pairs=2_000, test_pairs=2_000),
            stems=_STEMS,
        ),
        NamedCorpus(
            name="iwslt14",
            about="160,000 sentences of TED talks, CC BY-NC-ND, divided as usual: every 23rd pair to validate",
            languages=("de", "en"),
            parts={
                "train": [
                    {language: Text(_IWSLT, f"de-en/train.tags.de-en.{language}", "talks") for language in ("de", "en")}
                ],
                "test": [
                    _talks(year)
                    for year in ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")
                ],
            },
            rule=EveryNth(23),
            stems=_STEMS,
        ),
        NamedCorpus(
            name="wmt14-en-de",
            about="4.5 million sentences, https://www.statmt.org/wmt14: newstest2013 to validate, newstest2014 to test",
            languages=("en", "de"),
            parts={
                "train": [
                    _aligned(_EUROPARL, "training/europarl-v7.de-en", ("en", "de")),
                    _aligned(_COMMON_CRAWL, "commoncrawl.de-en", ("en", "de")),
                    _aligned(_NEWS_COMMENTARY, "training/news-commentary-v9.de-en", ("en", "de")),
                ],
                "valid": [_news(_NEWS_DEV, "dev/newstest2013", "en", "de")],
                "test": [_news(_NEWS_TEST, "test-full/newstest2014-deen", "en", "de")],
            },
            stems=_STEMS,
        ),
        NamedCorpus(
            name="wmt14-en-fr",
            about="36 million sentences, https://www.statmt.org/wmt14: newstest2013 to validate, newstest2014 to test",
            languages=("en", "fr"),
            parts={
                "train": [
                    _aligned(_EUROPARL, "training/europarl-v7.fr-en", ("en", "fr")),
                    _aligned(_COMMON_CRAWL, "commoncrawl.fr-en", ("en", "fr")),
                    _aligned(_UNITED_NATIONS, "un/undoc.2000.fr-en", ("en", "fr")),
                    _aligned(_NEWS_COMMENTARY, "training/news-commentary-v9.fr-en", ("en", "fr")),
                    _aligned(_GIGA_FREN, "giga-fren.release2.fixed", ("en", "fr"), ".gz"),
                ],
                "valid": [_news(_NEWS_DEV, "dev/newstest2013", "en", "fr")],
                "test": [_news(_NEWS_TEST, "test-full/newstest2014-fren", "en", "fr")],
            },
            stems=_STEMS,
        ),
        NamedCorpus(
            name="shakespeare",
            about="18,395 modern lines and Shakespeare's own (Jhamtani et al. 2017), "
            "https://github.com/harsh19/Shakespearizing-Modern-English",
            languages=("modern", "original"),
            parts={split: [_files(f"{_SHAKESPEARE}/{split}.{{}}.nltktok", ("modern", "original"))] for split in _STEMS},
            stems=_STEMS,
        ),
    )
}
