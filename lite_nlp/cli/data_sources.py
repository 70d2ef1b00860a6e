"""From the options of ``lite-nlp data prepare`` to the corpora that they name."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from lite_nlp.cli.console import err

if TYPE_CHECKING:
    from lite_nlp.data.holdout import HoldOut, SplitName
    from lite_nlp.data.labelled.readers import LabelledCorpus
    from lite_nlp.data.pairs.directory import PairTask
    from lite_nlp.data.pairs.prepare import Corpus, OnProgress
    from lite_nlp.data.pairs.readers import PairSource
    from lite_nlp.data.text.prepare import TextCorpus

__all__ = [
    "PairFiles",
    "corpus_of_files",
    "labelled_corpus",
    "languages_of_files",
    "published_corpus",
    "published_examples",
    "published_text",
    "text_corpus",
]

#: Source and target files by split.
PairFiles = Mapping[str, list[tuple[Path, Path]]]


def corpus_of_files(
    files: PairFiles, held_out: Mapping[str, int | None], tsv: list[Path], task: "PairTask"
) -> "Corpus":
    """Pairs in files, with the splits that are given or asked for; those to summarize may be long and unlike."""
    from lite_nlp.data.pairs.prepare import Corpus
    from lite_nlp.data.pairs.readers import MAX_CHARACTERS, MAX_DOCUMENT_CHARACTERS, TextFiles, TsvFile

    long = task == "summarization"
    bound = MAX_DOCUMENT_CHARACTERS if long else MAX_CHARACTERS
    splits: dict[SplitName, list[PairSource]] = {
        "train": [TsvFile(path, check_ratio=not long, max_characters=bound) for path in tsv]
    }
    names: tuple[SplitName, ...] = ("train", "valid", "test")
    for name in names:
        splits.setdefault(name, []).extend(
            TextFiles(*pair, check_ratio=name == "train" and not long, max_characters=bound) for pair in files[name]
        )
    rule = _hold_out(held_out, has_splits=bool(splits["valid"] or splits["test"]))
    given = {name: sources for name, sources in splits.items() if sources}
    return Corpus(splits=given, rule=rule if rule.splits else None, task=task)


def languages_of_files(train: list[tuple[Path, Path]], src_lang: str | None, tgt_lang: str | None) -> tuple[str, str]:
    """Languages asked for, else the endings of the file names, else ``src`` and ``tgt``."""
    ends = [path.name.removesuffix(".gz").rpartition(".")[2] for path in (train[0] if train else ())]
    if len(set(ends)) != 2 or not all(re.fullmatch("[a-z]{2,3}", end) for end in ends):
        ends = ["src", "tgt"]
    return src_lang or ends[0], tgt_lang or ends[1]


def published_corpus(
    name: str,
    from_dir: Path | None,
    cache: Path | None,
    asked: tuple[str | None, str | None],
    on_progress: "OnProgress",
) -> tuple["Corpus", tuple[str, str]]:
    """A published corpus, from a copy or downloaded, and its languages in the direction that is asked for."""
    from lite_nlp.data.published.catalogue import CORPORA
    from lite_nlp.data.published.corpora import corpus_languages, download_corpus, local_corpus
    from lite_nlp.data.published.download import default_cache

    corpus = CORPORA[name]
    languages = corpus_languages(corpus, *asked)
    if from_dir is not None:
        return local_corpus(corpus, from_dir, languages), languages
    err.print(f"{corpus.name}: {corpus.about}", markup=False, soft_wrap=True)
    return download_corpus(corpus, cache or default_cache(), languages, on_progress=on_progress), languages


def text_corpus(train: list[Path], valid: list[Path], test: list[Path]) -> "TextCorpus":
    """Running text; who brings a validation or test text of their own wants none held out."""
    from lite_nlp.data.text.prepare import TextCorpus

    splits: dict[SplitName, list[Path]] = {"train": train, "valid": valid, "test": test}
    given = {name: paths for name, paths in splits.items() if paths}
    return TextCorpus(splits=given, hold_out=set(given) == {"train"})


def labelled_corpus(
    train: list[Path], valid: list[Path], test: list[Path], held_out: Mapping[str, int | None]
) -> "LabelledCorpus":
    """Labelled examples, with the splits that are given or asked for."""
    from lite_nlp.data.labelled.readers import LabelledCorpus, LabelledFile

    files: dict[SplitName, list[Path]] = {"train": train, "valid": valid, "test": test}
    given = {name: [LabelledFile(path) for path in paths] for name, paths in files.items() if paths}
    rule = _hold_out(held_out, has_splits=bool(valid or test))
    return LabelledCorpus(splits=given, rule=rule if rule.splits else None)


def _hold_out(held_out: Mapping[str, int | None], *, has_splits: bool) -> "HoldOut":
    """Who brings a split of their own wants no other, unless they say how many pairs."""
    from lite_nlp.data.holdout import HoldOut

    default = 0 if has_splits else None
    return HoldOut(
        valid_pairs=default if held_out["valid"] is None else held_out["valid"],
        test_pairs=default if held_out["test"] is None else held_out["test"],
    )


def published_examples(
    name: str, from_dir: Path | None, cache: Path | None, on_progress: "OnProgress"
) -> "LabelledCorpus":
    """Published labelled examples, from a copy or downloaded."""
    from lite_nlp.data.published.catalogue import EXAMPLES
    from lite_nlp.data.published.corpora import download_examples, local_examples
    from lite_nlp.data.published.download import default_cache

    corpus = EXAMPLES[name]
    if from_dir is not None:
        return local_examples(corpus, from_dir)
    err.print(f"{corpus.name}: {corpus.about}", markup=False, soft_wrap=True)
    return download_examples(corpus, cache or default_cache(), on_progress=on_progress)


def published_text(name: str, from_dir: Path | None, cache: Path | None, on_progress: "OnProgress") -> "TextCorpus":
    """Published running text, from a copy or downloaded."""
    from lite_nlp.data.published.catalogue import TEXTS
    from lite_nlp.data.published.corpora import download_text, local_text
    from lite_nlp.data.published.download import default_cache

    corpus = TEXTS[name]
    if from_dir is not None:
        return local_text(corpus, from_dir)
    err.print(f"{corpus.name}: {corpus.about}", markup=False, soft_wrap=True)
    return download_text(corpus, cache or default_cache(), on_progress=on_progress)
