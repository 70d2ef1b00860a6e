"""Published corpora on this machine: from a local copy, or downloaded."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from lite_nlp.core.cache import cache_folder
from lite_nlp.core.errors import DataError
from lite_nlp.core.progress import Progress
from lite_nlp.data.choices import SplitName
from lite_nlp.data.labelled.readers import LabelledCorpus, LabelledFile
from lite_nlp.data.pairs.corpus import Pair, PairCorpus
from lite_nlp.data.pairs.readers import TsvFile
from lite_nlp.data.published.archives import extract
from lite_nlp.data.published.download import check_cache, fetch
from lite_nlp.data.published.entries import (
    Archive,
    Columns,
    PublishedCorpus,
    PublishedExamples,
    PublishedPairs,
    PublishedText,
    Stories,
    Text,
)
from lite_nlp.data.published.markup import plain_text
from lite_nlp.data.published.stories import ARTICLE, HIGHLIGHTS, extract_stories
from lite_nlp.data.sources import ItemSource
from lite_nlp.data.text.readers import TextCorpus, text_in_files

__all__ = [
    "corpus_languages",
    "download_examples",
    "download_pairs",
    "download_text",
    "local_examples",
    "local_pairs",
    "local_text",
    "open_published",
]

#: Receiver of remarks, if there is one.
Say: TypeAlias = Callable[[str], None] | None


def open_published(
    corpus: PublishedCorpus,
    *,
    from_dir: Path | None,
    cache: Path | None,
    src_lang: str | None,
    tgt_lang: str | None,
    progress: Progress,
    say: Say = None,
) -> PairCorpus | LabelledCorpus | TextCorpus:
    """Open a corpus of the catalogue.

    Args:
        corpus: Its entry.
        from_dir: Directory with a copy of it; None to download it.
        cache: Directory for downloads; None for :func:`~lite_nlp.core.cache.cache_folder`.
        src_lang: Source language of pairs; None for the usual direction.
        tgt_lang: Target language of pairs.
        progress: Receiver of the progress of downloads.
        say: Receiver of remarks on downloads that nobody has published a checksum of.

    Raises:
        DataError: If the corpus is not in those languages, the copy is incomplete, or a download fails.
        OutputError: If the cache cannot be written.
    """
    place = cache or cache_folder()
    if from_dir is None:
        check_cache(place)
    if isinstance(corpus, PublishedPairs):
        languages = corpus_languages(corpus, src_lang, tgt_lang)
        if from_dir is None:
            return download_pairs(corpus, place, languages, progress=progress, say=say)
        return local_pairs(corpus, from_dir, languages)
    if isinstance(corpus, PublishedExamples):
        if from_dir is None:
            return download_examples(corpus, place, progress=progress, say=say)
        return local_examples(corpus, from_dir)
    if from_dir is None:
        return download_text(corpus, place, progress=progress, say=say)
    return local_text(corpus, from_dir)


def corpus_languages(corpus: PublishedPairs, src_lang: str | None, tgt_lang: str | None) -> tuple[str, str]:
    """Source and target language of a corpus: those asked for, else those of its usual direction.

    Raises:
        DataError: If the corpus is not in those languages.
    """
    first, second = corpus.languages
    for src, tgt in ((first, second), (second, first)):
        if src_lang in (None, src) and tgt_lang in (None, tgt):
            return src, tgt
    asked = " and ".join(language for language in (src_lang, tgt_lang) if language)
    raise DataError(f"corpus {corpus.name}: expected the languages {first} and {second}, found {asked}")


def local_pairs(corpus: PublishedPairs, directory: Path, languages: tuple[str, str]) -> PairCorpus:
    """The pairs in a local copy: ``{stem}.{language}``, or the same with ``.gz``, for each split and language.

    Raises:
        DataError: If a file is missing.
    """
    splits: dict[SplitName, list[ItemSource[Pair]]] = {}
    missing: list[str] = []
    for split, stem in corpus.stems.items():
        src, tgt = (_local_file(directory, f"{stem}.{language}", missing) for language in languages)
        splits[split] = [corpus.text_files(src, tgt, split)]
    _check_copy(directory, corpus.name, missing)
    return PairCorpus(splits=splits, languages=languages, task=corpus.task)


def local_examples(corpus: PublishedExamples, directory: Path) -> LabelledCorpus:
    """The examples in a local copy: ``{split}.tsv``, or the same with ``.gz``, of label, tab and sentences.

    Raises:
        DataError: If a file is missing.
    """
    missing: list[str] = []
    splits = {split: [LabelledFile(_local_file(directory, f"{split}.tsv", missing))] for split in corpus.parts}
    _check_copy(directory, corpus.name, missing)
    return LabelledCorpus(splits=splits, rule=corpus.rule)


def local_text(corpus: PublishedText, directory: Path) -> TextCorpus:
    """The text in a local copy: ``{split}.txt``, or the same with ``.gz``.

    Raises:
        DataError: If a file is missing.
    """
    missing: list[str] = []
    splits = {split: [_local_file(directory, f"{split}.txt", missing)] for split in corpus.parts}
    _check_copy(directory, corpus.name, missing)
    return text_in_files(splits)


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


def download_pairs(
    corpus: PublishedPairs,
    cache: Path,
    languages: tuple[str, str],
    *,
    progress: Progress,
    say: Say = None,
    pause_s: float = 2.0,
) -> PairCorpus:
    """The pairs from their publisher; what the cache holds is not downloaded again.

    Raises:
        DataError: If a download fails or does not hold what it should.
        OutputError: If the cache cannot be written.
    """
    paths = _fetch_all(_archives(corpus), cache, progress, say, pause_s)
    texts = _extract_all(_texts(corpus), paths, cache / corpus.name)
    stories = _stories(corpus, paths, cache / corpus.name)
    splits: dict[SplitName, list[ItemSource[Pair]]] = {}
    for split, parts in corpus.parts.items():
        splits[split] = []
        for part in parts:
            if isinstance(part, Columns):
                path = texts[Text(part.archive, part.member)]
                splits[split].append(TsvFile(path, columns=(1, 2) if languages == corpus.languages else (2, 1)))
                continue
            files = stories[split] if isinstance(part, Stories) else {key: texts[text] for key, text in part.items()}
            src, tgt = (files[language] for language in languages)
            splits[split].append(corpus.text_files(src, tgt, split))
    return PairCorpus(splits=splits, rule=corpus.rule, languages=languages, task=corpus.task)


def download_examples(
    corpus: PublishedExamples, cache: Path, *, progress: Progress, say: Say = None, pause_s: float = 2.0
) -> LabelledCorpus:
    """The labelled examples from their publisher; see :func:`download_pairs`."""
    texts = _download_texts(corpus.name, corpus.parts, cache, progress, say, pause_s)
    splits = {split: [LabelledFile(texts[text]) for text in parts] for split, parts in corpus.parts.items()}
    return LabelledCorpus(splits=splits, rule=corpus.rule)


def download_text(
    corpus: PublishedText, cache: Path, *, progress: Progress, say: Say = None, pause_s: float = 2.0
) -> TextCorpus:
    """The running text from its publisher; see :func:`download_pairs`."""
    texts = _download_texts(corpus.name, corpus.parts, cache, progress, say, pause_s)
    splits = {split: [texts[text] for text in parts] for split, parts in corpus.parts.items()}
    return text_in_files(splits)


def _download_texts(
    name: str, parts: Mapping[SplitName, Sequence[Text]], cache: Path, progress: Progress, say: Say, pause_s: float
) -> dict[Text, Path]:
    """Where each text is, without its markup."""
    texts = [text for group in parts.values() for text in group]
    paths = _fetch_all((text.archive for text in texts), cache, progress, say, pause_s)
    return _extract_all(texts, paths, cache / name)


def _archives(corpus: PublishedPairs) -> list[Archive]:
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


def _texts(corpus: PublishedPairs) -> list[Text]:
    """All texts that are a file, or a member of an archive."""
    texts: list[Text] = []
    for part in (part for parts in corpus.parts.values() for part in parts):
        if isinstance(part, Columns):
            texts.append(Text(part.archive, part.member))
        elif not isinstance(part, Stories):
            texts += part.values()
    return texts


def _fetch_all(
    archives: Iterable[Archive], cache: Path, progress: Progress, say: Say, pause_s: float
) -> dict[Archive, Path]:
    """Where each archive is in the cache; each is downloaded once."""
    return {
        archive: fetch(archive, cache, progress=progress, say=say, pause_s=pause_s)
        for archive in dict.fromkeys(archives)
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


def _stories(corpus: PublishedPairs, paths: Mapping[Archive, Path], out: Path) -> dict[SplitName, dict[str, Path]]:
    """The two files of each split that is made of stories, by what the sides are called."""
    picked = {split: part for split, parts in corpus.parts.items() for part in parts if isinstance(part, Stories)}
    if not picked:
        return {}
    archives = list(dict.fromkeys(archive for part in picked.values() for archive in part.archives))
    addresses = {split: paths[part.addresses] for split, part in picked.items()}
    written = extract_stories([paths[archive] for archive in archives], addresses, out / "stories")
    return {split: {ARTICLE: article, HIGHLIGHTS: highlights} for split, (article, highlights) in written.items()}
