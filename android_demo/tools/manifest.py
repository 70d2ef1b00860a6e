"""The app's manifest with what the build decides: package, versions, levels, and how native libraries are packed."""

import copy
import xml.etree.ElementTree as ET
from pathlib import Path

from lite_nlp.core.version import __version__
from tools.errors import BuildError
from tools.layout import MIN_SDK, PACKAGE, TARGET_SDK, VERSION_CODE

__all__ = ["complete_manifest"]

_ANDROID = "http://schemas.android.com/apk/res/android"


def complete_manifest(source: Path) -> bytes:
    """The manifest to link, with all that is left out of the source; what the source says must be the same.

    Libraries are deflated in the package, so the installer must extract them.

    Args:
        source: AndroidManifest.xml.

    Raises:
        BuildError: It is no manifest, or says something else.
    """
    ET.register_namespace("android", _ANDROID)
    try:
        tree = ET.parse(source)  # noqa: S314 - our own file
    except ET.ParseError as error:
        raise BuildError(f"{source}: expected XML, found {error}") from error
    root = copy.deepcopy(tree.getroot())
    if root.tag != "manifest":
        raise BuildError(f"{source}: expected the element manifest, found {root.tag}")
    _put(source, root, "package", PACKAGE)
    _put(source, root, f"{{{_ANDROID}}}versionCode", str(VERSION_CODE))
    _put(source, root, f"{{{_ANDROID}}}versionName", __version__)
    levels = root.find("uses-sdk")
    if levels is None:
        levels = ET.Element("uses-sdk")
        root.insert(0, levels)
    _put(source, levels, f"{{{_ANDROID}}}minSdkVersion", str(MIN_SDK))
    _put(source, levels, f"{{{_ANDROID}}}targetSdkVersion", str(TARGET_SDK))
    application = root.find("application")
    if application is None:
        raise BuildError(f"{source}: expected the element application, found none")
    _put(source, application, f"{{{_ANDROID}}}extractNativeLibs", "true")
    content: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return content


def _put(source: Path, element: ET.Element, name: str, value: str) -> None:
    found = element.get(name)
    if found not in (None, value):
        raise BuildError(f"{source}: expected {name.split('}')[-1]} to be {value} or left out, found {found}")
    element.set(name, value)
