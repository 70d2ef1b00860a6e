"""Changes of a configuration before it is validated: ``--set``, and lists with one item per layer. Imports no torch."""

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from lite_nlp.config.limits import MAX_LAYERS
from lite_nlp.config.problems import Sections, suggest_key
from lite_nlp.core.errors import ConfigError, UsageError
from lite_nlp.core.parsing import parse_toml

__all__ = ["LAYER_LISTS", "apply_overrides", "fit_layer_lists"]

#: Keys of ``[model]`` whose list has one item per layer, with the key of the number of layers.
LAYER_LISTS: Final[Mapping[str, str]] = {
    "kernel_sizes": "num_encoder_layers",
    "decoder_kernel_sizes": "num_decoder_layers",
}


def apply_overrides(content: dict[str, Any], overrides: Sequence[str], sections: Sections) -> None:
    """Change the content of a configuration by ``section.key=value`` strings.

    A value is read as TOML, or as a string if it is no TOML; ``3,7,15`` is a list. A list with one item per layer
    follows the number of layers, unless it is set as well (:func:`fit_layer_lists`).

    Args:
        content: By section; changed in place.
        overrides: The strings, in order.
        sections: Keys of the sections, for suggestions.

    Raises:
        UsageError: If an override is malformed or no string, or they are one string.
        ConfigError: If it names a key in something that is no section.
    """
    if isinstance(overrides, str):
        raise UsageError(f"overrides: expected a sequence of section.key=value, found the string {overrides!r}")
    changed: dict[str, dict[str, Any]] = {}
    for override in overrides:
        if not isinstance(override, str):
            raise UsageError(f"overrides: expected strings section.key=value, found {override!r}")
        section, name, value = _parse(override, sections)
        table = content.setdefault(section, {})
        if not isinstance(table, dict):
            raise ConfigError(f"--set {override}: expected a section, found the plain value {section} = {table!r}")
        if isinstance(table.get(name), list) and isinstance(value, int | float):
            value = [value]
        table[name] = value
        changed.setdefault(section, {})[name] = value
    if isinstance(content.get("model"), dict):
        fit_layer_lists(content["model"], changed.get("model", {}), name="--set")


def fit_layer_lists(model: dict[str, Any], own: Mapping[str, Any], *, name: str) -> None:
    """Make inherited lists with one item per layer follow a number of layers that was set without them.

    Of more items than layers, the first ones stay; of fewer, the last one is repeated. The change is logged.

    Args:
        model: The ``[model]`` section, with what it inherits; changed in place.
        own: What was set, of which it has all keys.
        name: What set it, for the note.
    """
    for key, number in LAYER_LISTS.items():
        inherited, layers = model.get(key), own.get(number)
        if key in own or not isinstance(inherited, list) or not inherited:
            continue
        # A number that is none of layers is refused later; a list of as many items might not fit into memory.
        if not isinstance(layers, int) or isinstance(layers, bool) or not 1 <= layers <= MAX_LAYERS:
            continue
        if layers == len(inherited):
            continue
        model[key] = [*inherited, *inherited[-1:] * (layers - len(inherited))][:layers]
        logging.getLogger("lite_nlp").warning(
            f"{name}: model.{key} follows model.{number} = {layers}: {inherited} becomes {model[key]}"
        )


def _parse(override: str, sections: Sections) -> tuple[str, str, Any]:
    """Section, key and value of an override."""
    key, separator, text = override.partition("=")
    section, dot, name = key.strip().partition(".")
    if not separator or not dot or not name:
        hint = suggest_key(key.strip(), sections) if separator and not dot else ""
        raise UsageError(f"--set {override}: expected section.key=value{hint}")
    text = text.strip()
    for toml in (text, f"[{text}]") if "," in text else (text,):
        with suppress(ConfigError):
            document = f"value = {toml}".encode("utf-8", "surrogateescape")
            return section, name, parse_toml(document, source="--set", error=ConfigError)["value"]
    return section, name, text
