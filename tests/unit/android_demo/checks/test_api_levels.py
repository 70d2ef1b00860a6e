"""Uses of Android that the oldest system lacks, or that are hidden."""

from pathlib import Path

import pytest
from class_bytes import class_bytes

from tools.base.errors import BuildError
from tools.checks.api_levels import (
    Allowed,
    find_api_problems,
    find_newer_uses,
    find_reflection,
    read_allowed,
    read_reflecting,
)
from tools.formats.class_files import ClassFile, parse_class
from tools.formats.serialized import ApiClass

VERSION = ("android/os/Build$VERSION", "SDK_INT", "I")


def api(*classes: ApiClass) -> dict[str, ApiClass]:
    base = ApiClass("java/lang/Object", "", (), frozenset({"<init>()V", "hashCode()I"}))
    version = ApiClass("android/os/Build$VERSION", "java/lang/Object", (), frozenset({"SDK_INT#I"}))
    return {one.name: one for one in (base, version, *classes)}


VIEW = ApiClass("android/view/View", "java/lang/Object", ("android/Callback",), frozenset({"draw()V", "x#I"}))
BUTTON = ApiClass("android/view/Button", "android/view/View", (), frozenset({"press()V"}))
CALLBACK = ApiClass("android/Callback", "", (), frozenset({"called()V"}))
NEW_VIEW = ApiClass("android/view/View", "java/lang/Object", ("android/Callback",), VIEW.members | {"shine()V"})
GESTURE = ApiClass("android/Gesture", "java/lang/Object", (), frozenset({"start()V"}))
OLD, NEW = api(VIEW, BUTTON, CALLBACK), api(NEW_VIEW, BUTTON, CALLBACK, GESTURE)


def program(*contents: bytes) -> dict[str, ClassFile]:
    return {one.name: one for one in map(parse_class, contents)}


def newer(*contents: bytes) -> list[tuple[str, str, str]]:
    return [(one.name, use, owner) for one, use, owner in find_newer_uses(program(*contents), OLD)]


def test_what_the_oldest_system_has_is_no_matter() -> None:
    uses = (
        ("android/view/View", "draw", "()V"),
        ("android/view/View", "x", "I"),
        ("android/view/Button", "draw", "()V"),
        ("android/view/Button", "called", "()V"),
        ("android/Callback", "hashCode", "()I"),
        ("[Landroid/view/View;", "clone", "()Ljava/lang/Object;"),
    )
    assert newer(class_bytes("a/Own", uses=uses)) == []


@pytest.mark.parametrize(
    ("use", "name"),
    [
        (("android/view/View", "shine", "()V"), "android/view/View.shine()V"),
        (("android/view/Button", "shine", "()V"), "android/view/Button.shine()V"),
        (("android/view/View", "x", "J"), "android/view/View.x J"),
        (("android/view/View", "draw", "(I)V"), "android/view/View.draw(I)V"),
    ],
)
def test_members_it_lacks_are_found(use: tuple[str, str, str], name: str) -> None:
    assert newer(class_bytes("a/Own", uses=(use,))) == [("a/Own", name, use[0])]


def test_a_member_is_found_by_the_class_that_inherits_it() -> None:
    # This is how the compiler writes a call of an inherited method: by the class of our own.
    screen = class_bytes("a/Screen", parent="android/view/View", methods=(("own", "()V", 1),))
    user = class_bytes("a/User", uses=(("a/Screen", "shine", "()V"), ("a/Screen", "own", "()V")))
    assert newer(screen, user) == [("a/User", "a/Screen.shine()V", "a/Screen")]


def test_classes_it_lacks_are_found() -> None:
    found = newer(class_bytes("a/Own", interfaces=("android/Gesture",), uses=(("android/Gesture", "start", "()V"),)))
    assert found == [
        ("a/Own", "android/Gesture", "android/Gesture"),
        ("a/Own", "android/Gesture.start()V", "android/Gesture"),
    ]


SHINE = class_bytes("a/Newer$Api33", uses=(("android/view/View", "shine", "()V"),))
ASKS = class_bytes("a/Newer", uses=(VERSION,))


def problems(allowed: list[Allowed], *contents: bytes) -> list[str]:
    return find_api_problems(program(*contents), OLD, NEW, 33, allowed)


def test_a_use_must_be_allowed() -> None:
    (problem,) = problems([], ASKS, SHINE)
    assert problem.startswith("a/Newer$Api33 uses android/view/View.shine()V, which API 26 does not have")


@pytest.mark.parametrize("user", ["a/Newer", "a/Newer$Api33"])
def test_an_allowed_use_behind_a_question_is_well(user: str) -> None:
    assert problems([Allowed(user, 33, ("android/view/View.shine()V",))], ASKS, SHINE) == []


def test_a_class_stands_for_its_members() -> None:
    user = class_bytes("a/Newer", uses=(VERSION, ("android/Gesture", "start", "()V")))
    assert problems([Allowed("a/Newer", 33, ("android/Gesture",))], user) == []


def test_who_never_asks_for_the_version_is_found() -> None:
    found = problems([Allowed("a/Newer", 33, ("android/view/View.shine()V",))], class_bytes("a/Newer"), SHINE)
    assert found == ["a/Newer$Api33 uses android/view/View.shine()V of API 33, but never reads Build.VERSION.SDK_INT"]


def test_allowing_one_class_allows_no_other_of_a_like_name() -> None:
    other = class_bytes("a/NewerStill", uses=(VERSION, ("android/view/View", "shine", "()V")))
    found = problems([Allowed("a/Newer", 33, ("android/view/View.shine()V",))], ASKS, SHINE, other)
    assert len(found) == 1
    assert found[0].startswith("a/NewerStill uses")


def test_hidden_members_are_found() -> None:
    user = class_bytes("a/Newer", uses=(VERSION, ("android/view/View", "internal", "()V")))
    (found,) = problems([Allowed("a/Newer", 33, ("android/view/View.internal()V",))], user)
    assert found.endswith("which is not in the public API 33: it is hidden")
    # Beyond the newest known level there is nothing to compare with.
    assert problems([Allowed("a/Newer", 35, ("android/view/View.internal()V",))], user) == []


def test_an_entry_that_nothing_needs_is_found() -> None:
    uses = ("android/view/View.shine()V", "android/Gesture")
    assert problems([Allowed("a/Newer", 33, uses)], ASKS, SHINE) == [
        "api_uses.toml allows a/Newer to use android/Gesture, which it does not"
    ]


def test_reflection_must_be_allowed_and_needed() -> None:
    opener = class_bytes("dev/litenlp/A", uses=(("java/lang/reflect/Field", "setAccessible", "(Z)V"),))
    library = class_bytes("org/other/B", uses=(("java/lang/reflect/Field", "setAccessible", "(Z)V"),))
    classes = program(opener, library)
    assert find_reflection(classes, {"dev/litenlp/A"}) == []
    assert "dev/litenlp/A opens members by reflection" in find_reflection(classes, set())[0]
    assert "which it does not" in find_reflection(classes, {"dev/litenlp/A", "dev/litenlp/C"})[0]


def test_the_lists_of_the_repository_are_well_formed() -> None:
    assert all(26 < entry.api <= 35 and entry.uses for entry in read_allowed())
    assert all(name.startswith("dev/litenlp/") for name in read_reflecting())


def test_an_entry_without_a_level_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "uses.toml"
    path.write_text('[[guarded]]\nclass = "a/B"\nuses = []\n')
    with pytest.raises(BuildError, match="expected class, api and uses in each entry"):
        read_allowed(path)
