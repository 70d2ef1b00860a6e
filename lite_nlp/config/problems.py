"""The problems of a configuration as text. Imports no torch."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from lite_nlp.config.model import ARCHITECTURES

__all__ = ["describe_problems"]


def describe_problems(error: ValidationError) -> str:
    """All problems, separated by semicolons, each with its key, the expectation and what was found."""
    return "; ".join(_describe(problem) for problem in error.errors())


def _describe(problem: ErrorDetails) -> str:
    # Pydantic names the member of a union that it tried; to a user that is no part of the key.
    architecture = next((part for part in problem["loc"] if part in ARCHITECTURES), None)
    key = ".".join(str(part) for part in problem["loc"] if part != architecture)
    found, context = problem["input"], problem.get("ctx", {})
    owner = f" in {_with_article(str(architecture))}" if architecture else ""
    match problem["type"]:
        case "extra_forbidden":
            return _describe_unknown(key, architecture, found)
        case "missing":
            return f"missing key {key}{owner}"
        case "union_tag_invalid":
            return f"{_below(key, 'architecture')}: expected one of {context['expected_tags']}, found {_tag(found)!r}"
        case "value_error":
            return f"{key or 'config'}: {context['error']!s}"
        case "literal_error":
            return f"{key}: expected {context['expected']}{owner}, found {found!r}"
    return f"{key or 'config'}: {problem['msg'][0].lower()}{problem['msg'][1:]}, found {found!r}"


def _describe_unknown(key: str, architecture: object, found: object) -> str:
    """A key that no model has, or one that another architecture has."""
    name = key.rpartition(".")[2]
    if architecture and any(name in member.model_fields for member in ARCHITECTURES.values()):
        return f"{key}: {_with_article(str(architecture))} has no such key, found {found!r}"
    return f"unknown key {key}"


def _below(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name


def _tag(found: Any) -> object:
    return found.get("architecture") if isinstance(found, Mapping) else found


def _with_article(architecture: str) -> str:
    return f"{'an' if architecture[0] in 'aeiou' else 'a'} {architecture}"
