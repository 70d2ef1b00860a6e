"""Training of encoder-decoders on sentence pairs: label-smoothed cross entropy of the target tokens."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import torch
from torch import Tensor, nn

from lite_nlp.artifacts.translators import build_translator, torch_engine
from lite_nlp.config.preset import Config
from lite_nlp.core.errors import TrainingError
from lite_nlp.data.pairs.batches import Batch
from lite_nlp.data.pairs.directory import PairDirectory, open_sentence_pairs
from lite_nlp.models.build import Model, as_encoder_decoder
from lite_nlp.models.transformer import EncoderDecoder
from lite_nlp.tasks.calibration import spaced
from lite_nlp.tasks.room import TrainingData
from lite_nlp.tasks.translation.dropped_merges import DroppedMerges
from lite_nlp.tasks.translation.scorer import PairScorer
from lite_nlp.tasks.translation.teaching import PairTeacher, PairTeaching
from lite_nlp.tasks.translation.truncation import TruncatedRows
from lite_nlp.tasks.usefulness import INSPECTED, output_warnings
from lite_nlp.training.batching import EpochBatches, Redraw, Rows, SplitRows, short_rows
from lite_nlp.training.device import autocast, to_device
from lite_nlp.training.loss import projected_loss
from lite_nlp.training.mixed_loss import mixed_loss
from lite_nlp.training.objective import SplitChoice

__all__ = ["TranslationObjective", "open_pairs"]


#: Validation sentences translated at once.
_VALIDATION_BATCH: Final = 128


def open_pairs(path: Path, scorer: PairScorer) -> TrainingData:
    """Training data from a directory of sentence pairs; the validation split is translated and scored.

    Raises:
        DataError: If it is damaged.
    """
    data = open_sentence_pairs(path)

    def objective(
        config: Config, *, train: SplitRows | None = None, teacher: PairTeacher | None = None
    ) -> TranslationObjective:
        training, redraw = config.training, None
        if training.bpe_dropout:
            longest = min(training.max_tokens, config.model.max_positions - 1)
            redraw = DroppedMerges(data.tokenizer, rate=training.bpe_dropout, seed=training.seed, longest=longest)
        return TranslationObjective(
            config=config,
            train=data.split("train") if train is None else train,
            redraw=redraw,
            valid=data.split("valid"),
            languages=data.info.languages.model_dump(),
            evaluate={scorer.metric.name: _measure(config, data, scorer)},
            labels={scorer.metric.name: scorer.metric.label},
            teacher=teacher,
        )

    def inspect(config: Config, model: Model) -> list[str]:
        valid = data.split("valid")
        sources, _ = valid.texts(spaced(np.arange(len(valid)), INSPECTED))
        return output_warnings(
            sources, _translate(as_encoder_decoder(model, source=config.name), config, data, sources)
        )

    return TrainingData(
        path=path,
        tokenizer=data.tokenizer,
        objective=objective,
        inspect=inspect,
        teaching=PairTeaching(data, objective),
    )


def _measure(config: Config, data: PairDirectory, scorer: PairScorer) -> Callable[[EncoderDecoder, int | None], float]:
    """A function that translates the validation split, or as many sentences of it as it is told, and scores that."""

    def measure(model: EncoderDecoder, examples: int | None) -> float:
        valid = data.split("valid")
        sources, references = valid.texts(None if examples is None else spaced(np.arange(len(valid)), examples))
        translations = _translate(model, config, data, sources)
        return float(scorer.score(translations, references, bootstrap=0).as_dict()[scorer.metric.name])

    return measure


def _translate(model: EncoderDecoder, config: Config, data: PairDirectory, sources: Sequence[str]) -> list[str]:
    engine = torch_engine(model, config, data.tokenizer)
    # Warnings about lines would be repeated at each validation.
    translator = build_translator(engine, warn=lambda _: None)
    return list(translator.translate_lines(sources, batch_size=_VALIDATION_BATCH))


class TranslationObjective:
    """Objective of an encoder-decoder on sentence pairs: translation, summarization, style transfer.

    Args:
        config: ``config.model`` fits the tokenizer.
        train: The training split.
        valid: The validation split.
        languages: Codes of the data's ``src`` and ``tgt`` language, written to ``metrics.json``.
        evaluate: For each name of ``measures``, the score of a model in evaluation mode on so many sentences of the
            validation split, or on all of it.
        labels: Display names of these scores, where they differ.
        teacher: What the distribution of every target token is learned from, beside the token itself.
        redraw: Other tokens for the training pairs in every epoch; None keeps the split's.
    """

    def __init__(
        self,
        *,
        config: Config,
        train: SplitRows,
        valid: SplitRows,
        languages: Mapping[str, str],
        evaluate: Mapping[str, Callable[[EncoderDecoder, int | None], float]] | None = None,
        labels: Mapping[str, str] | None = None,
        teacher: PairTeacher | None = None,
        redraw: Redraw | None = None,
    ) -> None:
        self._config = config
        self._redraw = redraw
        self._teacher = teacher
        self._splits: dict[SplitChoice, SplitRows] = {"train": train, "valid": valid}
        if config.training.truncate:
            self._splits = {
                name: TruncatedRows(split, max_tokens=self._max_tokens(name)) for name, split in self._splits.items()
            }
        self._languages = dict(languages)
        self._evaluate = dict(evaluate or {})
        self._labels = dict(labels or {})

    @property
    def measures(self) -> Mapping[str, str]:
        """See ``Objective``."""
        return {name: self._labels.get(name, name) for name in self._evaluate}

    def batches(self, split: SplitChoice, *, batches_per_step: int, say: Callable[[str], None]) -> EpochBatches:
        """See ``Objective``; pairs with a side that is too long are left out, or cut off if the config truncates."""
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
            redraw=self._redraw if learning else None,
        )

    def batch_sums(self, model: nn.Module, batch: Batch, device: torch.device) -> Tensor:
        """See ``Objective``: the label-smoothed cross entropy of target tokens, mixed with a teacher's in training."""
        training = self._config.training
        *inputs, labels = to_device(batch, device)
        translator, smoothing = cast(EncoderDecoder, model), training.label_smoothing
        with autocast(device, training.precision):
            hidden, table = translator.hidden(*inputs), translator.output_table
            if self._teacher is None or not model.training:
                loss, nll = projected_loss(hidden, table, labels, smoothing=smoothing)
            else:
                loss, nll = mixed_loss(
                    hidden,
                    table,
                    labels,
                    teacher=self._teacher(*inputs),
                    smoothing=smoothing,
                    soft=self._teacher.soft,
                )
        if loss.requires_grad:
            loss.backward()  # type: ignore[no-untyped-call]
        counts = torch.tensor([int(batch.src_mask.sum()), batch.num_target_tokens], device=device)
        return torch.stack([loss.detach(), nll, *counts])

    def measure(self, model: nn.Module, *, examples: int | None = None) -> dict[str, float]:
        """See ``Objective``."""
        return {name: evaluate(cast(EncoderDecoder, model), examples) for name, evaluate in self._evaluate.items()}

    def fingerprint(self) -> dict[str, Any]:
        """See ``Objective``."""
        figures: dict[str, Any] = {}
        for name, split in self._splits.items():
            figures[f"{name}_pairs"] = len(split)
            figures[f"{name}_src_tokens"] = int(split.src_lengths.sum(dtype="int64"))
            figures[f"{name}_tgt_tokens"] = int(split.tgt_lengths.sum(dtype="int64"))
        return figures

    def facts(self) -> dict[str, Any]:
        """See ``Objective``."""
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
