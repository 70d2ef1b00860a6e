"""Reproducibility: two builds from one copy of the sources in two folders, compared byte by byte.

The folders' paths differ in length, so that a path that gets into a file changes it. The downloads
are those of the first build, since the lock says what they are.
"""

import os
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

from tools.base.errors import BuildError
from tools.base.layout import ANDROID, DEPS, ROOT
from tools.base.processes import run, say
from tools.base.steps import digest_file
from tools.package.packing import package_path

__all__ = ["check_reproducible", "describe_difference"]

_COPIED = ["android_demo", "compress", "export", "lite_nlp", "LICENSE", "constraints.txt", "pyproject.toml"]
_SKIPPED = shutil.ignore_patterns("build", "__pycache__")


def check_reproducible(abi: str) -> None:
    """Build in two folders and compare.

    Args:
        abi: The instruction set of the package.

    Raises:
        BuildError: The second build gave other bytes; the entries that differ are named.
    """
    with tempfile.TemporaryDirectory(prefix="again-") as name:
        folders = [Path(name) / "a", Path(name) / "another-and-longer-name" / "b"]
        # Both before the first build, so that they are of the same sources.
        _copy_sources(folders[0])
        shutil.copytree(folders[0], folders[1], symlinks=True)
        packages = []
        for folder in folders:
            say(f"building in {folder}")
            copied = folder / ANDROID.relative_to(ROOT)
            paths = os.pathsep.join([str(copied), str(folder)])
            command = [sys.executable, "-m", "tools", "apk", "--abi", abi]
            run(command, what=f"the build in {folder}", cwd=folder, env={"PYTHONPATH": paths})
            packages.append(package_path(abi, copied / "build"))
        digests = [digest_file(package) for package in packages]
        if digests[0] != digests[1]:
            difference = "\n  ".join(describe_difference(*packages))
            raise BuildError(f"{packages[1]}: expected sha256 {digests[0]}, found {digests[1]}\n  {difference}")
    print(f"two builds in two folders gave the same bytes: sha256 {digests[0]}")


def describe_difference(one: Path, other: Path) -> list[str]:
    """Entries that differ between two packages, a line for each."""
    with zipfile.ZipFile(one) as first, zipfile.ZipFile(other) as second:
        names, others = first.namelist(), second.namelist()
        lines = [f"{name}: only in one of them" for name in sorted(set(names) ^ set(others))]
        both = [name for name in names if name in others]
        lines += [f"{name}: other content" for name in both if first.read(name) != second.read(name)]
    return lines or ["the entries have the same content: their order, packing or signatures differ"]


def _copy_sources(folder: Path) -> None:
    folder.mkdir(parents=True)
    for name in _COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=_SKIPPED, symlinks=True)
        else:
            shutil.copyfile(source, folder / name)
    build = folder / ANDROID.relative_to(ROOT) / "build"
    build.mkdir()
    (build / "deps").symlink_to(DEPS)
