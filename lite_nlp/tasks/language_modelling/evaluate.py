"""Perplexity of a language model on a split of running text. Needs torch."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from lite_nlp.artifacts.models import LoadedModel, load_model, read_config, resolve_source
from lite_nlp.artifacts.opened import choose_runtime, open_task_bundle, refuse_loaded
from lite_nlp.config.preset import Config
from lite_nlp.core.bounds import MAX_TOKENS, check_range
from lite_nlp.core.errors import DataError, UsageError
from lite_nlp.core.progress import advance_to
from lite_nlp.data.text.directory import TextDirectory, TextSplitInfo, TokenStream, open_running_text
from lite_nlp.export.runtime.device import default_threads
from lite_nlp.export.runtime.task_engines import TextEngine, create_text_engine
from lite_nlp.models.build import as_language_model
from lite_nlp.tasks.language_modelling.scores import LikelihoodModel, TextScores, score_text, scoring_device
from lite_nlp.tasks.room import Evaluation, EvaluationRequest, Table
from lite_nlp.tasks.usefulness import perplexity_warnings

__all__ = ["EngineLikelihood", "check_vocabulary", "evaluate_text", "score_language_model"]


@dataclass(frozen=True, kw_only=True)
class _Scored:
    """A language model in a runtime; ``longest`` is the most tokens that a bundle reads at once."""

    name: str
    runtime: str
    config: Config
    tokenizer_json: bytes
    model: LikelihoodModel
    longest: int | None = None


class EngineLikelihood:
    """A bundle's engine as the model that is scored.

    Args:
        engine: The engine. It is given one row at a time, as on a phone: integer products round the inputs of a whole
            call alike.
    """

    def __init__(self, engine: TextEngine) -> None:
        self._engine = engine

    def target_log_probs(self, tokens: Tensor, labels: Tensor) -> Tensor:
        """Log-probabilities (B, T) of ``labels`` (B, T), each given ``tokens`` (B, T) up to its position."""
        rows = zip(tokens.numpy(), labels.numpy(), strict=True)
        return torch.from_numpy(np.concatenate([self._engine.score(row[None], wanted[None]) for row, wanted in rows]))


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
    scored = _open(request)
    _check_tokenizer(scored.tokenizer_json, directory)
    started = time.perf_counter()
    request.progress.start(f"scoring {data} {split}", len(stream))
    scores = score_language_model(
        scored.model,
        scored.config,
        stream,
        directory.counts(split),
        longest=scored.longest,
        window=request.window,
        context=request.context,
        on_progress=advance_to(request.progress),
    )
    seconds = time.perf_counter() - started
    return Evaluation(
        facts={
            "model": scored.name,
            "runtime": scored.runtime,
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
        tables=(_table(scores, title=f"{scored.name} on {data} {split}"),),
        notes=(
            f"windows of {scores.window} tokens, of which at least {scores.context} are context only, in "
            f"{seconds:.1f} s",
        ),
        warnings=tuple(perplexity_warnings(scores.perplexity, directory.tokenizer.vocab_size)),
    )


def check_vocabulary(loaded: LoadedModel, directory: TextDirectory) -> None:
    """Refuse a text that was tokenized with another tokenizer than the model's.

    Raises:
        DataError: If the text was tokenized with another tokenizer.
    """
    _check_tokenizer(loaded.tokenizer.to_json(), directory)


def _check_tokenizer(tokenizer_json: bytes, directory: TextDirectory) -> None:
    if directory.tokenizer.to_json() != tokenizer_json:
        raise DataError(f"{directory.path}: expected data tokenized with the model's own tokenizer, found another one")


def score_language_model(
    model: LikelihoodModel,
    config: Config,
    stream: TokenStream,
    counts: TextSplitInfo,
    *,
    window: int | None = None,
    context: int | None = None,
    longest: int | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> TextScores:
    """Score a language model on a text.

    Args:
        model: In any runtime.
        config: Its config.
        stream: The text.
        counts: Its words, characters and bytes.
        window: Tokens read at once; None is the block length of training.
        context: Least context of each scored token; None is half of the window.
        longest: Most tokens that the runtime reads at once; None for as many as the model.
        on_progress: Receives the number of tokens scored so far.

    Raises:
        UsageError: If the window is no number of tokens or longer than the model reads, or the context leaves nothing
            to score.
    """
    positions = config.model.max_positions
    limit = positions if longest is None else min(longest, positions)
    check_range("--window", window, 1, MAX_TOKENS)
    window = min(config.training.block_tokens, limit) if window is None else window
    if window > limit:
        name = "model.max_positions" if limit == positions else "the bundle's longest text"
        raise UsageError(f"--window: expected at most {name} ({limit}) tokens, found {window}")
    return score_text(
        model,
        stream,
        counts,
        window=window,
        context=window // 2 if context is None else context,
        device=scoring_device(model),
        on_progress=on_progress,
    )


def _open(request: EvaluationRequest) -> _Scored:
    """The language model of a request in its runtime."""
    model = request.model
    source = None if isinstance(model, LoadedModel) else resolve_source(model)
    runtime = choose_runtime(request.runtime, source)
    if source is None or runtime == "torch":
        loaded = load_model(model)
        refuse_loaded(loaded.name, runtime)
        if request.threads is not None:
            torch.set_num_threads(request.threads)
        return _Scored(
            name=loaded.name,
            runtime=runtime,
            config=loaded.config,
            tokenizer_json=loaded.tokenizer.to_json(),
            model=as_language_model(loaded.model, source=loaded.name),
        )
    bundle = open_task_bundle(source, runtime, progress=request.progress)
    engine = create_text_engine(bundle, runtime=runtime, threads=request.threads or default_threads())
    return _Scored(
        name=source.name,
        runtime=runtime,
        config=read_config(source),
        tokenizer_json=bundle.tokenizer_json,
        model=EngineLikelihood(engine),
        longest=engine.max_tokens,
    )


def _table(scores: TextScores, *, title: str) -> Table:
    interval = "" if scores.interval is None else "{:.3f} to {:.3f}".format(*scores.interval)
    return Table(
        title=title,
        columns=("metric", "score", "95 % interval", "over"),
        rows=(
            ("perplexity per token", f"{scores.perplexity:.3f}", interval, f"{scores.tokens:,} tokens"),
            ("perplexity per word", f"{scores.word_perplexity:.2f}", "", f"{scores.words:,} words and line ends"),
            ("bits per character", f"{scores.bits_per_character:.4f}", "", f"{scores.characters:,} characters"),
            ("bits per byte", f"{scores.bits_per_byte:.4f}", "", f"{scores.bytes:,} bytes"),
        ),
    )
