"""Inheritance between configuration files by the top-level key ``extends``. Imports no torch."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from lite_nlp.config.overrides import fit_layer_lists
from lite_nlp.configs import list_presets, preset_path
from lite_nlp.core.errors import ConfigError
from lite_nlp.core.parsing import parse_toml, read_document
from lite_nlp.core.suggestions import did_you_mean

__all__ = ["EXTENDS", "read_resolved"]

#: The key that names the configuration to start from.
EXTENDS: Final = "extends"

#: Never inherited.
_OWN: Final = "name"
#: Inherited by a configuration that has the section too; any other one reproduces no published row.
_CLAIM: Final = "reproduces"


def read_resolved(path: Path, *, name: str) -> dict[str, Any]:
    """Read a config file and all that it extends.

    ``extends`` is the name of a preset, or a path that ends in ``.toml``, relative to the file that names it. Sections
    are merged key by key, and the extending file has the last word. Two things are its own: its ``name``, and the
    published row that it reproduces: ``[reproduces]`` is completed from the base only where the file has that section.

    Args:
        path: Of the file.
        name: What the user called it, for error messages.

    Returns:
        The merged content, without ``extends``.

    Raises:
        ConfigError: If a file is missing, unreadable or no TOML, or extends itself, directly or through others.
    """
    return _resolve(path, name=name, chain=())


def _resolve(path: Path, *, name: str, chain: tuple[Path, ...]) -> dict[str, Any]:
    chain = (*chain, path.resolve())
    document = read_document(path, expected="a config file", error=ConfigError)
    content = parse_toml(document, source=name, error=ConfigError)
    if EXTENDS not in content:
        return content
    base_path = _find_base(content.pop(EXTENDS), path, name=name)
    if base_path.resolve() in chain:
        steps = " -> ".join(step.name for step in (*chain, base_path))
        raise ConfigError(f"{name}: extends: expected no circle, found {steps}")
    return _merge(_resolve(base_path, name=str(base_path), chain=chain), content, name=name)


def _find_base(extended: object, path: Path, *, name: str) -> Path:
    """The file that ``extends`` in ``path`` names."""
    hint = ""
    if isinstance(extended, str):
        base = preset_path(extended) if extended in list_presets() else path.parent / extended
        if base.suffix == ".toml" and base.is_file():
            return base
        beside = (other.name for other in path.parent.glob("*.toml") if other.name != path.name)
        hint = did_you_mean(extended, [*list_presets(), *beside])
    raise ConfigError(
        f"{name}: extends: expected the name of a preset or the path of a .toml file, relative to this one, "
        f"found {extended!r}{hint}"
    )


def _merge(base: Mapping[str, Any], own: Mapping[str, Any], *, name: str) -> dict[str, Any]:
    """``base`` with the keys of ``own``, section by section."""
    merged = {key: value for key, value in base.items() if key != _OWN and (key != _CLAIM or _CLAIM in own)}
    for key, value in own.items():
        inherited = merged.get(key)
        if isinstance(inherited, dict) and not isinstance(value, dict):
            raise ConfigError(f"{name}: {key}: expected a section, found {value!r}")
        merged[key] = {**inherited, **value} if isinstance(inherited, dict) else value
    if isinstance(merged.get("model"), dict) and "model" in own:
        fit_layer_lists(merged["model"], own["model"], name=name)
    return merged
