"""Checks of the finished package for faults that would show only at installation or on some devices."""

import re
import zipfile
from pathlib import Path

from tools.base.errors import BuildError
from tools.base.fetch import jars
from tools.base.layout import ANDROID, DEPS, MIN_SDK, PACKAGE, PHONE_ABI, TARGET_SDK
from tools.base.processes import run
from tools.checks.api_levels import find_api_problems, find_reflection, read_allowed, read_reflecting
from tools.checks.native_names import find_missing_names
from tools.formats.atomics import find_unguarded
from tools.formats.class_files import read_jar
from tools.formats.elf import find_library_problems
from tools.formats.serialized import read_signature
from tools.package.kotlin import engine_jars
from tools.package.licenses import find_unlicensed, read_components
from tools.package.native import GLUE_LIBRARY

__all__ = [
    "EXPECTED_PERMISSIONS",
    "check_package",
    "check_program",
    "find_manifest_problems",
    "find_packing_problems",
    "find_processor_problems",
]

# Without INTERNET no text can leave the device by the app.
EXPECTED_PERMISSIONS: frozenset[str] = frozenset()
_NEWEST_SIGNATURE = 33


def check_program(program: Path) -> None:
    """Check the shrunk program's uses of Android, and native code's of the program.

    Raises:
        BuildError: It uses what the oldest system lacks without asking, or what is hidden, or lacks what native code
            looks up in it.
    """
    signatures = {
        int(path.name.removeprefix("gummy-bears-api-").split("-")[0]): path
        for path in (DEPS / "maven" / "signature").glob("*.signature")
    }
    classes = read_jar(program)
    oldest, newest = read_signature(signatures[MIN_SDK]), read_signature(signatures[_NEWEST_SIGNATURE])
    problems = find_api_problems(classes, oldest, newest, _NEWEST_SIGNATURE, read_allowed())
    problems += find_reflection(classes, read_reflecting())
    if problems:
        raise BuildError("program: expected no such uses of Android, found\n  " + "\n  ".join(problems))
    missing = find_missing_names(classes, [path.read_text() for path in sorted((ANDROID / "native").glob("*.c"))])
    if missing:
        raise BuildError("program: expected all that native code looks up, found\n  " + "\n  ".join(missing))


def check_package(package: Path, abi: str) -> None:
    """Check a signed package.

    Args:
        package: The file.
        abi: The instruction set it is for.

    Raises:
        BuildError: Something is wrong; all that was found is named.
    """
    badging = run(["aapt2", "dump", "badging", package], what="aapt2 dump badging")
    tree = run(["aapt2", "dump", "xmltree", "--file", "AndroidManifest.xml", package], what="aapt2 dump xmltree")
    problems = find_manifest_problems(badging, tree)
    run(["zipalign", "-c", "4", package], what="zipalign: entries that are not aligned")
    with zipfile.ZipFile(package) as archive:
        problems += find_packing_problems(archive, tree)
        names = [name for name in archive.namelist() if name.startswith("lib/")]
        strangers = [name for name in names if not name.startswith(f"lib/{abi}/")]
        problems += [f"{name}: expected libraries of {abi} only" for name in strangers]
        packaged = {Path(name).name for name in names}
        for name in sorted(names):
            library = archive.read(name)
            problems += find_library_problems(Path(name), library, abi, packaged)
            if abi == PHONE_ABI:
                problems += find_processor_problems(Path(name), library)
    files = [*packaged, *(path.name for path in [*engine_jars(), *jars("stdlib")])]
    unlicensed = find_unlicensed(files, {GLUE_LIBRARY}, read_components())
    problems += [f"{name}: expected a component of licenses/components.toml, found none" for name in unlicensed]
    if problems:
        raise BuildError(f"{package.name}: expected a package without such faults, found\n  " + "\n  ".join(problems))


def find_processor_problems(path: Path, content: bytes) -> list[str]:
    """Find instructions of an arm64 library that the oldest supported processors lack: a line, or none.

    Args:
        path: Its path in the package.
        content: The file.
    """
    found = find_unguarded(content, path.name)
    if not found:
        return []
    what = f"{len(found)} atomic instructions of ARMv8.1, the first at {found[0].address:#x}"
    return [f"{path}: expected code that runs on ARMv8.0 too, found {what}"]


def find_manifest_problems(badging: str, tree: str) -> list[str]:
    """Find faults of the manifest, a line for each.

    Args:
        badging: What `aapt2 dump badging` prints.
        tree: What `aapt2 dump xmltree` prints of it.
    """
    problems = []
    permissions = set(re.findall(r"uses-permission(?:-sdk-\d+)?: name='([^']+)'", badging))
    if permissions != EXPECTED_PERMISSIONS:
        expected = ", ".join(sorted(EXPECTED_PERMISSIONS)) or "none"
        problems.append(f"permissions: expected {expected}, found {', '.join(sorted(permissions)) or 'none'}")
    for what, pattern, expected in (
        ("package", r"package: name='([^']+)'", PACKAGE),
        ("oldest system", r"sdkVersion:'(\d+)'", str(MIN_SDK)),
        ("newest system", r"targetSdkVersion:'(\d+)'", str(TARGET_SDK)),
    ):
        found = re.search(rf"^{pattern}", badging, re.MULTILINE)
        if found is None or found[1] != expected:
            problems.append(f"{what}: expected {expected}, found {found[1] if found else 'none'}")
    attributes = ("debuggable", "testOnly", "usesCleartextTraffic")
    true = [attribute for attribute in attributes if re.search(rf":{attribute}\(0x[0-9a-f]+\)=true", tree)]
    return problems + [f"{attribute}: expected false, found true" for attribute in true]


def find_packing_problems(archive: zipfile.ZipFile, tree: str) -> list[str]:
    """Find entries packed against the manifest, which would fail only at installation; a line for each.

    Args:
        archive: The package.
        tree: What `aapt2 dump xmltree` prints of its manifest.
    """
    problems = []
    extracted = re.search(r":extractNativeLibs\(0x[0-9a-f]+\)=true", tree) is not None
    for entry in archive.infolist():
        stored = entry.compress_type == zipfile.ZIP_STORED
        if entry.filename.startswith("lib/") and stored == extracted:
            how, says = ("stored", "true") if stored else ("deflated", "false")
            problems.append(f"{entry.filename} is {how}: expected extractNativeLibs to say otherwise, found {says}")
        # Android maps the table; a deflated one is refused for apps of API 30 and later.
        if entry.filename == "resources.arsc" and not stored:
            problems.append("resources.arsc: expected it stored, found it deflated")
    return problems
