"""Sentence pairs to scan, finetune and score on when an encoder-decoder is compressed. Needs torch."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, cast

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lite_nlp.artifacts.models import LoadedModel
from lite_nlp.artifacts.translators import open_translator
from lite_nlp.compress.significance import Scored
from lite_nlp.config.preset import Config
from lite_nlp.core.errors import DataError
from lite_nlp.core.progress import Progress
from lite_nlp.core.special_tokens import PAD_ID
from lite_nlp.data.pairs.batches import Batch
from lite_nlp.data.pairs.directory import open_sentence_pairs
from lite_nlp.data.pairs.everyday import EVERYDAY_LANGUAGES, read_everyday_pairs
from lite_nlp.data.tokenizer import Tokenizer
from lite_nlp.export.runtime import open_stored
from lite_nlp.models.transformer import EncoderDecoder
from lite_nlp.tasks.calibration import BundleScoring, Guidance, Keep, mean_loss, spaced, unpadded
from lite_nlp.tasks.changed_outputs import ScoredTexts
from lite_nlp.tasks.translation.bleu import sentence_chrf
from lite_nlp.tasks.translation.evaluate import translate_all
from lite_nlp.tasks.translation.own_outputs import with_own_outputs
from lite_nlp.tasks.translation.scorer import PairScorer
from lite_nlp.tasks.translation.teaching import read_pairs
from lite_nlp.tasks.translation.truncation import TruncatedRows
from lite_nlp.tasks.usefulness import INSPECTED, output_warnings
from lite_nlp.training.batching import EpochBatches, Rows, SplitRows, short_rows
from lite_nlp.training.device import device_of, to_device
from lite_nlp.training.mixed_loss import TeacherOutput

__all__ = ["Calibration", "data_calibration", "everyday_calibration", "guide_by_pairs"]

#: Sentence pairs for the sensitivity scan, which evaluates hundreds of times, and for the scores.
_SCAN_PAIRS: Final = 64
_SCORE_PAIRS: Final = 500
#: Sentences translated at once for the scores, and to be tuned on.
_SCORE_BATCH, _TUNING_BATCH = 64, 256
#: Longest side in tokens of the training pairs for finetuning. Their number has no bound: on a model of Multi30k 20
#: epochs of a part, 50,000 pairs, lost a point of BLEU against 6.
_TUNING_TOKENS: Final = 128
_BATCH_TOKENS: Final = 2048


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Sentence pairs for a compression.

    Attributes:
        scan: Batches of the sensitivity scan; never finetuned on.
        tuning: Pairs to finetune on.
        longest: Most tokens of one of their sides.
        texts: Source texts of rows of ``tuning``, in order.
        sources: Sentences to translate for the ledger; never finetuned on, and none of them in ``scan``.
        references: Their translations.
        name: Display name of the scored sentences.
        label_weight: Weight of the reference translations, against the uncompressed model's own predictions, in
            finetuning; 0 if there are too few to learn from.
        languages: Codes of the source and target language.
    """

    scan: list[Batch]
    tuning: EpochBatches
    longest: int
    texts: Callable[[Rows], Sequence[str]]
    sources: list[str]
    references: list[str]
    name: str
    label_weight: float
    languages: tuple[str, str]


