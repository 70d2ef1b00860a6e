"""The base of every section of a configuration. Imports no torch."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator

__all__ = ["ConfigSection"]


class ConfigSection(BaseModel):
    """A section that rejects unknown keys and silent conversions such as "3" to 3; its instances are immutable.

    Its numbers are finite: records of runs and models are JSON, which has no others.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _lists_to_tuples(cls, values: Any) -> Any:
        """Accept the lists of TOML and JSON where an immutable section holds tuples."""
        if not isinstance(values, Mapping):
            return values
        return {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
