"""Differences between two packages."""

import zipfile
from pathlib import Path

from tools.checks.reproducibility import describe_difference


def test_differences_of_packages_are_named(tmp_path: Path) -> None:
    one, other = tmp_path / "one.apk", tmp_path / "other.apk"
    for path, entries in ((one, {"a": "1", "b": "2", "c": "3"}), (other, {"a": "1", "b": "x", "d": "4"})):
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in entries.items():
                archive.writestr(name, content)
    assert describe_difference(one, other) == ["c: only in one of them", "d: only in one of them", "b: other content"]
    assert "order, packing or signatures" in describe_difference(one, one)[0]
