"""Warnings of aapt2."""

from tools.package.resources import unexpected_warnings


def test_only_expected_warnings_pass() -> None:
    known = "AndroidManifest.xml:5: warn: unexpected element <queries> found in <manifest>.\n"
    assert unexpected_warnings(known + "\n") == []
    other = "values.xml:3: warn: removing resource x without required default value."
    assert unexpected_warnings(known + other) == [other]
    unknown = "AndroidManifest.xml:5: warn: unknown element <permision> found."
    assert unexpected_warnings(unknown) == [unknown]
