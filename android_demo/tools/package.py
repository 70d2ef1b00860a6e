"""Builds the package: bundle, libraries, resources and program into one signed, checked file."""

import tempfile
import zipfile
from pathlib import Path

from tools.archive import Entry, write_zip
from tools.assets import list_assets
from tools.checks import check_package, check_program
from tools.layout import BUILD, MAX_APK_BYTES, PHONE_ABI
from tools.libraries import collect_libraries
from tools.model import export_model
from tools.processes import say
from tools.resources import link_resources, shorten_names
from tools.shrink import make_dex, shrink_program
from tools.sign import find_key, sign_package
from tools.sizes import check_size, list_parts, render_parts, write_parts
from tools.steps import digest_file

__all__ = ["build_package", "package_path"]


def package_path(abi: str, folder: Path = BUILD) -> Path:
    """Where the package for an instruction set is written; that for phones has the plain name."""
    return folder / ("lite-nlp-demo.apk" if abi == PHONE_ABI else f"lite-nlp-demo-{abi}.apk")


def build_package(abi: str = PHONE_ABI, bundle: Path | None = None) -> Path:
    """Build, sign and check the package.

    Args:
        abi: Android's name of the instruction set.
        bundle: A bundle to ship; None for the model's compact one, which is exported if need be.

    Returns:
        The package. Beside it is NAME.sizes.json with its parts.

    Raises:
        BuildError: A step failed, a check found something, or the package for phones is too large.
    """
    program = shrink_program()
    check_program(program)
    dex, resources = make_dex(program), link_resources()
    model, libraries = bundle or export_model(), collect_libraries(abi)
    target = package_path(abi)
    say(f"packing {target.name}")
    with tempfile.TemporaryDirectory(dir=BUILD) as name:
        unsigned, signed, short = (Path(name) / f"{stage}.apk" for stage in ("unsigned", "signed", "resources"))
        shorten_names(resources / "resources.apk", short)
        entries = _list_entries(abi, model, libraries, short, dex)
        packed = write_zip(unsigned, entries)
        sign_package(unsigned, signed, find_key())
        plain = {entry.name: len(entry.content) for entry in entries}
        parts = list_parts(packed, plain, signed.stat().st_size)
        check_package(signed, abi)
        if abi == PHONE_ABI:
            check_size(parts, MAX_APK_BYTES)
        signed.rename(target)
    digest = digest_file(target)
    sizes = target.with_suffix(".sizes.json")
    write_parts(sizes, parts, abi=abi, sha256=digest, limit_bytes=MAX_APK_BYTES)
    print(f"{render_parts(parts)}\n\n{target}\nsha256 {digest}")
    return target


def _list_entries(abi: str, model: Path, libraries: list[Path], resources: Path, dex: Path) -> list[Entry]:
    """All entries in the order they have in the file: the manifest first, as installers like it."""
    with zipfile.ZipFile(resources) as linked:
        compiled = {name: linked.read(name) for name in linked.namelist()}
    entries = [Entry("AndroidManifest.xml", compiled.pop("AndroidManifest.xml"))]
    entries += [Entry("resources.arsc", compiled.pop("resources.arsc"), stored=True)]
    entries += [Entry("classes.dex", dex.read_bytes())]
    entries += [Entry(name, content) for name, content in sorted(compiled.items())]
    entries += [Entry(f"assets/{name}", content) for name, content in sorted(list_assets(model).items())]
    entries += [Entry(f"lib/{abi}/{library.name}", library.read_bytes()) for library in libraries]
    return entries
