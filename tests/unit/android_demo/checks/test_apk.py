"""Checks of the finished package by what aapt2 prints and how entries are packed."""

import zipfile
from pathlib import Path

import pytest

from tools.checks.apk import find_manifest_problems, find_packing_problems

BADGING = """package: name='dev.litenlp.app' versionCode='1' versionName='0.1.0'
sdkVersion:'26'
targetSdkVersion:'35'
application-label:'Lite NLP'
"""
TREE = """E: manifest (line=2)
    E: application (line=9)
      A: http://schemas.android.com/apk/res/android:extractNativeLibs(0x010104ea)=true
"""


def test_a_good_manifest_has_no_faults() -> None:
    assert find_manifest_problems(BADGING, TREE) == []


@pytest.mark.parametrize(
    ("badging", "problem"),
    [
        (
            BADGING + "uses-permission: name='android.permission.INTERNET'\n",
            "permissions: expected none, found android.permission.INTERNET",
        ),
        (
            BADGING + "uses-permission-sdk-23: name='android.permission.CAMERA'\n",
            "permissions: expected none, found android.permission.CAMERA",
        ),
        (BADGING.replace("'26'", "'24'"), "oldest system: expected 26, found 24"),
        (BADGING.replace("'35'", "'34'"), "newest system: expected 35, found 34"),
        (BADGING.replace("dev.litenlp.app", "other"), "package: expected dev.litenlp.app, found other"),
        (BADGING.replace("targetSdkVersion:'35'\n", ""), "newest system: expected 35, found none"),
    ],
)
def test_faults_of_the_manifest_are_found(badging: str, problem: str) -> None:
    assert find_manifest_problems(badging, TREE) == [problem]


def test_a_package_for_debugging_is_refused() -> None:
    tree = TREE + "      A: http://schemas.android.com/apk/res/android:debuggable(0x0101000f)=true\n"
    assert find_manifest_problems(BADGING, tree) == ["debuggable: expected false, found true"]


def packing(path: Path, tree: str, library: int, table: int) -> list[str]:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("resources.arsc", b"table", table)
        archive.writestr("lib/arm64-v8a/libx.so", b"library", library)
    with zipfile.ZipFile(path) as archive:
        return find_packing_problems(archive, tree)


def test_libraries_are_packed_as_the_manifest_says(tmp_path: Path) -> None:
    path, not_extracted = tmp_path / "a.apk", TREE.replace("=true", "=false")
    stored, deflated = zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED
    assert packing(path, TREE, deflated, stored) == []
    assert packing(path, not_extracted, stored, stored) == []
    (problem,) = packing(path, TREE, stored, stored)
    assert problem == "lib/arm64-v8a/libx.so is stored: expected extractNativeLibs to say otherwise, found true"
    (problem,) = packing(path, not_extracted, deflated, stored)
    assert problem == "lib/arm64-v8a/libx.so is deflated: expected extractNativeLibs to say otherwise, found false"
    assert packing(path, TREE, deflated, deflated) == ["resources.arsc: expected it stored, found it deflated"]
