"""The exception hierarchy. Every message names the thing, what was expected and what was found."""

from collections.abc import Mapping
from typing import Final

from lite_nlp.core.display import displayable

__all__ = [
    "BundleError",
    "ConfigError",
    "ContainerError",
    "CountError",
    "DataError",
    "LiteNlpError",
    "MissingExtraError",
    "ModelError",
    "OutputError",
    "OverBudgetError",
    "QualityLossError",
    "RuntimeUnavailableError",
    "TargetSizeError",
    "TrainingError",
    "UndefinedScoreError",
    "UnknownOperatorError",
    "UsageError",
]

#: Longest message: a terminal of 80 columns shows it on one screen.
_MAX_CHARACTERS: Final = 1800
_MAX_LINES: Final = 20


class LiteNlpError(Exception):
    """Base of every error that a user can cause or meet; the command line prints it and exits with code 1.

    A message may quote a file that nobody vouches for: control characters are shown as escapes, and whatever is longer
    than a screen loses its middle.
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(_presentable(message))


class ConfigError(LiteNlpError):
    """A preset, config file or ``--set`` override is unknown, malformed or inconsistent."""


class DataError(LiteNlpError):
    """A corpus, tokenizer or data directory is missing, empty, malformed or does not fit the model."""


class ModelError(LiteNlpError):
    """A model directory is missing, damaged, or its weights do not fit its config."""


class UndefinedScoreError(ModelError):
    """What a model computes, or its score, is no number."""


class QualityLossError(ModelError):
    """A model's export with rounded weights loses more of its score than it may."""


class TargetSizeError(ModelError):
    """A model cannot be made as small as asked for.

    Attributes:
        smallest_bytes: The smallest size that was reached; without any matrix in it where ``num_weights`` is 0.
        target_bytes: The size asked for.
        bytes_by_kind: The bytes of the smallest file by kind; empty where they are not known.
        num_weights: Weights of the quantized matrices in that file.
    """

    def __init__(
        self,
        message: str,
        *,
        smallest_bytes: int,
        target_bytes: int,
        bytes_by_kind: Mapping[str, int] | None = None,
        num_weights: int = 0,
    ) -> None:
        super().__init__(message)
        self.smallest_bytes = smallest_bytes
        self.target_bytes = target_bytes
        self.bytes_by_kind = dict(bytes_by_kind or {})
        self.num_weights = num_weights


class ContainerError(LiteNlpError):
    """A compressed ``.lnlp`` container is truncated, altered or of an unknown version."""


class BundleError(LiteNlpError):
    """An exported bundle is truncated, altered or of an unknown version."""


class RuntimeUnavailableError(LiteNlpError):
    """A runtime was asked for that is unknown, not installed, or not contained in the bundle."""


class MissingExtraError(RuntimeUnavailableError):
    """A package of an extra is not installed; the message says which extra to install."""


class TrainingError(LiteNlpError):
    """Training cannot start, resume or continue."""


class OutputError(LiteNlpError):
    """An output exists already, or writing it failed midway (full disk, no permission)."""


class CountError(LiteNlpError):
    """The Mult-Adds of a model cannot be counted from shapes alone."""


class UnknownOperatorError(CountError):
    """An operator does arithmetic on tensors, but has no formula for its Mult-Adds."""


class OverBudgetError(LiteNlpError):
    """A model or file exceeds its limits; the command line exits with code 3."""


class UsageError(LiteNlpError):
    """Arguments exclude each other or do not fit the model; the command line exits with code 2."""


def _presentable(message: str) -> str:
    """The message without control characters, of at most a screen."""
    # Before anything else: a message of 90 MB is not worth a pass over it.
    shown = _cut(message, _MAX_CHARACTERS)
    if not shown.replace("\n", "").isprintable():
        shown = _cut(displayable(shown, keep="\n"), _MAX_CHARACTERS)
    lines = shown.split("\n")
    if len(lines) > _MAX_LINES:
        left_out = len(lines) - _MAX_LINES + 1
        shown = "\n".join([*lines[: _MAX_LINES - 4], f"... ({left_out} lines left out) ...", *lines[-3:]])
    return shown


def _cut(message: str, limit: int) -> str:
    if len(message) <= limit:
        return message
    # The beginning names the thing; the end says what was found.
    head, tail = limit * 3 // 4 - 50, limit // 4
    return f"{message[:head]} ... ({len(message) - head - tail} characters left out) ... {message[-tail:]}"
