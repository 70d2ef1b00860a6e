"""The search of a teacher for its translations of a training split; stopped at any moment, it goes on where it was."""

import hashlib
import time
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from lite_nlp.artifacts.models import LoadedModel
from lite_nlp.artifacts.translators import OpenedTranslator, SearchChoices, open_ensemble
from lite_nlp.config.preset import DecodingConfig
from lite_nlp.core.errors import TrainingError
from lite_nlp.data.pairs.batches import make_batches
from lite_nlp.data.pairs.storage import Split
from lite_nlp.tasks.distillation import Lesson, SequenceTargets
from lite_nlp.tasks.translation.hypotheses import Hypotheses, HypothesisStore, SourceHypotheses
from lite_nlp.training.device import best_device
from lite_nlp.training.interruption import StopSignal

__all__ = ["make_hypotheses"]

#: Source tokens of a batch, padding included: some 130 sentences of 15 tokens, where torch's speed no longer grows.
_BATCH_TOKENS: Final = 2048

#: Source texts that are hashed at a time.
_HASHED_ROWS: Final = 10_000


def make_hypotheses(split: Split, lesson: Lesson, targets: SequenceTargets) -> Hypotheses:
    """The teacher's translations of all sources, as far as they are not there already from the same teacher and search.

    The sources are in batches of similar lengths, the longest first. The batches do not depend on what is done, so that
    a search that was stopped finds what one left alone does.

    Args:
        split: The sources.
        lesson: Teacher and directory.
        targets: The beam; all of its finished hypotheses are kept, so that other choices among them need no new search.

    Raises:
        TrainingError: If a signal or the end of the time stopped the search; what it has found is kept.
        OutputError: If another process is at work in the directory, or the system refuses a write.
        DataError: If the directory holds translations of another identity, or damaged ones, and the lesson does not
            overwrite them.
    """
    store = HypothesisStore(lesson.hypotheses, _identity(split, lesson, targets), rows=len(split))
    if not lesson.first:
        return store.wait()
    # Whoever only reads them holds nobody up: several students may begin at once.
    finished = store.find()
    if finished is not None:
        lesson.say(f"{lesson.hypotheses}: the teacher's translations are there already")
        return finished
    with store.open(force=lesson.force, resume=lesson.resume):
        # Another process may have finished them since.
        if not store.complete:
            found = store.read_partial()
            stopped = _search(split, store, found, lesson, targets)
            store.finish(found)
            if stopped is not None:
                raise _interrupted(f"stopped by {stopped}", done=len(found), rows=len(split))
        return store.read()


def _search(
    split: Split, store: HypothesisStore, found: list[SourceHypotheses], lesson: Lesson, targets: SequenceTargets
) -> str | None:
    """Add the translations of all sources that ``found`` lacks to it and to the store.

    Returns:
        The name of a signal that came with the last batch, or None.
    """
    done = {source.row for source in found}
    whole = [batch for batch in _batches(split) if not done.issuperset(batch.tolist())]
    if done:
        lesson.say(f"{lesson.hypotheses}: {len(done):,} of {len(split):,} sources are translated already")
    # Only what is left, from which the time left is estimated.
    lesson.progress.start(f"{lesson.name} translates, beam {targets.beam}", len(split) - len(done))
    begin, translated = time.monotonic(), 0
    with (
        _open(lesson, targets) as translator,
        store.appending() as appender,
        StopSignal() as stop,
    ):
        for batch in whole:
            # Of a batch that was cut off in the middle of its writing, a part may be there.
            new = [source for source in _translate(translator, split, batch) if source.row not in done]
            appender.add(new)
            found += new
            translated += len(batch)
            rate = translated / max(time.monotonic() - begin, 1e-9)
            lesson.progress.advance(len(new), f"{rate:,.1f} sentences/s")
            if len(found) < len(split) and (stop.name is not None or lesson.limit.passed):
                reason = "--max-minutes: the time was up" if stop.name is None else f"stopped by {stop.name}"
                raise _interrupted(reason, done=len(found), rows=len(split))
        return stop.name


def _open(lesson: Lesson, targets: SequenceTargets) -> OpenedTranslator:
    in_torch = lesson.runtime == "torch"
    for teacher in lesson.teachers if in_torch else ():
        teacher.model.model.to(best_device())
    models = [teacher.model if in_torch else teacher.source for teacher in lesson.teachers]
    return open_ensemble(models, runtime=lesson.runtime, threads=lesson.threads, beam=targets.beam)


def _interrupted(reason: str, *, done: int, rows: int) -> TrainingError:
    return TrainingError(
        f"{reason} after the teacher had translated {done:,} of {rows:,} sources, which are kept: the same command "
        "continues from there"
    )


def _translate(translator: OpenedTranslator, split: Split, batch: npt.NDArray[np.int64]) -> list[SourceHypotheses]:
    sources, _ = split.texts(batch)
    return [
        SourceHypotheses(row, alternatives)
        for row, alternatives in zip(batch.tolist(), translator.find_alternatives(sources), strict=True)
    ]


def _batches(split: Split) -> Sequence[npt.NDArray[np.int64]]:
    """Batches of sources, the longest first: what takes too much memory shows at once."""
    targets = np.zeros_like(split.src_lengths)
    return make_batches(split.src_lengths, targets, batch_tokens=_BATCH_TOKENS, seed=0, epoch=0, shuffle=False)[::-1]


def _identity(split: Split, lesson: Lesson, targets: SequenceTargets) -> dict[str, Any]:
    decoding = SearchChoices(beam=targets.beam).complete(_decoding(lesson.teacher))
    return {
        "teacher_sha256": lesson.sha256,
        "sources_sha256": _hash_sources(split),
        "beam": targets.beam,
        **decoding.model_dump(mode="json"),
    }


def _decoding(teacher: LoadedModel) -> DecodingConfig:
    return teacher.config.decoding or DecodingConfig()


def _hash_sources(split: Split) -> str:
    digest = hashlib.sha256()
    for start in range(0, len(split), _HASHED_ROWS):
        sources, _ = split.texts(range(start, min(len(split), start + _HASHED_ROWS)))
        digest.update("".join(f"{source}\n" for source in sources).encode("utf-8"))
    return digest.hexdigest()
