"""The preparation of a data directory of labelled examples."""

from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from lite_nlp.core.display import displayable
from lite_nlp.core.errors import DataError
from lite_nlp.core.progress import Progress
from lite_nlp.data.choices import SplitName
from lite_nlp.data.directory import TokenizerInfo
from lite_nlp.data.labelled.directory import LABELS_FILE, LabelledInfo, LabelledSplitInfo
from lite_nlp.data.labelled.readers import Example, LabelledCorpus, collect_labels
from lite_nlp.data.pairs.storage import write_split
from lite_nlp.data.passes import DataFormat, SplitPass
from lite_nlp.data.preparation import prepare_directory
from lite_nlp.data.sources import BadLine
from lite_nlp.data.tokenizer import Tokenizer
from lite_nlp.data.vocabulary import VocabularyOptions

__all__ = ["prepare_labelled"]


def prepare_labelled(
    out: Path,
    corpus: LabelledCorpus,
    *,
    vocabulary: VocabularyOptions,
    drop_overlap: bool = False,
    force: bool = False,
    progress: Progress | None = None,
    say: Callable[[str], None] | None = None,
) -> LabelledInfo:
    """Write the data directory ``out`` of labelled examples.

    The labels are those of the training examples; lines of the other splits with another label are bad lines. For
    arguments and errors see :func:`lite_nlp.data.preparation.prepare_directory`.

    Raises:
        DataError: Also if the sources do not agree on the number of sentences, the label stands last, or there are
            fewer than two labels.
    """
    corpus.check_columns()
    form = _LabelledFormat(2 if corpus.sentences == 2 else 1)
    return prepare_directory(
        out, corpus, form, vocabulary=vocabulary, drop_overlap=drop_overlap, force=force, progress=progress, say=say
    )


class _LabelledFormat(DataFormat[Example, LabelledSplitInfo, LabelledInfo]):
    contents: ClassVar[str] = "labelled examples"

    def __init__(self, sentences: Literal[1, 2]) -> None:
        self._sentences = sentences
        #: The number of each label, in the order of the labels.
        self._numbers: dict[str, int] = {}

    def sides(self, item: Example) -> tuple[str, str]:
        return item.first, item.second or item.first

    def texts(self, item: Example) -> tuple[str, ...]:
        return (item.first, item.second) if item.second else (item.first,)

    def survey(self, training: SplitPass[Example]) -> None:
        labels = collect_labels(training, excluded=lambda: training.excluded)
        self._numbers = {label: number for number, label in enumerate(labels)}

    def refuse(self, item: Example, file: str, line: int) -> BadLine | None:
        return None if item.label in self._numbers else BadLine(file, line, "unknown_label", item.label)

    def write_split(self, directory: Path, split: SplitPass[Example], tokenizer: Tokenizer) -> LabelledSplitInfo:
        labels = array("i")

        def sentences() -> Iterator[tuple[str, str]]:
            for example in split:
                labels.append(self._numbers[example.label])
                yield example.first, example.second

        examples, first_tokens, second_tokens = write_split(directory / split.name, sentences(), tokenizer)
        stored = np.array(labels, dtype=np.int32)
        np.save(directory / split.name / LABELS_FILE, stored, allow_pickle=False)
        counts = np.bincount(stored, minlength=len(self._numbers)).tolist()
        for label, count in zip(self._numbers, counts, strict=True):
            if split.name == "train" and not count:
                # The labels are those of the training examples, before any of them was dropped.
                raise DataError(
                    f"--drop-overlap: expected training examples of the label {displayable(label)!r} that do not stand "
                    "in the other splits too, found none"
                )
        return LabelledSplitInfo(
            examples=examples,
            first_tokens=first_tokens,
            second_tokens=second_tokens,
            by_label=dict(zip(self._numbers, counts, strict=True)),
            sources=split.sources,
            skipped=split.skipped,
            **split.overlap,
        )

    def info(self, tokenizer: TokenizerInfo, splits: dict[SplitName, LabelledSplitInfo]) -> LabelledInfo:
        return LabelledInfo(
            schema_version=1,
            kind="labelled",
            sentences=self._sentences,
            labels=list(self._numbers),
            tokenizer=tokenizer,
            splits=splits,
        )
