"""Preparation of corpora as data directories, behind ``lite-nlp data prepare``."""

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Final, TypeVar, cast, get_args

from lite_nlp.core.errors import UsageError
from lite_nlp.core.extras import needs_extra
from lite_nlp.core.files import check_output
from lite_nlp.core.progress import Progress, SilentProgress
from lite_nlp.core.suggestions import did_you_mean
from lite_nlp.data.choices import Normalization, PairTask, SplitName
from lite_nlp.data.labelled.directory import LabelledInfo
from lite_nlp.data.labelled.prepare import prepare_labelled
from lite_nlp.data.labelled.readers import LabelledCorpus, examples_in_files
from lite_nlp.data.pairs.directory import PairInfo
from lite_nlp.data.pairs.prepare import prepare_pairs
from lite_nlp.data.pairs.readers import PairCorpus, languages_of_names, pairs_in_files
from lite_nlp.data.preparation import VocabularyOptions
from lite_nlp.data.published.catalogue import CORPORA
from lite_nlp.data.published.corpora import open_published
from lite_nlp.data.published.entries import PublishedPairs
from lite_nlp.data.text.directory import TextInfo
from lite_nlp.data.text.prepare import prepare_text
from lite_nlp.data.text.readers import TextCorpus, text_in_files
from lite_nlp.data.tokenizer import Tokenizer

__all__ = ["prepare_data"]

StrPath = str | PathLike[str]

#: One file, or several that are read one after the other.
Files = StrPath | Sequence[StrPath]

#: Two aligned files, source and target, or several such pairs.
AlignedFiles = tuple[StrPath, StrPath] | Sequence[tuple[StrPath, StrPath]]

FileT = TypeVar("FileT", Path, tuple[Path, Path])

#: Options that name the corpus; exactly one is given.
_SOURCES: Final = ("--train", "--tsv", "--text", "--labelled", "--corpus")

#: The only source that an option applies to.
_ONLY_WITH: Final[Mapping[str, str]] = {
    "--valid-text": "--text",
    "--test-text": "--text",
    "--valid-labelled": "--labelled",
    "--test-labelled": "--labelled",
    "--from": "--corpus",
}

#: Options of sentence pairs; those of held-out pairs apply to labelled examples too.
_OF_PAIRS: Final = ("--valid", "--test", "--src-lang", "--tgt-lang", "--task")
_HELD_OUT: Final = ("--valid-pairs", "--test-pairs")


