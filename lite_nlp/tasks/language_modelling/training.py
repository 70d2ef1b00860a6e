"""Training of language models: blocks of running text, cross entropy of the next token."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
import torch
from torch import Tensor, nn

from lite_nlp.config.model import LanguageModelConfig
from lite_nlp.config.preset import Config
from lite_nlp.core.errors import TrainingError
from lite_nlp.core.special_tokens import PAD_ID
from lite_nlp.data.text.directory import TextBlocks, TokenStream, cut_blocks
from lite_nlp.models.language_model import LanguageModel
from lite_nlp.tasks.language_modelling.teaching import TextTeacher, read_text
from lite_nlp.tasks.pair_keys import refuse_pair_keys
from lite_nlp.training.batching import Rows, Work
from lite_nlp.training.device import autocast
from lite_nlp.training.loss import projected_loss
from lite_nlp.training.mixed_loss import mixed_loss
from lite_nlp.training.objective import SplitChoice

__all__ = ["BlockBatches", "LanguageModellingObjective"]


@dataclass(frozen=True, kw_only=True)
class BlockBatches:
    """Batches of adjacent blocks of a text without overlap; an epoch predicts each token once.

    Line and document boundaries are ignored, as in the papers (T2R, section 4.1). The rows of a batch are the positions
    where its blocks begin; the first block of an epoch may begin before the text.

    Attributes:
        stream: The text.
        block_tokens: Tokens of a block.
        batch_tokens: Bound of the tokens of a batch; a block longer than that is a batch of its own.
        seed: Seed of the order.
        batches_per_step: Batches in an optimizer step over all processes.
        shuffle: Whether the positions of the blocks, and their order, change from epoch to epoch.
    """

    stream: TokenStream
    block_tokens: int
    batch_tokens: int
    seed: int
    batches_per_step: int
    shuffle: bool = True

    def steps(self, epoch: int) -> list[list[Work]]:
        """The steps of an epoch; the last may have fewer batches than the others, and its last batch fewer blocks."""
        rng = np.random.default_rng([self.seed, epoch])
        offset = int(rng.integers(self.block_tokens)) if self.shuffle else 0
        starts: Rows = np.arange(-offset, len(self.stream), self.block_tokens, dtype=np.int64)
        if self.shuffle:
            starts = rng.permutation(starts)
        blocks = max(1, self.batch_tokens // self.block_tokens)
        batches = [starts[first : first + blocks] for first in range(0, len(starts), blocks)]
        return [
            [Work(slot, rows) for slot, rows in enumerate(batches[first : first + self.batches_per_step])]
            for first in range(0, len(batches), self.batches_per_step)
        ]

    def load(self, rows: Rows, epoch: int = 0) -> TextBlocks:
        """Read the blocks of a batch, the same in every epoch."""
        return cut_blocks(self.stream, rows, block_tokens=self.block_tokens)


class LanguageModellingObjective:
    """Objective of a language model on running text.

    Args:
        config: ``config.model`` is a language model that fits the tokenizer.
        train: The training text.
        valid: The validation text.
        teacher: What the distribution of every token is learned from, beside the token itself.

    Raises:
        TrainingError: If blocks are longer than the model can read, the loss does not fit its output layer, or a key is
            set that is of sentence pairs alone.
    """

    def __init__(
        self, *, config: Config, train: TokenStream, valid: TokenStream, teacher: TextTeacher | None = None
    ) -> None:
        self._config = config
        self._teacher = teacher
        self._streams: dict[SplitChoice, TokenStream] = {"train": train, "valid": valid}
        self._adaptive = isinstance(config.model, LanguageModelConfig) and config.model.embedding == "adaptive"
        positions, training = config.model.max_positions, config.training
        refuse_pair_keys(training)
        if training.block_tokens > positions:
            raise TrainingError(
                f"training.block_tokens: expected at most model.max_positions ({positions}), found"
                f" {training.block_tokens}"
            )
        if self._adaptive and training.label_smoothing:
            raise TrainingError(
                "training.label_smoothing: expected 0 with an adaptive softmax, which does not spread probability over"
                f" all types, found {training.label_smoothing}"
            )

    @property
    def measures(self) -> Mapping[str, str]:
        """No scores beside the loss."""
        return {}

    def batches(self, split: SplitChoice, *, batches_per_step: int, say: Callable[[str], None]) -> BlockBatches:
        """See ``Objective``; no token is left out."""
        del say
        training, stream = self._config.training, self._streams[split]
        if not len(stream):
            raise TrainingError(f"{stream.name}: expected at least one token, found none")
        return BlockBatches(
            stream=stream,
            block_tokens=training.block_tokens,
            batch_tokens=training.batch_tokens,
            seed=training.seed,
            batches_per_step=batches_per_step,
            shuffle=split == "train",
        )

    def batch_sums(self, model: nn.Module, batch: TextBlocks, device: torch.device) -> Tensor:
        """See ``Objective``: the cross entropy of all tokens, without context from earlier blocks.

        It is label-smoothed unless the output layer is adaptive, which never computes the logits of all types.
        """
        training = self._config.training
        tokens, labels = (torch.from_numpy(array).to(device, non_blocking=True) for array in batch)
        targets = torch.tensor(float(np.count_nonzero(batch.labels != PAD_ID)), device=device)
        if self._adaptive:
            loss = nll = _adaptive_loss(model, tokens, labels, precision=training.precision)
        else:
            loss, nll = _plain_loss(
                model,
                tokens,
                labels,
                smoothing=training.label_smoothing,
                precision=training.precision,
                teacher=self._teacher if model.training else None,
            )
        return torch.stack([loss, nll, torch.zeros_like(targets), targets])

    def measure(self, model: nn.Module, *, examples: int | None = None) -> dict[str, float]:
        """No scores: see ``measures``."""
        del model, examples
        return {}

    def fingerprint(self) -> dict[str, Any]:
        """See ``Objective``."""
        return {f"{name}_tokens": len(stream) for name, stream in self._streams.items()}

    def facts(self) -> dict[str, Any]:
        """See ``Objective``."""
        return {"train_tokens": len(self._streams["train"]), "block_tokens": self._config.training.block_tokens}


def _plain_loss(
    model: nn.Module,
    tokens: Tensor,
    labels: Tensor,
    *,
    smoothing: float,
    precision: Literal["fp32", "bf16"],
    teacher: TextTeacher | None,
) -> tuple[Tensor, Tensor]:
    """Summed label-smoothed loss, with a teacher's in it if there is one, and negative log-likelihood, 0-dimensional.

    Gradients are accumulated if enabled.
    """
    with autocast(tokens.device, precision):
        hidden, table = read_text(cast(LanguageModel, model), tokens)
        if teacher is None:
            loss, nll = projected_loss(hidden, table, labels, smoothing=smoothing)
        else:
            loss, nll = mixed_loss(
                hidden, table, labels, teacher=teacher(tokens), smoothing=smoothing, soft=teacher.soft
            )
    if loss.requires_grad:
        loss.backward()  # type: ignore[no-untyped-call]
    return loss.detach(), nll


def _adaptive_loss(model: nn.Module, tokens: Tensor, labels: Tensor, *, precision: Literal["fp32", "bf16"]) -> Tensor:
    """Summed negative log-likelihood of the labels, 0-dimensional; gradients are accumulated if enabled."""
    with autocast(tokens.device, precision):
        log_probs = cast(LanguageModel, model).target_log_probs(tokens, labels)
    loss = -log_probs.float().masked_fill(labels.eq(PAD_ID), 0.0).sum()
    if loss.requires_grad:
        loss.backward()  # type: ignore[no-untyped-call]
    return loss.detach()
