"""A tiny task, learned in seconds: the target is the source in reverse."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from rich.console import Console

from lite_nlp.config.model import EncoderDecoderConfig
from lite_nlp.config.preset import Config, TrainingConfig
from lite_nlp.data.pairs.batches import Batch
from lite_nlp.models.build import build_model
from lite_nlp.models.transformer import EncoderDecoder
from lite_nlp.tasks.translation.training import TranslationObjective
from lite_nlp.training.loop import TrainingJob


@dataclass
class MemorySplit:
    """A data split in memory that remembers which rows were read."""

    src: list[npt.NDArray[np.int32]]
    tgt: list[npt.NDArray[np.int32]]
    read: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.src)

    @property
    def src_lengths(self) -> npt.NDArray[np.int32]:
        return np.array([len(row) for row in self.src], dtype=np.int32)

    @property
    def tgt_lengths(self) -> npt.NDArray[np.int32]:
        return np.array([len(row) for row in self.tgt], dtype=np.int32)

    def tokens(self, indices: npt.NDArray[np.int64]) -> tuple[list[npt.NDArray[np.int32]], list[npt.NDArray[np.int32]]]:
        self.read.extend(indices.tolist())
        return [self.src[row] for row in indices], [self.tgt[row] for row in indices]


def make_split(pairs: int, *, seed: int, vocab_size: int = 12) -> MemorySplit:
    rng = np.random.default_rng(seed)
    rows = [rng.integers(3, vocab_size, size=rng.integers(1, 6)).astype(np.int32) for _ in range(pairs)]
    return MemorySplit(rows, [row[::-1] for row in rows])


def make_config(**training: object) -> Config:
    model = EncoderDecoderConfig(
        family="transformer",
        src_vocab_size=12,
        tgt_vocab_size=12,
        embed_dim=16,
        ffn_dim=16,
        num_encoder_layers=1,
        num_decoder_layers=1,
        num_heads=2,
        cross_num_heads=2,
        max_positions=32,
    )
    defaults = {
        "batch_tokens": 64, "warmup_steps": 2, "schedule": "constant", "learning_rate": 0.01, "max_steps": 6,
        "validate_every_steps": 2, "checkpoint_every_steps": 3, "average_checkpoints": 2,
    }  # fmt: skip
    return Config(name="tiny", model=model, training=TrainingConfig.model_validate({**defaults, **training}))


def make_job(
    out: Path,
    config: Config,
    *,
    train: MemorySplit | None = None,
    valid: MemorySplit | None = None,
    evaluate: Mapping[str, Callable[[EncoderDecoder], float]] | None = None,
    **changes: Any,
) -> TrainingJob[Batch]:
    torch.manual_seed(config.training.seed)
    job: dict[str, Any] = {
        "config": config,
        "model": build_model(config.model),
        "objective": TranslationObjective(
            config=config,
            train=make_split(60, seed=1) if train is None else train,
            valid=make_split(10, seed=2) if valid is None else valid,
            languages={"src": "en", "tgt": "de"},
            # The scores here do not depend on the number of examples.
            evaluate={name: lambda model, examples, score=score: score(model) for name, score in evaluate.items()}
            if evaluate
            else None,
        ),
        "tokenizer_json": b"{}",
        "out": out,
        "console": Console(quiet=True),
        # Rounding errors depend on the number of threads, and runs are compared bit for bit.
        "threads": 1,
    }
    return TrainingJob(**{**job, **changes})
