"""What a model is trained to do: what a batch is, the loss on one, and what validation measures beside the loss."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol, TypeVar, cast

import torch
from torch import Tensor, nn

from lite_nlp.config.preset import Config
from lite_nlp.core.errors import TrainingError
from lite_nlp.data.pairs.batches import Batch
from lite_nlp.models.transformer import EncoderDecoder
from lite_nlp.tasks.translation.truncation import TruncatedRows
from lite_nlp.training.batching import EpochBatches, Rows, SplitRows, Work, short_rows
from lite_nlp.training.device import autocast, to_device
from lite_nlp.training.loss import label_smoothed_loss

__all__ = ["Batches", "SplitChoice", "Task", "TranslationTask"]

#: The split to learn from, or the one to validate on.
SplitChoice = Literal["train", "valid"]

B = TypeVar("B")
B_co = TypeVar("B_co", covariant=True)


class Batches(Protocol[B_co]):
    """The batches of one split: whole epochs of them, cut into optimizer steps."""

    @property
    def batches_per_step(self) -> int:
        """Batches in an optimizer step over all processes."""

    def steps(self, epoch: int) -> list[list[Work]]:
        """The steps of an epoch: a pure function of the seed and the epoch."""

    def load(self, rows: Rows) -> B_co:
        """Read and pad the rows of a batch; called in another thread than training."""


class Task(Protocol[B]):
    """One kind of training. Every process holds an equal one; it draws no random numbers of its own."""

    @property
    def measures(self) -> tuple[str, ...]:
        """What ``measure`` gives, beside the loss: names of fields of ``Validation``."""

    def batches(self, split: SplitChoice, *, batches_per_step: int, say: Callable[[str], None]) -> Batches[B]:
        """The batches of a split, in an order that changes from epoch to epoch where it is the one to learn from.

        Args:
            split: Which one.
            batches_per_step: Batches in an optimizer step over all processes.
            say: Is told what is left out of the split, if anything.

        Raises:
            TrainingError: If nothing of the split can be used.
        """

    def batch_sums(self, model: nn.Module, batch: B, device: torch.device) -> Tensor:
        """Run the model on a batch; where gradients are enabled, add them to the parameters' ``grad``.

        Returns:
            (4,) float32 on ``device``, sums over the batch: the loss to be minimized and the negative log-likelihood,
            in nats; the tokens that were read only; and the targets, which the loss and the gradient of a step are
            divided by.
        """

    def measure(self, model: nn.Module) -> dict[str, float]:
        """The ``measures`` of the model, in evaluation mode, on the validation split; called in the first process."""

    def fingerprint(self) -> dict[str, Any]:
        """What of the data must be the same for a run to be resumed, as JSON takes it."""

    def facts(self) -> dict[str, Any]:
        """What ``metrics.json`` is to say about the data."""


class TranslationTask:
    """Sentence pairs for an encoder-decoder; summarization and style transfer are the same task with other pairs.

    Args:
        config: ``config.model`` fits the tokenizer.
        train: The training split.
        valid: The validation split.
        languages: Codes of the data's ``src`` and ``tgt`` language, written to ``metrics.json``.
        evaluate: For each name of ``measures``, the score of a model in evaluation mode on the validation split.
    """

    def __init__(
        self,
        *,
        config: Config,
        train: SplitRows,
        valid: SplitRows,
        languages: Mapping[str, str],
        evaluate: Mapping[str, Callable[[EncoderDecoder], float]] | None = None,
    ) -> None:
        self._config = config
        self._splits: dict[SplitChoice, SplitRows] = {"train": train, "valid": valid}
        if config.training.truncate:
            self._splits = {
                name: TruncatedRows(split, max_tokens=self._max_tokens(name)) for name, split in self._splits.items()
            }
        self._languages = dict(languages)
        self._evaluate = dict(evaluate or {})

    @property
    def measures(self) -> tuple[str, ...]:
        """See :class:`Task`."""
        return tuple(self._evaluate)

    def batches(self, split: SplitChoice, *, batches_per_step: int, say: Callable[[str], None]) -> EpochBatches:
        """See :class:`Task`; pairs with a side that is too long are left out, or cut off where the config says so."""
        training, learning = self._config.training, split == "train"
        name = "training" if learning else "validation"
        pairs, rows, max_tokens = self._splits[split], self._rows(split), self._max_tokens(split)
        left_out = len(pairs) - len(rows)
        if not len(rows):
            raise TrainingError(
                f"{name} split: expected at least one pair of at most {max_tokens} tokens a side, found none"
                f" ({left_out} longer)"
            )
        if left_out:
            say(f"{name} split: {left_out} of {len(pairs)} pairs left out, longer than {max_tokens} tokens")
        if isinstance(pairs, TruncatedRows) and (pairs.cut_sources or pairs.cut_targets):
            say(
                f"{name} split: {pairs.cut_sources} sources and {pairs.cut_targets} targets of {len(pairs)} pairs cut"
                f" off after {max_tokens} tokens"
            )
        return EpochBatches(
            split=pairs,
            rows=rows,
            batch_tokens=training.batch_tokens,
            seed=training.seed,
            batches_per_step=batches_per_step,
            shuffle=learning,
        )

    def batch_sums(self, model: nn.Module, batch: Batch, device: torch.device) -> Tensor:
        """See :class:`Task`: the label-smoothed cross entropy of the target tokens."""
        training = self._config.training
        src_tokens, src_mask, tgt_tokens, labels = to_device(batch, device)
        with autocast(device, training.precision):
            logits: Tensor = model(src_tokens, src_mask, tgt_tokens)
        sums = label_smoothed_loss(logits, labels, smoothing=training.label_smoothing)
        if sums.gradient is not None:
            logits.backward(sums.gradient)  # type: ignore[no-untyped-call]
        counts = torch.tensor([int(batch.src_mask.sum()), batch.num_target_tokens], device=device)
        return torch.stack([sums.loss, sums.nll, *counts])

    def measure(self, model: nn.Module) -> dict[str, float]:
        """See :class:`Task`."""
        return {name: evaluate(cast(EncoderDecoder, model)) for name, evaluate in self._evaluate.items()}

    def fingerprint(self) -> dict[str, Any]:
        """See :class:`Task`."""
        figures: dict[str, Any] = {}
        for name, split in self._splits.items():
            figures[f"{name}_pairs"] = len(split)
            figures[f"{name}_src_tokens"] = int(split.src_lengths.sum(dtype="int64"))
            figures[f"{name}_tgt_tokens"] = int(split.tgt_lengths.sum(dtype="int64"))
        return figures

    def facts(self) -> dict[str, Any]:
        """See :class:`Task`."""
        facts: dict[str, Any] = {"languages": self._languages, "train_pairs": len(self._rows("train"))}
        train = self._splits["train"]
        if isinstance(train, TruncatedRows):
            facts["truncated"] = {
                "max_tokens": train.max_tokens,
                "sources": train.cut_sources,
                "targets": train.cut_targets,
            }
        return facts

    def _max_tokens(self, split: SplitChoice) -> int:
        """Longest side of a pair, without the end mark, which takes a position too."""
        positions = self._config.model.max_positions - 1
        training = self._config.training
        return min(training.max_tokens, positions) if split == "train" or training.truncate else positions

    def _rows(self, split: SplitChoice) -> Rows:
        return short_rows(self._splits[split], max_tokens=self._max_tokens(split))
