"""What ``lite-nlp evaluate`` does with a language model: its perplexity on a split of running text."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.table import Table

from lite_nlp.cli.console import out, print_json, progress_bar
from lite_nlp.core.errors import DataError, RuntimeUnavailableError

if TYPE_CHECKING:
    from lite_nlp.artifacts.models import LoadedModel
    from lite_nlp.config.preset import Config
    from lite_nlp.data.text.directory import TextDirectory, TextSplitInfo, TokenStream
    from lite_nlp.models.language_model import LanguageModel
    from lite_nlp.tasks.language_modelling.scores import TextScores

__all__ = ["check_vocabulary", "evaluate_language_model", "score_language_model"]


def evaluate_language_model(
    model: str | None,
    *,
    data: Path | None,
    split: str | None,
    window: int | None,
    context: int | None,
    threads: int | None,
    as_json: bool,
) -> None:
    """Score a language model and print the scores.

    Args:
        model: The MODEL argument.
        data: Data directory of running text.
        split: Split of it; None is ``test``.
        window: Tokens read at once; None is what the model was trained on.
        context: Least context of each scored token; None is half of the window.
        threads: Threads of torch; None leaves them.
        as_json: Whether to print one JSON object.

    Raises:
        DataError: If the data is of another kind or tokenized with another tokenizer, or the window does not fit.
    """
    if data is None:
        raise typer.BadParameter("a language model is evaluated on running text: --data is required")
    try:
        import torch
    except ModuleNotFoundError as error:
        raise RuntimeUnavailableError(
            "evaluate: a language model needs torch, which is not installed; expected the extra lite-nlp[train]"
        ) from error
    from lite_nlp.artifacts.models import load_model
    from lite_nlp.data.text.directory import open_running_text
    from lite_nlp.models.build import as_language_model

    directory, name = open_running_text(data), split or "test"
    stream = directory.stream(name)
    loaded = load_model(model)
    language_model = as_language_model(loaded.model, source=loaded.name)
    check_vocabulary(loaded, directory)
    if threads is not None:
        torch.set_num_threads(threads)
    started = time.perf_counter()
    with progress_bar() as progress:
        task = progress.add_task(f"scoring {data} {name}", total=len(stream))
        scores = score_language_model(
            language_model,
            loaded.config,
            stream,
            directory.counts(name),
            window=window,
            context=context,
            on_progress=lambda tokens: progress.update(task, completed=tokens),
        )
    seconds = time.perf_counter() - started
    if as_json:
        print_json(_as_json(scores, model=loaded.name, data=str(data), split=name, seconds=seconds))
    else:
        _print_table(scores, title=f"{loaded.name} on {data} {name}", seconds=seconds)


def check_vocabulary(loaded: "LoadedModel", directory: "TextDirectory") -> None:
    """Refuse a text of other tokens than the model's.

    Raises:
        DataError: If the text was tokenized with another tokenizer.
    """
    if directory.tokenizer.to_json() != loaded.tokenizer.to_json():
        raise DataError(f"{directory.path}: expected data tokenized with the model's own tokenizer, found another one")


def score_language_model(
    model: "LanguageModel",
    config: "Config",
    stream: "TokenStream",
    counts: "TextSplitInfo",
    *,
    window: int | None = None,
    context: int | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> "TextScores":
    """Score a language model on a text.

    Args:
        model: In evaluation mode.
        config: Its config.
        stream: The text.
        counts: Its words, characters and bytes.
        window: Tokens read at once; None is what the model was trained on.
        context: Least context of each scored token; None is half of the window.
        on_progress: Told how many tokens have been scored.

    Raises:
        DataError: If the window is longer than the model reads, or the context leaves nothing to score.
    """
    from lite_nlp.tasks.language_modelling.scores import score_text

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


def _as_json(scores: "TextScores", *, model: str, data: str, split: str, seconds: float) -> dict[str, Any]:
    return {
        "model": model,
        "runtime": "torch",
        "data": data,
        "split": split,
        "window": scores.window,
        "context": scores.context,
        "scores": scores.as_dict(),
        "tokens": scores.tokens,
        "words": scores.words,
        "characters": scores.characters,
        "bytes": scores.bytes,
        "seconds": round(seconds, 3),
    }


def _print_table(scores: "TextScores", *, title: str, seconds: float) -> None:
    table = Table("metric", "score", "over", title=title)
    table.add_row("perplexity per token", f"{scores.perplexity:.3f}", f"{scores.tokens:,} tokens")
    table.add_row("perplexity per word", f"{scores.word_perplexity:.2f}", f"{scores.words:,} words and line ends")
    table.add_row("bits per character", f"{scores.bits_per_character:.4f}", f"{scores.characters:,} characters")
    table.add_row("bits per byte", f"{scores.bits_per_byte:.4f}", f"{scores.bytes:,} bytes")
    out.print(table)
    out.print(
        f"windows of {scores.window} tokens, of which at least {scores.context} are context only, in {seconds:.1f} s",
        markup=False,
        soft_wrap=True,
    )
