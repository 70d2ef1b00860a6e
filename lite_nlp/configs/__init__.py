"""Presets: one TOML file each, named after the paper's row it reproduces."""

from pathlib import Path

__all__ = ["list_presets", "preset_path"]

_DIRECTORY = Path(__file__).parent


def list_presets() -> list[str]:
    """Names of all presets, sorted."""
    return sorted(path.stem for path in _DIRECTORY.glob("*.toml"))


def preset_path(name: str) -> Path:
    """Path of the preset called ``name``; the file exists only if the name is in ``list_presets()``."""
    return _DIRECTORY / f"{name}.toml"
