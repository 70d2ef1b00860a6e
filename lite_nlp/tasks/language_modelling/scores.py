"""Perplexity of a language model on running text; each token is scored once, with a given least context."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lite_nlp.compress.significance import Measure
from lite_nlp.core.bounds import check_range
from lite_nlp.core.errors import UndefinedScoreError
from lite_nlp.core.special_tokens import PAD_ID
from lite_nlp.data.text.directory import TextSplitInfo, TokenStream, cut_blocks
from lite_nlp.training.device import device_of

__all__ = [
    "LikelihoodModel",
    "TextScores",
    "perplexity_of",
    "score_text",
    "scoring_device",
    "window_likelihoods",
]

#: Tokens given to the model at once, contexts included.
_BATCH_TOKENS: Final = 4096


class LikelihoodModel(Protocol):
    """The interface of a scored language model."""

    def target_log_probs(self, tokens: Tensor, labels: Tensor) -> Tensor:
        """Log-probabilities (B, T) of ``labels`` (B, T), each given ``tokens`` (B, T) up to its position."""


@dataclass(frozen=True, kw_only=True)
class TextScores:
    """Likelihood of a text under a language model.

    Attributes:
        nll: Negative log-likelihood of the whole text, in nats.
        tokens: Tokens scored, line ends included: all of the text.
        words: Words of the text, one line end per line included, as the papers' WikiText-103 counts them.
        characters: Its characters, line ends included.
        bytes: Its bytes in UTF-8, line ends included.
        window: Tokens read at once.
        context: Tokens at the beginning of each window but the first that served as context only.
        windows: (windows, 2) negative log-likelihood and number of the tokens that each window scored.
    """

    nll: float
    tokens: int
    words: int
    characters: int
    bytes: int
    window: int
    context: int
    windows: NDArray[np.float64] = field(repr=False, compare=False)

    @property
    def perplexity(self) -> float:
        """Perplexity per token: comparable only between models with the same vocabulary."""
        return _exp(self.nll / self.tokens)

    @cached_property
    def interval(self) -> tuple[float, float] | None:
        """The ends of the perplexity's 95 % interval, windows resampled; None for a text of one window."""
        return self.measure.interval if len(self.windows) > 1 else None

    @property
    def word_perplexity(self) -> float:
        """Perplexity per word: comparable between vocabularies, and with word-level models."""
        return _exp(self.nll / self.words)

    @property
    def bits_per_character(self) -> float:
        """Bits per character."""
        return self.nll / math.log(2.0) / self.characters

    @property
    def bits_per_byte(self) -> float:
        """Bits per byte."""
        return self.nll / math.log(2.0) / self.bytes

    @property
    def measure(self) -> Measure:
        """The perplexity, as a measure whose examples are the windows: neighbouring tokens are not independent."""
        return perplexity_of(self.windows)

    def as_dict(self) -> dict[str, Any]:
        """The scores, as JSON takes them."""
        low, high = self.interval or (None, None)
        names = ("word_perplexity", "bits_per_character", "bits_per_byte", "nll")
        interval = {"perplexity": self.perplexity, "perplexity_low": low, "perplexity_high": high}
        return interval | {name: getattr(self, name) for name in names}


def score_text(
    model: LikelihoodModel,
    stream: TokenStream,
    counts: TextSplitInfo,
    *,
    window: int,
    context: int,
    device: torch.device,
    on_progress: Callable[[int], None] | None = None,
) -> TextScores:
    """Score a split of running text; see ``window_likelihoods`` for the arguments.

    Args:
        model: In evaluation mode.
        stream: The text.
        counts: Its words, characters and bytes.
        window: Tokens read at once.
        context: Least context of each scored token.
        device: Where the model is.
        on_progress: Told how many tokens have been scored.

    Raises:
        UndefinedScoreError: If the likelihood is no number.
    """
    windows = window_likelihoods(model, stream, window=window, context=context, device=device, on_progress=on_progress)
    nll = float(windows[:, 0].sum())
    if not math.isfinite(nll):
        raise UndefinedScoreError(
            "model: expected finite log-probabilities, found NaN or infinity; its weights are damaged"
        )
    return TextScores(
        nll=nll,
        tokens=len(stream),
        words=counts.words + counts.lines,
        characters=counts.characters,
        bytes=counts.bytes,
        window=window,
        context=context,
        windows=windows,
    )


def scoring_device(model: LikelihoodModel) -> torch.device:
    """Where a model takes its tokens: that of its weights in torch, the CPU in another runtime."""
    return device_of(model) if isinstance(model, nn.Module) else torch.device("cpu")


def perplexity_of(windows: NDArray[np.float64]) -> Measure:
    """The perplexity by the likelihoods (windows, 2) of ``window_likelihoods``."""
    return Measure(statistics=windows, compute=lambda sums: _exp(float(sums[0] / sums[1])))


def window_likelihoods(
    model: LikelihoodModel,
    stream: TokenStream,
    *,
    window: int,
    context: int,
    device: torch.device,
    on_progress: Callable[[int], None] | None = None,
) -> NDArray[np.float64]:
    """Negative log-likelihood of a text, in nats, by window.

    The model reads windows of ``window`` tokens, and each window but the first scores its last ``window - context``
    places only: with 512 and 256 the protocol of T2R (section 4.1, the last 256 words of 512); the Subformer's table 5
    has a context of 480. The first window scores all of its places, so that every token of the text is scored exactly
    once; only its first ``context`` tokens have less context than the others.

    Args:
        model: In evaluation mode.
        stream: The text.
        window: Tokens read at once.
        context: Least context of each scored token, 0 to ``window - 1``.
        device: Where the model is.
        on_progress: Told how many tokens have been scored.

    Returns:
        (windows, 2): the negative log-likelihood of the tokens that a window scored, and their number.

    Raises:
        UsageError: If ``context`` leaves nothing to score in a window.
    """
    check_range(f"--context in windows of {window} tokens", context, 0, window - 1)
    starts = np.arange(0, max(1, len(stream) - context), window - context)
    found: list[NDArray[np.float64]] = []
    scored = 0
    rows = max(1, _BATCH_TOKENS // window)
    with torch.inference_mode():
        for first in range(0, len(starts), rows):
            chosen = starts[first : first + rows]
            blocks = cut_blocks(stream, chosen, block_tokens=window)
            said = blocks.labels != PAD_ID
            # The tokens that a window repeats from the previous one are context.
            said[chosen > 0, :context] = False
            tokens, labels = (torch.from_numpy(array).to(device) for array in blocks)
            log_probs = model.target_log_probs(tokens, labels).double()
            log_probs = log_probs.masked_fill(~torch.from_numpy(said).to(device), 0.0)
            found.append(np.stack([-log_probs.sum(dim=1).cpu().numpy(), said.sum(axis=1)], axis=1))
            scored += int(said.sum())
            if on_progress is not None:
                on_progress(scored)
    return np.concatenate(found)


def _exp(nats: float) -> float:
    """The exponential, capped so that very large losses do not overflow."""
    return math.exp(min(nats, 700.0))
