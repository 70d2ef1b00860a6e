"""The package's assets: the models and the licences."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from tools.package.licenses import collect_licenses

__all__ = ["list_assets", "write_assets"]


def list_assets(bundles: Sequence[Path]) -> dict[str, bytes]:
    """Content of the assets, by path.

    Args:
        bundles: The models to ship, the default first; none for a package without one.
    """
    assets = {"licenses.txt": collect_licenses().encode()}
    if bundles:
        # Android lists a folder of assets by name alone.
        assets["models/order.txt"] = "".join(f"{bundle.name}\n" for bundle in bundles).encode()
    return assets | {f"models/{bundle.name}": bundle.read_bytes() for bundle in bundles}


def write_assets(folder: Path, bundles: Sequence[Path]) -> None:
    """Write the assets to a folder, which is emptied first."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, content in list_assets(bundles).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
