"""The measured speed of a model: what ``lite-nlp bench`` found, for a report. Imports no torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from lite_nlp.core.errors import DataError

__all__ = ["SPEED_COLUMNS", "Speed", "describe_search"]

SPEED_COLUMNS: Final = (
    "runtime",
    "threads",
    "precision",
    "sentence, median",
    "sentence, 9 of 10 within",
    "first token",
    "tokens per second",
    "memory",
)


@dataclass(frozen=True, kw_only=True)
class Speed:
    """A benchmark, as ``lite-nlp bench --json`` or the Android app wrote it.

    Attributes:
        content: The JSON object, which :meth:`read` has checked.
    """

    content: Mapping[str, Any]

    @classmethod
    def read(cls, content: object, *, name: str) -> "Speed":
        """Check a benchmark for what a report shows of it.

        Args:
            content: The parsed JSON.
            name: Stands for it in the message.

        Raises:
            DataError: If it is no benchmark.
        """
        found = type(content).__name__
        if isinstance(content, Mapping):
            speed = cls(content=content)
            try:
                found = f"schema_version {content['schema_version']!r}"
                if content["schema_version"] == 1:
                    # All that a report shows of it.
                    if all((speed.rows(), speed.device, speed.model, speed.manifest_sha256, speed.settings)):
                        return speed
                    found = "one without measurements"
            except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
                found = f"an object without {error}" if isinstance(error, KeyError) else f"an object where {error}"
        raise DataError(f"{name}: expected the JSON of lite-nlp bench, schema_version 1, found {found}")

    @property
    def manifest_sha256(self) -> str:
        """Hash of the measured bundle's manifest."""
        return str(self.content["model"]["manifest_sha256"])

    @property
    def model(self) -> str:
        """The name of the measured bundle's model."""
        return str(self.content["model"]["name"])

    @property
    def device(self) -> str:
        """The machine in words."""
        device = self.content["device"]
        return ", ".join(filter(None, (device["name"], device["cpu"], f"{device['cores']} cores", device["os"])))

    @property
    def settings(self) -> str:
        """What was measured, when, and by what, in words."""
        settings = self.content["settings"]
        way = "".join(f", {part}" for part in describe_search(self.content["model"].get("task"), settings))
        return (
            f"{settings['sentences']} sentences, one at a time{way}, {settings['repeats']} times; "
            f"{self.content['tool']} {self.content['tool_version']}, {self.content['created']}"
        )

    def rows(self) -> tuple[tuple[str, ...], ...]:
        """A row for each runtime and number of threads, with the cells of ``SPEED_COLUMNS``."""
        return tuple(
            (
                f"{row['runtime']} {row['version']}",
                f"{row['threads']}",
                f"{row['precision']}",
                f"{row['sentence_ms']['p50']:,.1f} ms",
                f"{row['sentence_ms']['p90']:,.1f} ms",
                f"{row['first_token_ms']['p50']:,.1f} ms",
                f"{row['tokens_per_s']:,.0f}",
                _memory(row["memory_bytes"]),
            )
            for row in self.content["rows"]
        )

    def to_json(self) -> dict[str, Any]:
        """The benchmark as it was read."""
        return dict(self.content)


def describe_search(task: str | None, settings: Mapping[str, Any]) -> list[str]:
    """How a benchmark took its sentences, in words; nothing to say of a classifier. None is a translator of the app."""
    if task == "language-modelling":
        return [f"continued by {settings['max_tokens']} tokens at most"]
    return [] if task == "classification" else [f"beam {settings['beam']}"]


def _memory(memory: Mapping[str, int]) -> str:
    """What the engine adds to the process at its peak; empty where the system does not report it."""
    return f"{(memory['peak'] - memory['before']) / 1e6:,.0f} MB" if memory["before"] else ""
