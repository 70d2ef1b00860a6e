"""The package's assets: the model and the licences."""

import shutil
from pathlib import Path

from tools.base.layout import SHIPPED_MODEL
from tools.package.licenses import collect_licenses

__all__ = ["list_assets", "write_assets"]


def list_assets(bundle: Path | None) -> dict[str, bytes]:
    """Content of the assets, by path.

    Args:
        bundle: The model to ship; None for a package without one.
    """
    assets = {"licenses.txt": collect_licenses().encode()}
    if bundle:
        assets[f"models/{SHIPPED_MODEL.name}"] = bundle.read_bytes()
    return assets


def write_assets(folder: Path, bundle: Path | None) -> None:
    """Write the assets to a folder, which is emptied first."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, content in list_assets(bundle).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