def everyday_calibration(tokenizer: Tokenizer, *, max_positions: int) -> Calibration:
    """The everyday English-German pairs of the package: half to score, half to scan and finetune on.

    Those to scan and finetune on are cut off where the model's positions end.
    """
    pairs = read_everyday_pairs()
    judged, guiding = pairs[0::2], pairs[1::2]
    whole = _MemoryRows([tokenizer.encode(src) for src, _ in guiding], [tokenizer.encode(tgt) for _, tgt in guiding])
    # The end mark takes a place too.
    rows = TruncatedRows(whole, max_tokens=max_positions - 1)
    every = max(2, len(guiding) // _SCAN_PAIRS)
    numbers = np.arange(len(guiding))
    tuned = numbers[numbers % every != 0]
    return Calibration(
        scan=_batches(rows, numbers[numbers % every == 0]),
        tuning=_pairs(rows, tuned, shuffle=True),
        longest=min(_TUNING_TOKENS, rows.max_tokens),
        texts=lambda wanted: [guiding[number][0] for number in wanted],
        sources=[src for src, _ in judged],
        references=[tgt for _, tgt in judged],
        name=f"{len(judged)} everyday sentences",
        label_weight=0.0,
        languages=EVERYDAY_LANGUAGES,
    )


def data_calibration(path: Path, tokenizer: Tokenizer, config: Config) -> Calibration:
    """Calibration from a data directory: validation pairs to scan and score, training pairs to finetune on.

    The validation pairs are evenly spaced. Pairs to scan are cut off where the model's positions end, and all pairs
    after ``training.max_tokens`` if the config of the model truncates.

    Raises:
        DataError: If the directory is damaged, lacks a split, was tokenized with another vocabulary, or has no pair
            short enough to finetune on.
    """
    data = open_sentence_pairs(path)
    if data.tokenizer.to_json() != tokenizer.to_json():
        raise DataError(f"{path}: expected data tokenized with the model's own tokenizer, found another one")
    valid, train = data.split("valid"), data.split("train")
    training, positions = config.training, config.model.max_positions - 1
    bound = min(training.max_tokens, positions) if training.truncate else positions
    tuned: SplitRows = TruncatedRows(train, max_tokens=bound) if training.truncate else train
    # Even rows are scanned, odd rows scored (a split of a single row is used for both).
    guiding = spaced(np.arange(0, len(valid), 2), _SCAN_PAIRS)
    judged = spaced(np.arange(min(1, len(valid) - 1), len(valid), 2), _SCORE_PAIRS)
    sources, references = valid.texts(judged)
    longest = bound if training.truncate else min(_TUNING_TOKENS, positions)
    short = short_rows(tuned, max_tokens=longest)
    if not len(short):
        raise DataError(f"{path}: expected training pairs of at most {longest} tokens a side to tune on, found none")
    return Calibration(
        scan=_batches(TruncatedRows(valid, max_tokens=bound), guiding),
        tuning=_pairs(tuned, short, shuffle=True),
        longest=longest,
        texts=lambda rows: train.texts(rows)[0],
        sources=sources,
        references=references,
        name=f"{len(judged)} sentences of {path} valid",
        label_weight=0.3,
        languages=(data.info.languages.src, data.info.languages.tgt),
    )


def guide_by_pairs(loaded: LoadedModel, path: Path | None, scorer: PairScorer) -> Guidance:
    """Guidance from a data directory of sentence pairs, or from the everyday pairs if ``path`` is None.

    Raises:
        DataError: See ``data_calibration``.
    """
    pairs = (
        everyday_calibration(loaded.tokenizer, max_positions=loaded.config.model.max_positions)
        if path is None
        else data_calibration(path, loaded.tokenizer, loaded.config)
    )

    def judge(candidate: LoadedModel | Path, progress: Progress, runtime: str | None = None) -> Scored:
        # Torch has one number of threads for all that it does: compression's, which is not to be changed here.
        threads = torch.get_num_threads()
        batch = _SCORE_BATCH if runtime is None else 1
        with open_translator(candidate, runtime=runtime, batch=batch, threads=threads, warn=lambda _: None) as opened:
            translations = translate_all(opened, pairs.sources, progress, name=pairs.name)
        measures = scorer.measures(translations, pairs.references)
        scores = {name: round(measure.value, 2) for name, measure in measures.items()}
        return Scored(scores=scores, measures=measures, outputs=translations)

    def score(model: nn.Module, progress: Progress) -> Scored:
        found = judge(replace(loaded, model=cast(EncoderDecoder, model)), progress)
        loss = round(mean_loss(_target_tokens, model, pairs.scan), 4)
        return replace(found, scores={**found.scores, "loss": loss})

    def score_other(other: LoadedModel, progress: Progress) -> Scored:
        return judge(replace(other, model=other.encoder_decoder), progress)

    def score_bundle(path: Path, progress: Progress) -> dict[str, Scored]:
        return {runtime: judge(path, progress, runtime) for runtime in open_stored(path).manifest.entries}

    def own_outputs(steps: int, keep: Keep, progress: Progress) -> Callable[[], Iterator[Batch]]:
        threads = torch.get_num_threads()
        with open_translator(loaded, batch=_TUNING_BATCH, threads=threads, warn=lambda _: None) as opened:
            taught = with_own_outputs(
                pairs.tuning,
                steps=steps,
                longest=pairs.longest,
                texts=pairs.texts,
                translate=opened.translate,
                tokenizer=loaded.tokenizer,
                keep=keep,
                progress=progress,
            )
        return taught.endless

    def inspect(scored: Scored) -> list[str]:
        return output_warnings(pairs.sources[:INSPECTED], (scored.outputs or ())[:INSPECTED])

    return Guidance(
        name=pairs.name,
        metric=scorer.metric,
        predict=_target_tokens,
        project=_before_output,
        scan=pairs.scan,
        tuning=pairs.tuning.endless,
        tuned=_predictions(pairs.tuning),
        own_outputs=own_outputs,
        label_weight=pairs.label_weight,
        score=score,
        score_other=score_other,
        bundles=BundleScoring(
            name=pairs.name,
            score_model=partial(score_other, loaded),
            score_bundle=score_bundle,
            sides=lambda: [[row for batch in pairs.scan for row in unpadded(batch.src_tokens)]],
        ),
        inspect=inspect,
        texts=ScoredTexts(
            metric="chrF",
            score=sentence_chrf,
            references=pairs.references,
            sources=lambda places: [pairs.sources[place] for place in places],
        ),
        languages=pairs.languages,
    )


def _target_tokens(model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
    """Log-probabilities (N, V) and labels (N,) of the target tokens of a batch, end marks included."""
    *inputs, labels = to_device(batch, device_of(model))
    logits = model(*inputs)
    real = labels != PAD_ID
    return F.log_softmax(logits[real], dim=-1, dtype=torch.float32), labels[real]


def _before_output(model: nn.Module, batch: Batch) -> tuple[TeacherOutput, Tensor]:
    """What gives the logits of the target tokens of a batch, and their labels (B, T)."""
    *inputs, labels = to_device(batch, device_of(model))
    return read_pairs(cast(EncoderDecoder, model), *inputs), labels


class _MemoryRows:
    """Token rows in memory, read like those of a split."""

    def __init__(self, src: Sequence[Sequence[int]], tgt: Sequence[Sequence[int]]) -> None:
        self._src = [np.array(row, dtype=np.int32) for row in src]
        self._tgt = [np.array(row, dtype=np.int32) for row in tgt]
        self.src_lengths = np.array([len(row) for row in src], dtype=np.int32)
        self.tgt_lengths = np.array([len(row) for row in tgt], dtype=np.int32)

    def __len__(self) -> int:
        return len(self._src)

    def tokens(self, indices: Rows) -> tuple[list[npt.NDArray[np.int32]], list[npt.NDArray[np.int32]]]:
        return [self._src[index] for index in indices], [self._tgt[index] for index in indices]


def _pairs(split: SplitRows, rows: Rows, *, shuffle: bool) -> EpochBatches:
    return EpochBatches(split=split, rows=rows, batch_tokens=_BATCH_TOKENS, seed=1, batches_per_step=1, shuffle=shuffle)


def _batches(split: SplitRows, rows: Rows) -> list[Batch]:
    pairs = _pairs(split, rows, shuffle=False)
    return [pairs.load(work.rows) for step in pairs.steps(0) for work in step]


def _predictions(pairs: EpochBatches) -> int:
    """Target tokens of an epoch, end marks included."""
    return int(pairs.split.tgt_lengths[pairs.rows].sum()) + len(pairs.rows)
