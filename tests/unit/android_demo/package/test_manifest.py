"""The manifest that is linked: the source's, and what the build decides."""

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tools.base.errors import BuildError
from tools.base.layout import ANDROID
from tools.package.manifest import complete_manifest

NAMES = "{http://schemas.android.com/apk/res/android}"
START = '<manifest xmlns:android="http://schemas.android.com/apk/res/android"'


def complete(tmp_path: Path, text: str) -> ET.Element:
    source = tmp_path / "AndroidManifest.xml"
    source.write_text(text)
    return ET.fromstring(complete_manifest(source))  # noqa: S314 - our own text


def test_what_is_left_out_is_put_in(tmp_path: Path) -> None:
    root = complete(tmp_path, f'{START}><application android:label="x"/></manifest>')
    assert root.get("package") == "dev.litenlp.app"
    assert root.get(f"{NAMES}versionName")
    levels, application = root.find("uses-sdk"), root.find("application")
    assert levels is not None
    assert application is not None
    assert (levels.get(f"{NAMES}minSdkVersion"), levels.get(f"{NAMES}targetSdkVersion")) == ("26", "35")
    assert application.get(f"{NAMES}extractNativeLibs") == "true"
    assert application.get(f"{NAMES}label") == "x"


def test_the_source_may_say_the_same_but_nothing_else(tmp_path: Path) -> None:
    complete(tmp_path, f'{START} package="dev.litenlp.app"><application android:extractNativeLibs="true"/></manifest>')
    with pytest.raises(BuildError, match=r"expected package to be dev\.litenlp\.app or left out, found other"):
        complete(tmp_path, f'{START} package="other"><application/></manifest>')
    with pytest.raises(BuildError, match="expected extractNativeLibs to be true or left out, found false"):
        complete(tmp_path, f'{START}><application android:extractNativeLibs="false"/></manifest>')
    with pytest.raises(BuildError, match="expected minSdkVersion to be 26 or left out, found 21"):
        complete(tmp_path, f'{START}><uses-sdk android:minSdkVersion="21"/><application/></manifest>')


@pytest.mark.parametrize("text", ["<manifest", "<other/>", f"{START}/>"])
def test_what_is_no_manifest_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(BuildError, match="expected"):
        complete(tmp_path, text)


def test_the_app_asks_for_no_permission() -> None:
    root = ET.fromstring(complete_manifest(ANDROID / "app/src/main/AndroidManifest.xml"))  # noqa: S314 - our own file
    assert [element.tag for element in root.iter() if element.tag.startswith("uses-permission")] == []