@needs_extra("data prepare", "train")
def prepare_data(
    out: StrPath,
    *,
    train: AlignedFiles = (),
    valid: AlignedFiles = (),
    test: AlignedFiles = (),
    tsv: Files = (),
    text: Files = (),
    valid_text: Files = (),
    test_text: Files = (),
    labelled: Files = (),
    valid_labelled: Files = (),
    test_labelled: Files = (),
    corpus: str | None = None,
    from_dir: StrPath | None = None,
    cache: StrPath | None = None,
    task: PairTask | None = None,
    src_lang: str | None = None,
    tgt_lang: str | None = None,
    valid_pairs: int | None = None,
    test_pairs: int | None = None,
    vocab_size: int = 8_000,
    lowercase: bool = False,
    normalization: Normalization = "none",
    tokenizer: StrPath | Tokenizer | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> PairInfo | TextInfo | LabelledInfo:
    """Write the data directory ``out``, complete or not at all.

    The arguments are the options of ``lite-nlp data prepare``, and errors use the names of those options. Exactly one
    of ``train``, ``tsv``, ``text``, ``labelled`` and ``corpus`` decides what the directory holds: sentence pairs
    (``train``, ``tsv``), running text, or labelled examples; a published corpus is one of the three. Text files are
    UTF-8, plain or gzip. Lines that cannot be used are skipped and counted in the result.

    Args:
        out: The directory to write.
        train: Text files aligned line by line, ``(source, target)`` or several such pairs.
        valid: The same for validation.
        test: The same for test.
        tsv: Files with source, tab, target on each line.
        text: Files of running text for a language model. Without ``valid_text`` and ``test_text`` the last twentieth
            of the lines is for test, the one before it for validation.
        valid_text: The same for validation.
        test_text: The same for test.
        labelled: Files with label, tab, sentence (tab, second sentence) on each line.
        valid_labelled: The same for validation.
        test_labelled: The same for test.
        corpus: Name of a published corpus, a key of :data:`lite_nlp.data.published.catalogue.CORPORA`.
        from_dir: Directory with a copy of the published corpus; None to download it.
        cache: Directory for downloads; None for ``$LITE_NLP_CACHE``, else ``lite-nlp`` in the user's cache directory.
        task: Task of pairs: with ``summarization`` one side may have 100,000 characters. None for translation.
        src_lang: Code of the source language of pairs; None to take it from the corpus or the file names.
        tgt_lang: Code of the target language of pairs.
        valid_pairs: Pairs or labelled examples to hold out for validation; 0 for none; None for 2000 or a twentieth,
            whichever is less, unless a split is given.
        test_pairs: The same for test.
        vocab_size: Size of the vocabulary, which the two languages of pairs share.
        lowercase: Whether the tokenizer lowercases.
        normalization: Unicode normalization form of the tokenizer.
        tokenizer: A tokenizer, or its ``tokenizer.json``, to use instead of training one; the three above then do not
            apply.
        force: Whether to replace an existing ``out``.
        progress: Receiver of progress.

    Returns:
        The content of ``data.json``: kind, tokenizer, and the counts of each split, skipped lines included.

    Raises:
        UsageError: If the arguments exclude each other or do not apply to the kind of data.
        DataError: If a source is missing or damaged, a download fails, or a split has no usable item.
        OutputError: If ``out`` exists and ``force`` is false, or the system refuses the write.
    """
    pairs = _by_split(_aligned(train), _aligned(valid), _aligned(test))
    texts = _by_split(_files(text), _files(valid_text), _files(test_text))
    examples = _by_split(_files(labelled), _files(valid_labelled), _files(test_labelled))
    tables = _files(tsv)
    values = {
        "--train": pairs["train"], "--valid": pairs["valid"], "--test": pairs["test"], "--tsv": tables,
        "--text": texts["train"], "--valid-text": texts["valid"], "--test-text": texts["test"],
        "--labelled": examples["train"], "--valid-labelled": examples["valid"], "--test-labelled": examples["test"],
        "--corpus": corpus, "--from": from_dir, "--src-lang": src_lang, "--tgt-lang": tgt_lang, "--task": task,
        "--valid-pairs": valid_pairs, "--test-pairs": test_pairs,
    }  # fmt: skip
    source = _check_options({option: value for option, value in values.items() if value is not None and value != []})
    _check_choice("--task", task or "translation", get_args(PairTask))
    _check_choice("--normalization", normalization, get_args(Normalization))
    check_output(Path(out), force=force)
    if not isinstance(tokenizer, Tokenizer) and tokenizer is not None:
        tokenizer = Tokenizer.load(Path(tokenizer))
    vocabulary = VocabularyOptions(
        vocab_size=vocab_size, lowercase=lowercase, normalization=normalization, tokenizer=tokenizer
    )
    progress = progress or SilentProgress()
    found: PairCorpus | TextCorpus | LabelledCorpus
    if source == "--text":
        found = text_in_files(texts)
    elif source == "--labelled":
        found = examples_in_files(examples, valid_examples=valid_pairs, test_examples=test_pairs)
    elif corpus is not None:
        found = open_published(
            CORPORA[corpus],
            from_dir=None if from_dir is None else Path(from_dir),
            cache=None if cache is None else Path(cache),
            src_lang=src_lang,
            tgt_lang=tgt_lang,
            progress=progress,
        )
    else:
        src, tgt = (languages_of_names(*pairs["train"][0]) if pairs["train"] else None) or ("src", "tgt")
        found = pairs_in_files(
            pairs,
            tables,
            languages=(src_lang or src, tgt_lang or tgt),
            task=task or "translation",
            valid_pairs=valid_pairs,
            test_pairs=test_pairs,
        )
    return _prepare(Path(out), found, vocabulary, force=force, progress=progress)


def _prepare(
    out: Path,
    corpus: PairCorpus | TextCorpus | LabelledCorpus,
    vocabulary: VocabularyOptions,
    *,
    force: bool,
    progress: Progress,
) -> PairInfo | TextInfo | LabelledInfo:
    if isinstance(corpus, PairCorpus):
        return prepare_pairs(out, corpus, vocabulary=vocabulary, force=force, progress=progress)
    if isinstance(corpus, LabelledCorpus):
        return prepare_labelled(out, corpus, vocabulary=vocabulary, force=force, progress=progress)
    return prepare_text(out, corpus, vocabulary=vocabulary, force=force, progress=progress)


def _by_split(train: list[FileT], valid: list[FileT], test: list[FileT]) -> dict[SplitName, list[FileT]]:
    return {"train": train, "valid": valid, "test": test}


def _files(files: Files) -> list[Path]:
    single = isinstance(files, str | PathLike)
    return [Path(file) for file in cast("Sequence[StrPath]", [files] if single else files)]


def _aligned(files: AlignedFiles) -> list[tuple[Path, Path]]:
    single = bool(files) and isinstance(files[0], str | PathLike)
    pairs = cast("Sequence[tuple[StrPath, StrPath]]", [files] if single else files)
    for pair in pairs:
        if len(pair) != 2:
            raise UsageError(f"aligned files: expected two, source and target, found {len(pair)}")
    return [(Path(src), Path(tgt)) for src, tgt in pairs]


def _check_options(given: Mapping[str, object]) -> str:
    """The one source among the given options.

    Raises:
        UsageError: If the options exclude each other.
    """
    sources = [option for option in _SOURCES if option in given]
    if len(sources) != 1:
        raise UsageError(f"exactly one of {', '.join(_SOURCES[:-1])} and {_SOURCES[-1]} is required.")
    source = sources[0]
    for option, needed in _ONLY_WITH.items():
        if option in given and source != needed:
            raise UsageError(f"{option} needs {needed}.")
    if source == "--corpus":
        _check_corpus_options(given)
    elif source == "--text":
        _refuse(given, (*_OF_PAIRS, *_HELD_OUT), "--text, which holds no pairs")
    elif source == "--labelled":
        _refuse(given, _OF_PAIRS, "--labelled, which holds no pairs")
    for name in ("--valid", "--test"):
        for option in (name, f"{name}-labelled"):
            if option in given and f"{name}-pairs" in given:
                raise UsageError(f"{option} and {name}-pairs exclude each other.")
    for option in _HELD_OUT:
        number = given.get(option, 0)
        if not isinstance(number, int) or number < 0:
            raise UsageError(f"{option}: expected 0 or more, found {number}.")
    return source


def _check_corpus_options(given: Mapping[str, object]) -> None:
    name = str(given["--corpus"])
    _check_choice("--corpus", name, tuple(CORPORA))
    for split in ("--valid", "--test"):
        if split in given or f"{split}-pairs" in given:
            raise UsageError(f"{split} and {split}-pairs do not go with --corpus, which has its own splits.")
    if not isinstance(CORPORA[name], PublishedPairs):
        _refuse(given, _OF_PAIRS, f"--corpus {name}, which holds no pairs")
    _refuse(given, ("--task",), "--corpus, which has its own")


def _check_choice(option: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise UsageError(f"{option}: expected one of {', '.join(choices)}, found {value}{did_you_mean(value, choices)}")


def _refuse(given: Mapping[str, object], options: Sequence[str], source: str) -> None:
    for option in options:
        if option in given:
            raise UsageError(f"{option} does not go with {source}.")
