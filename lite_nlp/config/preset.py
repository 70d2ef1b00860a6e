"""A whole configuration: model, training and decoding. Imports no torch."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, Self

import tomli_w
from pydantic import Field, TypeAdapter, ValidationError, model_validator

from lite_nlp.config.inheritance import EXTENDS, read_resolved
from lite_nlp.config.limits import RecordedInt
from lite_nlp.config.model import ModelConfig, ModelSection
from lite_nlp.config.overrides import apply_overrides
from lite_nlp.config.problems import Sections, describe_problems
from lite_nlp.config.section import ConfigSection
from lite_nlp.configs import list_presets, preset_path
from lite_nlp.core.bounds import MAX_LENGTH_PENALTY, MAX_TOKENS
from lite_nlp.core.errors import ConfigError
from lite_nlp.core.parsing import parse_toml
from lite_nlp.core.suggestions import did_you_mean_path

__all__ = [
    "Config",
    "DecodingConfig",
    "Reproduces",
    "TrainingConfig",
    "dump_config",
    "load_config",
    "load_presets",
    "parse_config",
    "parse_model",
]

_MODEL: Final[TypeAdapter[ModelConfig]] = TypeAdapter(ModelSection)


class Reproduces(ConfigSection):
    """The published row that a preset reproduces."""

    paper: str
    table: str
    row: str


class TrainingConfig(ConfigSection):
    """Training of a model. Durations are in optimizer steps unless the name says otherwise."""

    seed: RecordedInt = Field(default=1, ge=0)
    max_steps: RecordedInt = Field(default=100_000, ge=1)
    max_epochs: RecordedInt = Field(default=1_000, ge=1)
    #: Bound of rows x (longest source + longest target) in one batch of one process, padding included; of running text,
    #: bound of its blocks x ``block_tokens``.
    batch_tokens: RecordedInt = Field(default=4096, ge=8)
    #: Tokens of a block of running text; language models alone learn from such blocks.
    block_tokens: RecordedInt = Field(default=512, ge=2)
    #: Batches whose gradients are summed for one optimizer step.
    gradient_accumulation: RecordedInt = Field(default=1, ge=1)
    learning_rate: float = Field(default=1e-3, gt=0.0)
    min_learning_rate: float = Field(default=1e-9, ge=0.0)
    warmup_steps: RecordedInt = Field(default=4000, ge=0)
    schedule: Literal["inverse_sqrt", "cosine", "constant"] = "inverse_sqrt"
    adam_beta1: float = Field(default=0.9, ge=0.0, lt=1.0)
    adam_beta2: float = Field(default=0.98, ge=0.0, lt=1.0)
    adam_epsilon: float = Field(default=1e-8, gt=0.0)
    weight_decay: float = Field(default=0.0, ge=0.0)
    label_smoothing: float = Field(default=0.1, ge=0.0, lt=1.0)
    #: Largest gradient norm; 0 turns clipping off.
    clip_norm: float = Field(default=1.0, ge=0.0)
    precision: Literal["fp32", "bf16"] = "fp32"
    #: Validate, and keep a checkpoint for averaging, every so many steps; 0 means at the end of every epoch.
    validate_every_steps: RecordedInt = Field(default=0, ge=0)
    #: Measure of the validation split that early stopping compares; the task must offer it.
    validate_metric: str = "loss"
    #: Validations without improvement before training stops; 0 never stops early.
    patience: RecordedInt = Field(default=0, ge=0)
    #: Write a checkpoint to resume from every so many steps (and at every validation).
    checkpoint_every_steps: RecordedInt = Field(default=500, ge=1)
    #: The final weights are the mean of this many of the latest validated checkpoints.
    average_checkpoints: RecordedInt = Field(default=5, ge=1)
    #: Longest source or target in tokens; longer training pairs are left out and counted.
    max_tokens: RecordedInt = Field(default=256, ge=2)
    #: Cut such pairs off after ``max_tokens`` instead, in training and validation; of pairs alone.
    truncate: bool = False
    #: Probability that a merge is left out whenever a training pair is read (BPE-dropout); of pairs alone. Sequences
    #: grow by a seventh at 0.05 and by a third at 0.1, beyond ``batch_tokens``.
    bpe_dropout: float = Field(default=0.0, ge=0.0, lt=1.0)

    @model_validator(mode="after")
    def _check_rates(self) -> Self:
        if self.min_learning_rate > self.learning_rate:
            raise ValueError(
                f"min_learning_rate: expected at most learning_rate ({self.learning_rate:g}), found "
                f"{self.min_learning_rate:g}"
            )
        return self


class DecodingConfig(ConfigSection):
    """Defaults of the search for an output; the number of hypotheses is always chosen by the caller."""

    #: Exponent of the length penalty of beam search.
    length_penalty: float = Field(default=0.6, ge=0.0, le=MAX_LENGTH_PENALTY)
    #: No run of so many tokens occurs twice in an output; 0 allows all.
    no_repeat_ngram: int = Field(default=0, ge=0, le=MAX_TOKENS)
    #: Fewest tokens of an output.
    min_length: int = Field(default=0, ge=0, le=MAX_TOKENS)
    #: Most tokens of an output; 0 leaves it to the length of the input and the model's positions.
    max_length: int = Field(default=0, ge=0, le=MAX_TOKENS)
    #: An input too long for the model: translate it in pieces, or read its first ``training.max_tokens`` tokens alone.
    long_input: Literal["split", "truncate"] = "split"

    @model_validator(mode="after")
    def _check_lengths(self) -> Self:
        if self.max_length and self.min_length > self.max_length:
            raise ValueError(f"min_length: expected at most max_length ({self.max_length}), found {self.min_length}")
        return self


class Config(ConfigSection):
    """A whole configuration: its name, the published row that it reproduces if any, model, training and decoding."""

    name: str
    reproduces: Reproduces | None = None
    model: ModelSection
    training: TrainingConfig = TrainingConfig()
    decoding: DecodingConfig | None = None


_SECTIONS: Final[Sections] = {
    "": Config.model_fields,
    "reproduces": Reproduces.model_fields,
    "training": TrainingConfig.model_fields,
    "decoding": DecodingConfig.model_fields,
}


def load_config(source: str | Path | Config, overrides: Sequence[str] = ()) -> Config:
    """Load a preset by name or a TOML file by path, with everything that it extends, or change a config.

    Args:
        source: The name of a preset, the path of a config file or of a directory with a ``config.toml``, or a config,
            which stays as it is.
        overrides: ``section.key=value`` strings; see :func:`lite_nlp.config.overrides.apply_overrides`.

    Raises:
        ConfigError: If a file is missing or malformed, extends itself, a key is unknown, or a value is wrong.
    """
    if isinstance(source, Config):
        return _validate(source.model_dump(mode="json", exclude_none=True), name=source.name, overrides=overrides)
    if source == "":
        raise ConfigError("expected a config file or the name of a preset, found an empty name")
    path = preset_path(str(source)) if str(source) in list_presets() else Path(source)
    if path.is_dir():
        path = path / "config.toml"
    if not path.is_file():
        hint = did_you_mean_path(Path(source), list_presets())
        raise ConfigError(
            f"{source}: expected a config file or the name of a preset, as `lite-nlp presets` lists them, "
            f"found neither{hint}"
        )
    return _validate(read_resolved(path, name=str(source)), name=str(source), overrides=overrides)


def load_presets() -> tuple[Config, ...]:
    """All presets, sorted by name."""
    return tuple(load_config(name) for name in list_presets())


def parse_config(content: str | bytes, *, name: str, overrides: Sequence[str] = ()) -> Config:
    """Parse and validate TOML without ``extends``: a configuration inside a model reads no other file.

    Args:
        content: The TOML, as text or as a file holds it.
        name: Stands for it in error messages.
        overrides: As in ``load_config``.

    Raises:
        ConfigError: If the text is malformed, a key is unknown, or a value is wrong.
    """
    document = content.encode("utf-8") if isinstance(content, str) else content
    values = parse_toml(document, source=name, error=ConfigError)
    if EXTENDS in values:
        raise ConfigError(f"{name}: extends: expected a configuration in full, found {values[EXTENDS]!r}")
    return _validate(values, name=name, overrides=overrides)


def parse_model(values: Mapping[str, Any], *, name: str = "model") -> ModelConfig:
    """Validate the content of a ``[model]`` section; without ``architecture`` it is an encoder-decoder.

    Args:
        values: Values by key.
        name: Stands for them in error messages.

    Raises:
        ConfigError: If a key is unknown or a value is wrong.
    """
    try:
        return _MODEL.validate_python(values)
    except ValidationError as error:
        raise ConfigError(f"{name}: {describe_problems(error)}") from error


def dump_config(config: Config) -> str:
    """The whole config as TOML text that ``parse_config`` reads back to an equal config."""
    return tomli_w.dumps(config.model_dump(mode="json", exclude_none=True))


def _validate(content: dict[str, Any], *, name: str, overrides: Sequence[str]) -> Config:
    apply_overrides(content, overrides, _SECTIONS)
    try:
        return Config.model_validate(content)
    except ValidationError as error:
        raise ConfigError(f"{name}: {describe_problems(error, _SECTIONS)}") from error
