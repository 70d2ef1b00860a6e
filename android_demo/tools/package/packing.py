"""The package file: manifest, program, resources, assets and libraries, zipped and signed."""

import dataclasses
import zipfile
from collections.abc import Sequence
from pathlib import Path

from tools.base.layout import BUILD, PHONE_ABI
from tools.formats.archive import Entry, write_zip
from tools.package.assets import list_assets
from tools.package.libraries import collect_libraries
from tools.package.resources import link_resources, shorten_names
from tools.package.sign import find_key, sign_package

__all__ = ["PackedApk", "pack_apk", "package_path"]


@dataclasses.dataclass(frozen=True)
class PackedApk:
    """A signed package.

    Attributes:
        path: The file.
        packed_bytes: Size of each entry in the zip, its two headers included, by name.
        plain_bytes: Size of each entry's content, by name.
    """

    path: Path
    packed_bytes: dict[str, int]
    plain_bytes: dict[str, int]


def package_path(abi: str, folder: Path = BUILD) -> Path:
    """Path of the package for an instruction set; that for phones has the plain name."""
    return folder / ("lite-nlp-demo.apk" if abi == PHONE_ABI else f"lite-nlp-demo-{abi}.apk")


def pack_apk(abi: str, dex: Path, bundles: Sequence[Path], folder: Path) -> PackedApk:
    """Zip and sign the package.

    Args:
        abi: Android's name of the instruction set.
        dex: The program, classes.dex.
        bundles: The models to ship, the default first.
        folder: Folder for the package and the files it is made from.

    Raises:
        BuildError: A step failed.
    """
    unsigned, signed, resources = (folder / f"{stage}.apk" for stage in ("unsigned", "signed", "resources"))
    shorten_names(link_resources() / "resources.apk", resources)
    entries = _list_entries(abi, bundles, collect_libraries(abi), resources, dex)
    packed = write_zip(unsigned, entries)
    sign_package(unsigned, signed, find_key())
    return PackedApk(signed, packed, {entry.name: len(entry.content) for entry in entries})


def _list_entries(abi: str, bundles: Sequence[Path], libraries: list[Path], resources: Path, dex: Path) -> list[Entry]:
    """All entries in the order of the file: the manifest first, where installers expect it."""
    with zipfile.ZipFile(resources) as linked:
        compiled = {name: linked.read(name) for name in linked.namelist()}
    entries = [Entry("AndroidManifest.xml", compiled.pop("AndroidManifest.xml"))]
    entries += [Entry("resources.arsc", compiled.pop("resources.arsc"), stored=True)]
    entries += [Entry("classes.dex", dex.read_bytes())]
    entries += [Entry(name, content) for name, content in sorted(compiled.items())]
    entries += [Entry(f"assets/{name}", content) for name, content in sorted(list_assets(bundles).items())]
    entries += [Entry(f"lib/{abi}/{library.name}", library.read_bytes()) for library in libraries]
    return entries
