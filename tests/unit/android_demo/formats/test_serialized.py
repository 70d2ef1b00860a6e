"""Signature files: gzipped, serialized Java objects."""

import gzip
import struct
from pathlib import Path

import pytest

from tools.base.errors import BuildError
from tools.formats.serialized import read_signature


def text(value: str) -> bytes:
    return struct.pack(">H", len(value)) + value.encode()


def string(value: str) -> bytes:
    return b"\x74" + text(value)


def reference(index: int) -> bytes:
    return b"\x71" + struct.pack(">I", 0x7E0000 + index)


# Handles are given in the order in which things appear: 0 the class Clazz, 1 to 3 its fields' types.
CLAZZ = (
    b"\x72" + text("org.codehaus.mojo.animal_sniffer.Clazz") + bytes(7) + b"\1\2" + struct.pack(">H", 4)
    + b"L" + text("name") + string("Ljava/lang/String;")
    + b"L" + text("signatures") + string("Ljava/util/Set;")
    + b"L" + text("superClass") + reference(1)
    + b"[" + text("superInterfaces") + string("[Ljava/lang/String;")
    + b"\x78\x70"
)  # fmt: skip
SET = b"\x72" + text("java.util.HashSet") + bytes(8) + b"\3\0\0\x78\x70"
ARRAY = b"\x72" + text("[Ljava.lang.String;") + bytes(8) + b"\2\0\0\x78\x70"


def set_of(*items: bytes, description: bytes = SET) -> bytes:
    counted = b"\x77\x0c" + struct.pack(">IfI", 16, 0.75, len(items))
    return b"\x73" + description + counted + b"".join(items) + b"\x78"


def array_of(*items: bytes, description: bytes = ARRAY) -> bytes:
    return b"\x75" + description + struct.pack(">I", len(items)) + b"".join(items)


def write(path: Path, *objects: bytes) -> Path:
    path.write_bytes(gzip.compress(b"\xac\xed\0\5" + b"".join(objects)))
    return path


def test_classes_are_read_with_what_they_share(tmp_path: Path) -> None:
    first = (
        b"\x73" + CLAZZ  # handles 0 to 3; 4 is the object
        + string("a/View")  # 5
        + set_of(string("draw()V"), string("x#I"))  # 6 the set's class, 7 the set, 8 and 9
        + string("java/lang/Object")  # 10
        + array_of(string("a/Able"))  # 11 the array's class, 12 the array, 13
    )  # fmt: skip
    second = (
        b"\x73" + reference(0) + string("a/Button") + set_of(reference(8), description=reference(6))
        + reference(5) + array_of(description=reference(11))
    )  # fmt: skip
    third = b"\x73" + reference(0) + reference(10) + set_of(description=reference(6)) + b"\x70\x70"
    found = read_signature(write(tmp_path / "a.signature", first, second, third, b"\x70"))
    assert list(found) == ["a/View", "a/Button", "java/lang/Object"]
    view, button, base = found.values()
    assert (view.super_name, view.interfaces) == ("java/lang/Object", ("a/Able",))
    assert view.members == {"draw()V", "x#I"}
    assert (button.super_name, button.interfaces, button.members) == ("a/View", (), {"draw()V"})
    assert (base.super_name, base.interfaces, base.members) == ("", (), frozenset())


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PK\3\4",
        b"\xac\xed\0\5\x7e",
        b"\xac\xed\0\5\x73" + CLAZZ + string("a/View")[:4],
        b"\xac\xed\0\5" + set_of(string("a")) + b"\x70",
    ],
    ids=["empty", "zip", "unknown kind", "cut off", "no class"],
)
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.signature"
    path.write_bytes(gzip.compress(content))
    with pytest.raises(
        BuildError, match=r"a\.signature: expected serialized classes of animal-sniffer, found otherwise"
    ):
        read_signature(path)


def test_a_file_without_classes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="expected classes, found none"):
        read_signature(write(tmp_path / "a.signature", b"\x70"))
