"""The package's assets: the model and the licences."""

import shutil
from pathlib import Path

from tools.package.licenses import collect_licenses
from tools.package.model import MODEL

__all__ = ["list_assets", "write_assets"]


def list_assets(bundle: Path | None) -> dict[str, bytes]:
    """Content of the assets, by path.

    Args:
        bundle: The shipped model; None for a package without one.
    """
    assets = {"licenses.txt": collect_licenses().encode()}
    if bundle:
        assets[f"models/{MODEL}.zip"] = bundle.read_bytes()
    return assets


def write_assets(folder: Path, bundle: Path | None) -> None:
    """Write the assets to a folder, which is emptied first."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, content in list_assets(bundle).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
