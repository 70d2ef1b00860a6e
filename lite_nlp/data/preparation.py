"""The preparation of a data directory of any kind, in passes over the text that hold none of it in memory.

The steps: fit the rule that divides the training text, survey the training items, compare the splits, learn (or take)
the vocabulary, tokenize and write each split, write the facts. A kind says only what differs, as a :class:`DataFormat`.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final, TypeVar

from lite_nlp.core.files import atomic_directory
from lite_nlp.core.progress import Progress, SilentProgress
from lite_nlp.data.comparison import compare_splits
from lite_nlp.data.directory import (
    BAD_LINES_FILE,
    DATA_FILES,
    INFO_FILE,
    TOKENIZER_FILE,
    Facts,
    SplitFacts,
    TokenizerInfo,
)
from lite_nlp.data.passes import CorpusPasses, DataFormat
from lite_nlp.data.sources import Corpus
from lite_nlp.data.vocabulary import VocabularyOptions, train_vocabulary

__all__ = ["MAX_VOCABULARY_ITEMS", "prepare_directory"]

#: Training items that the vocabulary is learned from: of more, every second, third, ..., since the learning holds every
#: different word in memory, and more text hardly changes the most frequent parts of words.
MAX_VOCABULARY_ITEMS: Final = 1_000_000

ItemT = TypeVar("ItemT")
SplitT = TypeVar("SplitT", bound=SplitFacts)
InfoT = TypeVar("InfoT", bound=Facts)


def prepare_directory(
    out: Path,
    corpus: Corpus[ItemT],
    form: DataFormat[ItemT, SplitT, InfoT],
    *,
    vocabulary: VocabularyOptions,
    drop_overlap: bool = False,
    force: bool = False,
    progress: Progress | None = None,
    say: Callable[[str], None] | None = None,
) -> InfoT:
    """Write the data directory ``out``, whole or not at all.

    Args:
        out: The directory to make.
        corpus: The text.
        form: The kind of data.
        vocabulary: The vocabulary.
        drop_overlap: Whether to leave the training items out that stand in valid or test; see
            :func:`lite_nlp.data.comparison.compare_splits`.
        force: Whether to replace an existing ``out``.
        progress: Receiver of progress, in items.
        say: Receiver of a remark on the size of the vocabulary, where that is chosen here.

    Raises:
        DataError: If a source is missing or damaged, or a split has no usable item.
        OutputError: If ``out`` exists and ``force`` is false, or the system refuses the write.
    """
    with (
        atomic_directory(out, force=force, owned=DATA_FILES) as partial,
        (partial / BAD_LINES_FILE).open("w", encoding="utf-8") as bad_lines,
    ):
        work = CorpusPasses(corpus, form, progress or SilentProgress())
        form.survey(work.split("train", "labels"))
        work.facts = compare_splits(work, drop=drop_overlap)
        tokenizer = vocabulary.tokenizer or train_vocabulary(
            vocabulary,
            lambda stage: (text for item in _vocabulary_items(work, stage) for text in form.texts(item)),
            say=say,
        )
        splits = {
            name: form.write_split(partial, work.split(name, name, bad_lines), tokenizer) for name in work.split_names
        }
        (partial / TOKENIZER_FILE).write_bytes(tokenizer.to_json())
        info = form.info(TokenizerInfo.of(tokenizer), splits)
        (partial / INFO_FILE).write_text(info.model_dump_json(indent=2) + "\n", encoding="utf-8")
    return info


def _vocabulary_items(work: CorpusPasses[ItemT], stage: str) -> Iterator[ItemT]:
    """The training items that the vocabulary is learned from."""
    step = -(-work.count_training() // MAX_VOCABULARY_ITEMS)
    return islice(work.split("train", stage), 0, None, step)
