"""The version of the package, and of the JSON that it prints."""

from typing import Final

__all__ = ["SCHEMA_VERSION", "__version__"]

__version__ = "0.1.0"

#: ``schema_version`` of every object that a command prints or writes for scripts; keys are added without a new one.
SCHEMA_VERSION: Final = 1
