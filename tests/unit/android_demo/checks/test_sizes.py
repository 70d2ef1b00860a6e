"""The table of sizes and its limit."""

import json
from pathlib import Path

import pytest

from tools.base.errors import BuildError
from tools.checks.sizes import Part, check_size, list_parts, render_parts, write_parts

PACKED = {
    "AndroidManifest.xml": 10,
    "classes.dex": 50,
    "lib/arm64-v8a/liba.so": 100,
    "assets/models/m.zip": 40,
    "assets/licenses.txt": 5,
    "res/a.xml": 7,
}


PLAIN = {name: 2 * size for name, size in PACKED.items()}


def test_parts_add_up_to_the_package(tmp_path: Path) -> None:
    parts = list_parts(PACKED, PLAIN, 250)
    assert parts == [
        Part("liba.so", 100, 200),
        Part("program (classes.dex)", 50, 100),
        Part("model m.zip", 40, 80),
        Part("resources and manifest", 17, 34),
        Part("licenses.txt", 5, 10),
        Part("signatures, directory", 38, 38),
    ]
    assert render_parts(parts).splitlines()[-1].split() == ["the", "package", "250", "462"]
    write_parts(tmp_path / "sizes.json", parts, abi="arm64-v8a", sha256="ab", limit_bytes=260)
    written = json.loads((tmp_path / "sizes.json").read_text())
    assert (written["size_bytes"], written["limit_bytes"], written["parts"][0]["name"]) == (250, 260, "liba.so")


def test_a_package_over_its_limit_is_refused() -> None:
    parts = list_parts(PACKED, PLAIN, 250)
    check_size(parts, 250)
    with pytest.raises(BuildError, match="expected at most 249 bytes, found 250"):
        check_size(parts, 249)
