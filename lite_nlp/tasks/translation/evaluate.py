"""Scores of an encoder-decoder on a test set of sentence pairs. A bundle is scored without torch."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial

from lite_nlp.artifacts.translators import OpenedTranslator, open_translator
from lite_nlp.core.errors import DataError, UsageError
from lite_nlp.core.progress import Progress
from lite_nlp.tasks.room import Evaluation, EvaluationRequest, Table
from lite_nlp.tasks.translation.scorer import PairScorer, PairScores
from lite_nlp.tasks.usefulness import output_warnings, score_warnings

__all__ = ["evaluate_pairs", "translate_all"]


@dataclass(frozen=True)
class _TestSet:
    """Sources and references; ``split`` is None for text files."""

    name: str
    split: str | None
    sources: list[str]
    references: list[str]


def evaluate_pairs(request: EvaluationRequest, scorer: PairScorer) -> Evaluation:
    """Translate a test set as ``lite-nlp translate`` does and compare it with its references.

    Raises:
        DataError: If the test set is missing, damaged or empty, or the numbers of references and sources differ.
        UsageError: If the request names no test set or two, or asks for lowercase with a metric that ignores case.
        LiteNlpError: If the model cannot be opened.
    """
    if request.lowercase and not scorer.regards_case:
        raise UsageError(f"--lowercase does not go with {scorer.name.upper()}, which never regards case.")
    score = partial(scorer.score, lowercase=True) if request.lowercase else scorer.score
    test_set = _read_test_set(request)
    with open_translator(
        request.model, runtime=request.runtime, threads=request.threads, batch=request.batch, warn=request.warn,
        progress=request.progress, **asdict(request.choices),
    ) as opened:  # fmt: skip
        started = time.perf_counter()
        translations = translate_all(opened, test_set.sources, request.progress, name=test_set.name)
        seconds = time.perf_counter() - started
        scores = score(translations, test_set.references)
        return Evaluation(
            facts={
                "model": opened.name,
                "runtime": opened.runtime,
                "beam": request.choices.beam,
                "data": test_set.name,
                "split": test_set.split,
                "metric": scorer.name,
                "scores": scores.as_dict(),
                "sentences": scores.sentences,
                "seconds": round(seconds, 3),
            },
            predictions=tuple(translations),
            tables=(_table(opened, test_set, scores, scorer),),
            notes=(
                *(f"{name} {scores.as_dict()[field]}" for name, field in scorer.signatures.items()),
                f"{scores.sentences:,} sentences in {seconds:.1f} s, runtime {opened.runtime}, "
                f"beam {request.choices.beam}",
            ),
            warnings=tuple(
                output_warnings(test_set.sources, translations)
                or score_warnings(scorer.metric, scores.as_dict(), examples=scores.sentences)
            ),
        )


def translate_all(opened: OpenedTranslator, sources: Sequence[str], progress: Progress, *, name: str) -> list[str]:
    """The translations of all sources, in order; progress is reported under ``name``."""
    progress.start(f"translating {name}", len(sources))
    translations = []
    for line in opened.translate_lines(sources):
        translations.append(line)
        progress.advance()
    return translations


def _read_test_set(request: EvaluationRequest) -> _TestSet:
    """The test set of the request: a split of a data directory, or two text files."""
    data, split, source, reference = request.data, request.split, request.source, request.reference
    if data is not None and source is None and reference is None:
        from lite_nlp.data.pairs.directory import open_sentence_pairs

        split = split or "test"
        return _TestSet(str(data), split, *open_sentence_pairs(data).split(split).texts())
    if data is None and split is None and source is not None and reference is not None:
        from lite_nlp.decoding.lines import read_file_lines

        sources, references = read_file_lines(source), read_file_lines(reference)
        if len(sources) != len(references):
            raise DataError(
                f"{reference}: expected one line for each of the {len(sources)} lines of {source}, "
                f"found {len(references)}"
            )
        if not sources:
            raise DataError(f"{source}: expected at least one line, found none")
        return _TestSet(str(source), None, sources, references)
    raise UsageError("expected either --data (and --split) or both --input and --reference")


def _table(opened: OpenedTranslator, test_set: _TestSet, scores: PairScores, scorer: PairScorer) -> Table:
    found = scores.as_dict()
    return Table(
        title=f"{opened.name} on {test_set.name} {test_set.split or ''}".rstrip(),
        columns=("metric", "score", "95 % interval"),
        rows=tuple(
            (name, f"{found[field]:.2f}", f"{found[f'{field}_low']:.2f} to {found[f'{field}_high']:.2f}")
            for name, field in scorer.columns.items()
        ),
    )
