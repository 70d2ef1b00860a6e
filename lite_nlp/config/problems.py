"""The problems of a configuration as text. Imports no torch."""

import re
from collections.abc import Collection, Mapping
from typing import Any, Final, TypeAlias

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from lite_nlp.config.model import ARCHITECTURES
from lite_nlp.core.suggestions import did_you_mean, nearest_names, phrase

__all__ = ["Sections", "describe_problems", "suggest_key"]

#: Keys by section; those at the top level, sections among them, under the empty name. ``[model]`` need not be there.
Sections: TypeAlias = Mapping[str, Collection[str]]

#: The others are counted: a search for what an unknown key may have meant takes time.
_MAX_DESCRIBED: Final = 10

#: One of the values that a literal may have, as pydantic lists them.
_VALUE: Final = re.compile(r"'([^']+)'")


def describe_problems(error: ValidationError, sections: Sections | None = None) -> str:
    """The first ten problems and the number of others, each with its key, what was expected and what was found.

    Args:
        error: What pydantic found.
        sections: Keys of a whole configuration, for suggestions; None if a ``[model]`` section was validated alone.
    """
    problems = error.errors(include_url=False)
    described = [_describe(problem, sections) for problem in problems[:_MAX_DESCRIBED]]
    if left_out := len(problems) - len(described):
        described.append(f"and {left_out} more")
    return "; ".join(described)


def suggest_key(key: str, sections: Sections, *, architecture: str | None = None, model: str = "model") -> str:
    """The end of a message about an unknown key: its name in another section, or the nearest one in its own.

    Args:
        key: Such as ``training.sed``, or a name alone.
        sections: Keys of the other sections.
        architecture: Of the model, whose keys alone are suggested; None if it is not known.
        model: Name of the model's section.
    """
    members = ARCHITECTURES.values() if architecture is None else (ARCHITECTURES[architecture],)
    keys = {**sections, model: {name for member in members for name in member.model_fields}}
    section, _, name = key.rpartition(".")
    namesakes = [f"{other}.{name}" for other, names in keys.items() if other not in ("", section) and name in names]
    near = nearest_names(name, sorted(keys.get(section, ())))
    return phrase(namesakes or [f"{section}.{other}" if section else other for other in near])


def _describe(problem: ErrorDetails, sections: Sections | None) -> str:
    # Pydantic names the member of a union that it tried; to a user that is no part of the key.
    architecture = next((part for part in problem["loc"] if part in ARCHITECTURES), None)
    key = ".".join(str(part) for part in problem["loc"] if part != architecture)
    found, context = problem["input"], problem.get("ctx", {})
    owner = f" in {_with_article(str(architecture))}" if architecture else ""
    match problem["type"]:
        case "extra_forbidden":
            return _describe_unknown(key, None if architecture is None else str(architecture), found, sections)
        case "missing":
            return f"missing key {key}{owner}"
        case "union_tag_invalid":
            hint = did_you_mean(str(_tag(found)), ARCHITECTURES)
            key = _below(key, "architecture")
            return f"{key}: expected one of {context['expected_tags']}, found {_tag(found)!r}{hint}"
        case "value_error":
            return f"{key or 'config'}: {context['error']!s}"
        case "literal_error":
            hint = did_you_mean(str(found), _VALUE.findall(context["expected"]))
            return f"{key}: expected {context['expected']}{owner}, found {found!r}{hint}"
    return f"{key or 'config'}: {problem['msg'][0].lower()}{problem['msg'][1:]}, found {found!r}"


def _describe_unknown(key: str, architecture: str | None, found: object, sections: Sections | None) -> str:
    """A key that no model has, or one that another architecture has."""
    name = key.rpartition(".")[2]
    if architecture and any(name in member.model_fields for member in ARCHITECTURES.values()):
        return f"{key}: {_with_article(architecture)} has no such key, found {found!r}"
    model = "model" if sections is not None else ""
    return f"unknown key {key}{suggest_key(key, sections or {}, architecture=architecture, model=model)}"


def _below(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name


def _tag(found: Any) -> object:
    return found.get("architecture") if isinstance(found, Mapping) else found


def _with_article(architecture: str) -> str:
    return f"{'an' if architecture[0] in 'aeiou' else 'a'} {architecture}"
