"""State of a training run: everything needed, beside the tensors, to resume it exactly."""

import json
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lite_nlp.config.preset import Config, TrainingConfig
from lite_nlp.core.errors import TrainingError

__all__ = ["CHANGEABLE_KEYS", "RunIdentity", "RunState", "Validation"]

#: Keys of the training section that may change when a run is resumed: they decide when it ends and is saved.
CHANGEABLE_KEYS = ("max_steps", "max_epochs", "patience", "checkpoint_every_steps")

#: Not compared, since ``batches_per_step`` has it: fewer processes may take more batches each.
_COMPARED_ELSEWHERE = ("gradient_accumulation",)


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Validation(_Record):
    """Scores on the validation split after a step; those of the objective's ``measures`` are further fields.

    Attributes:
        step: Optimizer steps taken.
        loss: The objective's loss per target, in nats.
        nll: Negative log-likelihood per target, in nats.
    """

    model_config = ConfigDict(extra="allow", strict=True)
    __pydantic_extra__: dict[str, float] = Field(init=False)

    step: int
    loss: float
    nll: float

    @property
    def measures(self) -> dict[str, float]:
        """The scores beside the loss, by name; greater is better."""
        return dict(self.__pydantic_extra__)

    def beats(self, other: "Validation", metric: str) -> bool:
        """Whether these scores are better than ``other`` by ``metric``: the loss or another score's name.

        Of equal ones, such as those of a model that says nothing yet, the lower loss is better.
        """
        mine, theirs = self.measures.get(metric), other.measures.get(metric)
        if mine is not None and theirs is not None and mine != theirs:
            return mine > theirs
        return self.loss < other.loss


class RunState(_Record):
    """Progress of a run; random numbers are a function of ``step``, so no generator's state is kept.

    Attributes:
        step: Optimizer steps taken.
        epoch: Epochs completed.
        step_in_epoch: Steps taken in the current epoch.
        src_tokens: Source tokens, with end marks, without padding.
        tgt_tokens: Target tokens, with end marks, without padding.
        seconds: Wall time over all sessions of the run, validation included.
        training_seconds: The part of it spent in optimizer steps.
        validations: All validations so far that the config asked for, oldest first.
        best: The best of them.
        without_gain: Validations since the best.
        closing: That of the last step of a call where the config asked for none; a run that goes on forgets it, or its
            end and weights would depend on where it had been stopped.
        threads: Threads of each process; another number gives other rounding errors.
    """

    step: int = 0
    epoch: int = 0
    step_in_epoch: int = 0
    src_tokens: int = 0
    tgt_tokens: int = 0
    seconds: float = 0.0
    training_seconds: float = 0.0
    validations: list[Validation] = Field(default_factory=list)
    best: Validation | None = None
    without_gain: int = 0
    closing: Validation | None = None
    threads: int | None = None

    def add_step(self, src_tokens: int, tgt_tokens: int, seconds: float, *, steps_of_epoch: int) -> bool:
        """Record an optimizer step; return whether it ended the epoch."""
        self.closing = None
        self.step += 1
        self.src_tokens += src_tokens
        self.tgt_tokens += tgt_tokens
        self.training_seconds += seconds
        self.step_in_epoch += 1
        if self.step_in_epoch < steps_of_epoch:
            return False
        self.epoch, self.step_in_epoch = self.epoch + 1, 0
        return True

    def add_validation(self, validation: Validation, *, metric: str) -> bool:
        """Record a validation; return whether it is the best so far."""
        self.validations.append(validation)
        if self.best is None or validation.beats(self.best, metric):
            self.best, self.without_gain = validation, 0
            return True
        self.without_gain += 1
        return False

    def close(self, validation: Validation, *, metric: str) -> bool:
        """Record the validation of the last step of a call; return whether it is the best so far."""
        self.closing = validation
        return self.best_of_all(metric) is validation

    def best_of_all(self, metric: str) -> Validation | None:
        """The best validation, the closing one included."""
        if self.closing is not None and (self.best is None or self.closing.beats(self.best, metric)):
            return self.closing
        return self.best

    @property
    def all_validations(self) -> list[Validation]:
        """The validations, oldest first, the closing one included."""
        return [*self.validations, *([] if self.closing is None else [self.closing])]

    def end(self, config: TrainingConfig) -> str | None:
        """The reason why the run is over, or None if it is not."""
        if self.step >= config.max_steps:
            return "max_steps"
        if self.epoch >= config.max_epochs:
            return "max_epochs"
        if config.patience and self.without_gain >= config.patience:
            return "early_stopping"
        return None

    @property
    def tokens_per_second(self) -> float:
        """Source and target tokens per second of training, without validation."""
        return (self.src_tokens + self.tgt_tokens) / self.training_seconds if self.training_seconds else 0.0


class RunIdentity(_Record):
    """Properties that must not change before a run is resumed.

    Attributes:
        config: The whole config as plain values.
        data: Fingerprint of the data directory.
        batches_per_step: Batches in an optimizer step: gradient accumulation times processes.
        init_from: SHA-256 of the model whose weights it began with; None without one. A run that is resumed need not
            name it again.
    """

    config: dict[str, Any]
    data: dict[str, Any]
    batches_per_step: int
    init_from: str | None = None

    @classmethod
    def of(cls, config: Config, *, data: dict[str, Any], batches_per_step: int, init_from: str | None = None) -> Self:
        """Identity of a run with this config."""
        return cls(
            config=config.model_dump(mode="json"), data=data, batches_per_step=batches_per_step, init_from=init_from
        )

    def with_defaults(self) -> "RunIdentity":
        """The same run, with default values for config keys that were added after it was saved."""
        try:
            config = Config.model_validate_json(json.dumps(self.config)).model_dump(mode="json")
        except ValidationError:
            return self
        return self.model_copy(update={"config": config})

    def check_resumable(self, saved: "RunIdentity") -> None:
        """Refuse to resume another run.

        Raises:
            TrainingError: Naming every difference between this run and the ``saved`` one.
        """
        here, there = (_flatten(run.with_defaults().model_dump()) for run in (self, saved))
        if self.init_from is None:
            there["init_from"] = None
        for key in (*CHANGEABLE_KEYS, *_COMPARED_ELSEWHERE):
            here.pop(f"config.training.{key}", None)
            there.pop(f"config.training.{key}", None)
        differences = [
            f"{key} was {there.get(key)!r}, is {here.get(key)!r}"
            for key in sorted(here.keys() | there.keys())
            if here.get(key) != there.get(key)
        ]
        if differences:
            raise TrainingError(
                "cannot resume: expected the run's own config and data (of the training section, only "
                f"{', '.join(CHANGEABLE_KEYS)} may change), found: {'; '.join(differences)}"
            )


def _flatten(value: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, item in value.items():
        flat |= _flatten(item, f"{prefix}{key}.") if isinstance(item, dict) else {prefix + key: item}
    return flat
