"""Preparation of corpora as data directories, and a corpus to try it on, behind ``lite-nlp data``."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TypeVar, cast, get_args

from lite_nlp.api.data_options import check_choice, check_options, parse_columns
from lite_nlp.artifacts.models import read_tokenizer, resolve_source
from lite_nlp.core.errors import UsageError
from lite_nlp.core.extras import needs_extra
from lite_nlp.core.files import write_text
from lite_nlp.core.outputs import check_output_directory, check_output_file
from lite_nlp.core.progress import Progress, SilentProgress
from lite_nlp.data.choices import Normalization, PairTask, SplitName
from lite_nlp.data.directory import DATA_FILES
from lite_nlp.data.labelled.directory import LabelledInfo
from lite_nlp.data.labelled.prepare import prepare_labelled
from lite_nlp.data.labelled.readers import LabelledCorpus, examples_in_files
from lite_nlp.data.pairs.corpus import PairCorpus
from lite_nlp.data.pairs.directory import PairInfo
from lite_nlp.data.pairs.everyday import EVERYDAY_LANGUAGES, read_everyday_pairs
from lite_nlp.data.pairs.files import PairFiles, TableFormat, pairs_in_files
from lite_nlp.data.pairs.prepare import prepare_pairs
from lite_nlp.data.published.catalogue import CORPORA
from lite_nlp.data.published.corpora import open_published
from lite_nlp.data.text.directory import TextInfo
from lite_nlp.data.text.prepare import prepare_text
from lite_nlp.data.text.readers import TextCorpus, text_in_files
from lite_nlp.data.tokenizer import Tokenizer
from lite_nlp.data.vocabulary import VocabularyOptions

__all__ = ["SamplePairs", "prepare_data", "write_sample"]

StrPath = str | PathLike[str]

#: One file, or several that are read one after the other.
Files = StrPath | Sequence[StrPath]

#: Two aligned files, source and target, or several such pairs.
AlignedFiles = tuple[StrPath, StrPath] | Sequence[tuple[StrPath, StrPath]]

FileT = TypeVar("FileT", Path, tuple[Path, Path])


@needs_extra("data prepare", "train")
def prepare_data(
    out: StrPath,
    *,
    train: AlignedFiles = (),
    valid: AlignedFiles = (),
    test: AlignedFiles = (),
    tsv: Files = (),
    tmx: Files = (),
    jsonl: Files = (),
    valid_file: Files = (),
    test_file: Files = (),
    columns: str | Sequence[str | int] | None = None,
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
    vocab_size: int | None = None,
    lowercase: bool = False,
    normalization: Normalization = "none",
    tokenizer: StrPath | Tokenizer | None = None,
    drop_overlap: bool = False,
    force: bool = False,
    progress: Progress | None = None,
    say: Callable[[str], None] | None = None,
) -> PairInfo | TextInfo | LabelledInfo:
    """Write the data directory ``out``, complete or not at all.

    The arguments are the options of ``lite-nlp data prepare``, and errors use the names of those options. Exactly one
    of ``train``, ``tsv``, ``tmx``, ``jsonl``, ``text``, ``labelled`` and ``corpus`` decides what the directory holds:
    sentence pairs (the first four), running text, or labelled examples; a published corpus is one of the three. Files
    are UTF-8, plain, gzip or zstd. Lines that cannot be used are skipped and counted in the result.

    Args:
        out: The directory to write.
        train: Text files aligned line by line, ``(source, target)`` or several such pairs.
        valid: The same for validation.
        test: The same for test.
        tsv: Files with source, tab, target on each line.
        tmx: Translation memories.
        jsonl: Files with a JSON object on each line: keys ``src`` and ``tgt``, or codes of languages, there or inside
            ``translation``.
        valid_file: Validation pairs in the format of ``tsv``, ``tmx`` or ``jsonl``.
        test_file: The same for test.
        columns: Where source and target are: two columns of ``tsv``, numbered from 1, or two keys of ``jsonl``, as
            ``"1,2"`` or ``(1, 2)``.
        text: Files of running text for a language model. With neither ``valid_text`` nor ``test_text`` the last
            twentieth of the lines is for test, the one before it for validation.
        valid_text: The same for validation.
        test_text: The same for test.
        labelled: Files with label, tab, sentence (tab, second sentence) on each line.
        valid_labelled: The same for validation.
        test_labelled: The same for test.
        corpus: Name of a published corpus, a key of :data:`lite_nlp.data.published.catalogue.CORPORA`.
        from_dir: Directory with a copy of the published corpus; None to download it.
        cache: Directory for downloads; None for ``$LITE_NLP_CACHE``, else ``lite-nlp`` in ``$XDG_CACHE_HOME`` or
            ``~/.cache``.
        task: Task of pairs: with ``summarization`` one side may have 100,000 characters. None for translation.
        src_lang: Code of the source language of pairs; None to take it from the corpus, or names and tags of files.
        tgt_lang: Code of the target language of pairs.
        valid_pairs: Pairs or labelled examples of the training data to hold out for validation; 0 for none; None for
            2,000 or a twentieth, whichever is less, and for none where a validation or test split is given.
        test_pairs: The same for test.
        vocab_size: Size of the vocabulary, which the two languages of pairs share, 259 to 524,288; None for all types
            of ``tokenizer``, or 500 to 8,000 by the amount of training text, see
            :func:`~lite_nlp.data.vocabulary.choose_vocab_size`.
        lowercase: Whether the tokenizer lowercases.
        normalization: Unicode normalization form of the tokenizer.
        tokenizer: A tokenizer, its ``tokenizer.json``, or a MODEL that has it, of which the first ``vocab_size`` types
            are used, instead of training one; it has to do what the two above ask for.
        drop_overlap: Whether to leave the training items out that stand in the validation or test data, as they are or
            but for case, punctuation and spacing.
        force: Whether to replace an existing ``out``.
        progress: Receiver of progress.
        say: Receiver of remarks: the languages and the vocabulary size that were chosen, and doubts.

    Returns:
        The content of ``data.json``: kind, tokenizer, and the counts of each split, skipped lines included.

    Raises:
        UsageError: If the arguments exclude each other or do not apply to the kind of data or to ``tokenizer``.
        DataError: If a source is missing or damaged, a download fails, or a split has no usable item.
        OutputError: If ``out`` exists and ``force`` is false, or the system refuses the write.
    """
    pairs = _by_split(_aligned(train), _aligned(valid), _aligned(test))
    texts = _by_split(_files(text), _files(valid_text), _files(test_text))
    examples = _by_split(_files(labelled), _files(valid_labelled), _files(test_labelled))
    tables = {"tsv": _files(tsv), "tmx": _files(tmx), "jsonl": _files(jsonl)}
    held_out = {"--valid-file": _files(valid_file), "--test-file": _files(test_file)}
    values = {
        "--train": pairs["train"], "--valid": pairs["valid"], "--test": pairs["test"],
        **{f"--{form}": files for form, files in tables.items()}, **held_out, "--columns": columns,
        "--text": texts["train"], "--valid-text": texts["valid"], "--test-text": texts["test"],
        "--labelled": examples["train"], "--valid-labelled": examples["valid"], "--test-labelled": examples["test"],
        "--corpus": corpus, "--from": from_dir, "--cache": cache, "--src-lang": src_lang, "--tgt-lang": tgt_lang,
        "--task": task, "--valid-pairs": valid_pairs, "--test-pairs": test_pairs,
    }  # fmt: skip
    source = check_options(
        {
            option: value
            for option, value in values.items()
            if not (value is None or (isinstance(value, list) and not value))
        }
    )
    check_choice("--task", task or "translation", get_args(PairTask))
    check_choice("--normalization", normalization, get_args(Normalization))
    keys = parse_columns(columns)
    check_output_directory(Path(out), force=force, owned=DATA_FILES)
    if tokenizer is not None:
        given = tokenizer if isinstance(tokenizer, Tokenizer) else _tokenizer_of(tokenizer)
        tokenizer = given if vocab_size is None else given.first(vocab_size)
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
            say=say,
        )
    else:
        form = next((form for form, files in tables.items() if files), "tsv")
        files = PairFiles(
            aligned=pairs,
            tables=_by_split(tables[form], held_out["--valid-file"], held_out["--test-file"]),
            table_format=cast("TableFormat", form),
            columns=keys,
            languages=(src_lang, tgt_lang),
            task=task or "translation",
            valid_pairs=valid_pairs,
            test_pairs=test_pairs,
        )
        found = pairs_in_files(files, say=say)
    if drop_overlap and set(found.splits) == {"train"} and found.rule is None:
        raise UsageError("--drop-overlap: expected validation or test data, found training data alone.")
    return _prepare(
        Path(out), found, vocabulary=vocabulary, drop_overlap=drop_overlap, force=force, progress=progress, say=say
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class SamplePairs:
    """What :func:`write_sample` has written.

    Attributes:
        path: The file.
        pairs: Sentence pairs, one on each line.
        src_lang: Language of the first column.
        tgt_lang: Language of the second.
    """

    path: Path
    pairs: int
    src_lang: str
    tgt_lang: str


def write_sample(out: StrPath, *, force: bool = False) -> SamplePairs:
    """Write the everyday English-German sentence pairs that come with the package: a corpus to try things on.

    Args:
        out: The file to write, with source, tab, target on each line.
        force: Whether to replace an existing ``out``.

    Returns:
        What was written.

    Raises:
        OutputError: If ``out`` exists and ``force`` is false, or the system refuses the write.
    """
    path = Path(out)
    check_output_file(path, force=force)
    pairs = read_everyday_pairs()
    write_text(path, "".join(f"{src}\t{tgt}\n" for src, tgt in pairs), force=force)
    src_lang, tgt_lang = EVERYDAY_LANGUAGES
    return SamplePairs(path=path, pairs=len(pairs), src_lang=src_lang, tgt_lang=tgt_lang)


def _prepare(
    out: Path,
    corpus: PairCorpus | TextCorpus | LabelledCorpus,
    *,
    vocabulary: VocabularyOptions,
    drop_overlap: bool,
    force: bool,
    progress: Progress,
    say: Callable[[str], None] | None,
) -> PairInfo | TextInfo | LabelledInfo:
    prepare: Callable[..., PairInfo | TextInfo | LabelledInfo] = prepare_text
    if isinstance(corpus, PairCorpus):
        prepare = prepare_pairs
    elif isinstance(corpus, LabelledCorpus):
        prepare = prepare_labelled
    return prepare(
        out, corpus, vocabulary=vocabulary, drop_overlap=drop_overlap, force=force, progress=progress, say=say
    )


def _tokenizer_of(source: StrPath) -> Tokenizer:
    """The tokenizer of a MODEL, or the one that a file is."""
    path = Path(source)
    if path.suffix == ".json" or (path.is_file() and path.suffix not in {".lnlp", ".zip"}):
        return Tokenizer.load(path)
    return read_tokenizer(resolve_source(path))


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
