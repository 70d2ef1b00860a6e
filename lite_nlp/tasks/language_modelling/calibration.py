"""Running text to scan, finetune and score on when a language model is compressed. Needs torch."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lite_nlp.artifacts.bundles import open_any_bundle
from lite_nlp.artifacts.models import LoadedModel
from lite_nlp.compress.metric import Metric
from lite_nlp.compress.significance import Scored
from lite_nlp.config.preset import Config
from lite_nlp.core.errors import DataError
from lite_nlp.core.progress import Progress, advance_to
from lite_nlp.core.special_tokens import PAD_ID
from lite_nlp.data.text.directory import TextBlocks, TokenStream, cut_blocks, open_running_text
from lite_nlp.export.runtime import open_stored
from lite_nlp.export.runtime.task_engines import create_text_engine
from lite_nlp.models.build import Model, as_language_model
from lite_nlp.models.embeddings import PlainVocabulary
from lite_nlp.models.language_model import LanguageModel
from lite_nlp.tasks.calibration import BundleScoring, Guidance, spaced
from lite_nlp.tasks.language_modelling.evaluate import EngineLikelihood, check_vocabulary, score_language_model
from lite_nlp.tasks.language_modelling.scores import LikelihoodModel, perplexity_of, scoring_device, window_likelihoods
from lite_nlp.tasks.language_modelling.teaching import read_text
from lite_nlp.training.device import device_of
from lite_nlp.training.mixed_loss import TeacherOutput

__all__ = ["guide_by_text"]

_METRIC: Final = Metric(name="perplexity", label="perplexity", unit="in perplexity", lower_is_better=True)

#: Tokens for the sensitivity scan, which evaluates hundreds of times, and of a batch to finetune on.
_SCAN_TOKENS: Final = 2048
_BATCH_TOKENS: Final = 2048
#: Most numbers of a batch of predictions over the vocabulary, but always at least the predictions of so many tokens.
_MOST_NUMBERS: Final = 2**26
_FEWEST_TOKENS: Final = 128

#: Tokens on which bundles are compared with their model: the windows are the same, and the difference is measured well.
_BUNDLE_TOKENS: Final = 16_384

Rows = np.ndarray[tuple[int], np.dtype[np.int64]]


def guide_by_text(loaded: LoadedModel, path: Path) -> Guidance:
    """Guidance from a directory of running text: some training blocks to scan, all others to finetune on.

    The whole validation split is scored and used for nothing else, so ``lite-nlp evaluate --split valid`` gives the
    score of a file's row in the ledger.

    Raises:
        DataError: If the directory is of another kind, damaged, lacks a split, was tokenized with another vocabulary,
            or has fewer than two training tokens.
    """
    data = open_running_text(path)
    check_vocabulary(loaded, data)
    train, valid, counts = data.stream("train"), data.stream("valid"), data.counts("valid")
    scanned, batch, block = _extents(loaded.config, loaded.tokenizer.vocab_size)
    if len(train) < 2:
        raise DataError(f"{path}: expected at least two tokens to train on, found {len(train)}")
    block = min(block, len(train) // 2)
    starts = np.arange(0, len(train), block, dtype=np.int64)
    # At most half: scanned blocks are not finetuned on.
    guiding = spaced(starts, min(max(1, scanned // block), len(starts) // 2))
    scan = [cut_blocks(train, guiding[row : row + 1], block_tokens=block) for row in range(len(guiding))]
    name = f"{path} valid"

    language_model = as_language_model(loaded.model, source=loaded.name)
    window = min(loaded.config.training.block_tokens, loaded.config.model.max_positions)

    def score_other(other: LoadedModel, report: Progress) -> Scored:
        check_vocabulary(other, data)
        report.start(f"scoring {name}", None)
        model = as_language_model(other.model, source=other.name)
        # In the same windows, so that the tokens of each can be compared.
        scores = score_language_model(model, other.config, valid, counts, window=window)
        figures = {
            "perplexity": scores.perplexity,
            "word_perplexity": scores.word_perplexity,
            "bits_per_byte": scores.bits_per_byte,
        }
        return Scored(
            scores={key: round(figure, 4) for key, figure in figures.items()}, measures={"perplexity": scores.measure}
        )

    return Guidance(
        name=name,
        metric=_METRIC,
        predict=_next_tokens,
        # An adaptive softmax never has the logits of all types.
        project=_before_output if isinstance(language_model.vocabulary, PlainVocabulary) else None,
        scan=scan,
        tuning=lambda: _endless(train, np.setdiff1d(starts, guiding), block=block, rows=max(1, batch // block)),
        tuned=max(1, len(train) - block * len(guiding)),
        label_weight=0.3,
        score=lambda model, report: score_other(replace(loaded, model=cast(Model, model)), report),
        score_other=score_other,
        bundles=_compare_bundles(
            language_model,
            valid.head(_BUNDLE_TOKENS),
            window=window,
            text=name,
            scan=scan,
        ),
    )


def _compare_bundles(
    model: LikelihoodModel,
    stream: TokenStream,
    *,
    window: int,
    text: str,
    scan: Sequence[TextBlocks],
) -> BundleScoring:
    """Comparison of bundles with a model on the beginning of a text, which takes seconds."""
    name = f"{len(stream):,} tokens of {text}"

    def judge(scored: LikelihoodModel, report: Progress) -> Scored:
        report.start(f"scoring {name}", len(stream))
        windows = window_likelihoods(
            scored,
            stream,
            window=window,
            context=window // 2,
            device=scoring_device(scored),
            on_progress=advance_to(report),
        )
        measure = perplexity_of(windows)
        return Scored(scores={"perplexity": round(measure.value, 4)}, measures={"perplexity": measure})

    def score_bundle(path: Path, report: Progress) -> dict[str, Scored]:
        found = {}
        for runtime in open_stored(path).manifest.entries:
            bundle = open_any_bundle(path, runtime=runtime)
            engine = create_text_engine(bundle, runtime=runtime, threads=torch.get_num_threads())
            found[runtime] = judge(EngineLikelihood(engine), report)
        return found

    return BundleScoring(
        name=name,
        score_model=partial(judge, model),
        score_bundle=score_bundle,
        sides=lambda: [[row for block in scan for row in block.tokens[:, 1:].tolist()]],
    )


def _extents(config: Config, types: int) -> tuple[int, int, int]:
    """Tokens of the scan, of a batch and of a block, limited so that predictions over a large vocabulary fit."""
    most = max(_FEWEST_TOKENS, _MOST_NUMBERS // types)
    scanned, batch = min(_SCAN_TOKENS, most), min(_BATCH_TOKENS, most)
    return scanned, batch, min(config.training.block_tokens, config.model.max_positions, batch)


def _endless(stream: TokenStream, starts: Rows, *, block: int, rows: int) -> Iterator[TextBlocks]:
    """Batches of endless epochs, each in its own order; the same at every call."""
    for epoch in count():
        order = np.random.default_rng([1, epoch]).permutation(starts)
        for first in range(0, len(order), rows):
            yield cut_blocks(stream, order[first : first + rows], block_tokens=block)


def _on_device_of(model: nn.Module, blocks: TextBlocks) -> tuple[Tensor, Tensor]:
    """Tokens and next tokens (B, T)."""
    tokens, labels = (torch.from_numpy(array).to(device_of(model), non_blocking=True) for array in blocks)
    return tokens, labels


def _before_output(model: nn.Module, blocks: TextBlocks) -> tuple[TeacherOutput, Tensor]:
    """What gives the logits of all next tokens, and those tokens (B, T)."""
    tokens, labels = _on_device_of(model, blocks)
    return read_text(cast(LanguageModel, model), tokens), labels


def _next_tokens(model: nn.Module, blocks: TextBlocks) -> tuple[Tensor, Tensor]:
    """Log-probabilities (N, V) and labels (N,) of all next tokens."""
    tokens, labels = _on_device_of(model, blocks)
    real = labels != PAD_ID
    return F.log_softmax(model(tokens)[real], dim=-1, dtype=torch.float32), labels[real]
