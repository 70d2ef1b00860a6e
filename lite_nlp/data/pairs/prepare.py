"""The preparation of a data directory of sentence pairs."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from lite_nlp.core.progress import Progress
from lite_nlp.data.choices import PairTask, SplitName
from lite_nlp.data.directory import TokenizerInfo
from lite_nlp.data.pairs.corpus import Pair, PairCorpus
from lite_nlp.data.pairs.directory import LanguagePair, PairInfo, PairSplitInfo
from lite_nlp.data.pairs.storage import write_split
from lite_nlp.data.passes import DataFormat, SplitPass
from lite_nlp.data.preparation import prepare_directory
from lite_nlp.data.tokenizer import Tokenizer
from lite_nlp.data.vocabulary import VocabularyOptions

__all__ = ["prepare_pairs"]


def prepare_pairs(
    out: Path,
    corpus: PairCorpus,
    *,
    vocabulary: VocabularyOptions,
    drop_overlap: bool = False,
    force: bool = False,
    progress: Progress | None = None,
    say: Callable[[str], None] | None = None,
) -> PairInfo:
    """Write the data directory ``out`` of sentence pairs; see :func:`lite_nlp.data.preparation.prepare_directory`."""
    form = _PairFormat(languages=corpus.languages, task=corpus.task)
    return prepare_directory(
        out, corpus, form, vocabulary=vocabulary, drop_overlap=drop_overlap, force=force, progress=progress, say=say
    )


@dataclass(frozen=True, kw_only=True)
class _PairFormat(DataFormat[Pair, PairSplitInfo, PairInfo]):
    contents: ClassVar[str] = "sentence pairs"

    languages: tuple[str, str]
    task: PairTask

    def sides(self, item: Pair) -> tuple[str, str]:
        return item

    def texts(self, item: Pair) -> tuple[str, str]:
        return item

    def write_split(self, directory: Path, split: SplitPass[Pair], tokenizer: Tokenizer) -> PairSplitInfo:
        pairs, src_tokens, tgt_tokens = write_split(directory / split.name, split, tokenizer)
        return PairSplitInfo(
            pairs=pairs,
            src_tokens=src_tokens,
            tgt_tokens=tgt_tokens,
            sources=split.sources,
            skipped=split.skipped,
            **split.overlap,
        )

    def info(self, tokenizer: TokenizerInfo, splits: dict[SplitName, PairSplitInfo]) -> PairInfo:
        src, tgt = self.languages
        return PairInfo(
            schema_version=1,
            task=self.task,
            languages=LanguagePair(src=src, tgt=tgt),
            tokenizer=tokenizer,
            splits=splits,
        )
