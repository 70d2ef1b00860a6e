"""What native code looks up by name and the shrinker may have removed."""

import pytest

from tests.unit.android_demo.class_bytes import class_bytes
from tools.base.layout import ANDROID
from tools.checks.native_names import find_missing_names
from tools.formats.class_files import parse_class

SOURCE = """
  exception_class = find_class(env, "own/Failure");
  exception_constructor = (*env)->GetMethodID(env, exception_class, "<init>", "(I)V");
  string_class = find_class(env, "java/lang/String");
  string_constructor = (*env)->GetMethodID(env, string_class, "<init>", "([B)V");
  jclass class = (*env)->FindClass(env, "own/Other");
"""
CONSTRUCTOR = (("<init>", "(I)V", 1),)


@pytest.mark.parametrize(
    ("present", "problems"),
    [
        ({"own/Failure": CONSTRUCTOR, "own/Other": ()}, []),
        (
            {"own/Failure": (("<init>", "()V", 1),), "own/Other": ()},
            ["own/Failure: expected <init>(I)V, which native code looks up, found none"],
        ),
        (
            {"own/Failure": CONSTRUCTOR},
            ["own/Other: expected the class, which native code looks up, found none"],
        ),
    ],
)
def test_missing_names_are_found(present: dict[str, tuple[tuple[str, str, int], ...]], problems: list[str]) -> None:
    classes = {name: parse_class(class_bytes(name, methods=methods)) for name, methods in present.items()}
    assert find_missing_names(classes, [SOURCE]) == problems


def test_a_look_up_in_an_unknown_class_is_told() -> None:
    source = 'x = (*env)->GetFieldID(env, somewhere, "count", "I");'
    assert find_missing_names({}, [source]) == ["countI: expected a look-up in a class named before, found somewhere"]


def test_the_look_ups_of_the_glue_are_seen() -> None:
    sources = [path.read_text() for path in (ANDROID / "native").glob("*.c")]
    assert find_missing_names({}, sources) == [
        "dev/litenlp/app/engine/OrtException: expected the class, which native code looks up, found none"
    ]
