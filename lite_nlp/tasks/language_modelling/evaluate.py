"""Perplexity of a language model on a split of running text. Needs torch."""

import time
from collections.abc import Callable
from pathlib import Path

import torch

from lite_nlp.artifacts.models import LoadedModel, load_model
from lite_nlp.config.preset import Config
from lite_nlp.core.errors import DataError
from lite_nlp.core.progress import advance_to
from lite_nlp.data.text.directory import TextDirectory, TextSplitInfo, TokenStream, open_running_text
from lite_nlp.models.build import as_language_model
from lite_nlp.models.language_model import LanguageModel
from lite_nlp.tasks.language_modelling.scores import TextScores, score_text
from lite_nlp.tasks.room import Evaluation, EvaluationRequest, Table
from lite_nlp.tasks.usefulness import perplexity_warnings

__all__ = ["check_vocabulary", "evaluate_text", "score_language_model"]


def evaluate_text(request: EvaluationRequest, data: Path) -> Evaluation:
    """Score a language model.

    Args:
        request: The model, the split, the window and the context.
        data: Data directory of running text.

    Raises:
        DataError: If the data is of another kind or tokenized with another tokenizer, or the window does not fit.
    """
    directory, split = open_running_text(data), request.split or "test"
    stream = directory.stream(split)
    loaded = load_model(request.model)
    language_model = as_language_model(loaded.model, source=loaded.name)
    check_vocabulary(loaded, directory)
    if request.threads is not None:
        torch.set_num_threads(request.threads)
    started = time.perf_counter()
    request.progress.start(f"scoring {data} {split}", len(stream))
    scores = score_language_model(
        language_model,
        loaded.config,
        stream,
        directory.counts(split),
        window=request.window,
        context=request.context,
        on_progress=advance_to(request.progress),
    )
    seconds = time.perf_counter() - started
    return Evaluation(
        facts={
            "model": loaded.name,
            "runtime": "torch",
            "data": str(data),
            "split": split,
            "window": scores.window,
            "context": scores.context,
            "scores": scores.as_dict(),
            "tokens": scores.tokens,
            "words": scores.words,
            "characters": scores.characters,
            "bytes": scores.bytes,
            "seconds": round(seconds, 3),
        },
        tables=(_table(scores, title=f"{loaded.name} on {data} {split}"),),
        notes=(
            f"windows of {scores.window} tokens, of which at least {scores.context} are context only, in "
            f"{seconds:.1f} s",
        ),
        warnings=tuple(perplexity_warnings(scores.perplexity, loaded.tokenizer.vocab_size)),
    )


def check_vocabulary(loaded: LoadedModel, directory: TextDirectory) -> None:
    """Refuse a text that was tokenized with another tokenizer than the model's.

    Raises:
        DataError: If the text was tokenized with another tokenizer.
    """
    if directory.tokenizer.to_json() != loaded.tokenizer.to_json():
        raise DataError(f"{directory.path}: expected data tokenized with the model's own tokenizer, found another one")


def score_language_model(
    model: LanguageModel,
    config: Config,
    stream: TokenStream,
    counts: TextSplitInfo,
    *,
    window: int | None = None,
    context: int | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> TextScores:
    """Score a language model on a text.

    Args:
        model: In evaluation mode.
        config: Its config.
        stream: The text.
        counts: Its words, characters and bytes.
        window: Tokens read at once; None is the block length of training.
        context: Least context of each scored token; None is half of the window.
        on_progress: Receives the number of tokens scored so far.

    Raises:
        DataError: If the window is longer than the model reads, or the context leaves nothing to score.
    """
    positions = config.model.max_positions
    window = min(config.training.block_tokens, positions) if window is None else window
    if window > positions:
        raise DataError(f"window: expected at most model.max_positions ({positions}) tokens, found {window}")
    return score_text(
        model,
        stream,
        counts,
        window=window,
        context=window // 2 if context is None else context,
        device=next(model.parameters()).device,
        on_progress=on_progress,
    )


def _table(scores: TextScores, *, title: str) -> Table:
    return Table(
        title=title,
        columns=("metric", "score", "over"),
        rows=(
            ("perplexity per token", f"{scores.perplexity:.3f}", f"{scores.tokens:,} tokens"),
            ("perplexity per word", f"{scores.word_perplexity:.2f}", f"{scores.words:,} words and line ends"),
            ("bits per character", f"{scores.bits_per_character:.4f}", f"{scores.characters:,} characters"),
            ("bits per byte", f"{scores.bits_per_byte:.4f}", f"{scores.bytes:,} bytes"),
        ),
    )
