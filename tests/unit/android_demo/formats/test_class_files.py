"""Class files are read, and private members of others are found in use."""

import zipfile
from pathlib import Path

import pytest
from class_bytes import class_bytes

from tools.base.errors import BuildError
from tools.formats.class_files import PRIVATE, Reference, find_private_access, parse_class, read_jar


def test_a_class_is_read() -> None:
    one = parse_class(
        class_bytes(
            "a/One",
            parent="a/Base",
            interfaces=("a/Able", "a/Other"),
            fields=(("count", "I", PRIVATE),),
            methods=(("run", "(J)V", 1),),
            uses=(("a/Two", "size", "I"), ("[La/Two;", "clone", "()Ljava/lang/Object;")),
            names=("[[La/Three;", "[I"),
        )
    )
    assert (one.name, one.super_name, one.interfaces) == ("a/One", "a/Base", ("a/Able", "a/Other"))
    assert one.members == {("count", "I"): PRIVATE, ("run", "(J)V"): 1}
    clone = Reference("[La/Two;", "clone", "()Ljava/lang/Object;")
    assert one.references == {Reference("a/Two", "size", "I"), clone}
    assert one.class_references == {"a/One", "a/Base", "a/Able", "a/Other", "a/Two", "a/Three"}
    assert not one.has_invoke_dynamic
    assert parse_class(class_bytes("a/One", invoke_dynamic=True)).has_invoke_dynamic


def test_names_of_uses() -> None:
    assert str(Reference("a/B", "run", "(I)V")) == "a/B.run(I)V"
    assert str(Reference("a/B", "size", "I")) == "a/B.size I"


@pytest.mark.parametrize("keep", [9, 40, -12])
def test_a_class_that_is_cut_off_is_refused(keep: int) -> None:
    with pytest.raises(BuildError, match="expected a whole one"):
        parse_class(class_bytes("a/One", methods=(("run", "()V", 1),))[:keep])


def test_another_file_is_refused() -> None:
    with pytest.raises(BuildError, match="expected it to begin with 0xcafebabe, found 0x504b0304"):
        parse_class(b"PK\3\4" + bytes(20))


def private_uses(path: Path, *classes: bytes) -> list[str]:
    with zipfile.ZipFile(path, "w") as jar:
        for index, content in enumerate(classes):
            jar.writestr(f"{index}.class", content)
        jar.writestr("notes.txt", "no class")
    return find_private_access(read_jar(path))


def test_private_members_of_others_are_found(tmp_path: Path) -> None:
    owner = class_bytes("a/Owner", fields=(("secret", "I", PRIVATE),), methods=(("open", "()V", 1),))
    user = class_bytes("a/Owner$Inner", uses=(("a/Owner", "secret", "I"), ("a/Owner", "open", "()V")))
    found = private_uses(tmp_path / "a.jar", owner, user)
    assert found == ["a/Owner$Inner uses a/Owner.secret I, which is private in a/Owner"]


def test_private_members_are_found_by_a_subclass_name(tmp_path: Path) -> None:
    base = class_bytes("a/Base", methods=(("hidden", "()V", PRIVATE),))
    derived = class_bytes("a/Derived", parent="a/Base")
    user = class_bytes("a/User", uses=(("a/Derived", "hidden", "()V"),))
    found = private_uses(tmp_path / "a.jar", base, derived, user)
    assert found == ["a/User uses a/Derived.hidden()V, which is private in a/Base"]


def test_own_private_members_and_those_of_libraries_are_no_matter(tmp_path: Path) -> None:
    own = class_bytes("a/Own", fields=(("secret", "I", PRIVATE),), uses=(("a/Own", "secret", "I"), ("b/Far", "x", "I")))
    assert private_uses(tmp_path / "a.jar", own) == []
