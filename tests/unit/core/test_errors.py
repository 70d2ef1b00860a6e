"""Messages of errors: on one screen, without control characters."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lite_nlp.core.errors import LiteNlpError, OverBudgetError

SCREEN = 24 * 80


@given(st.text(max_size=300).map(lambda part: part * 20))
def test_any_message_fits_a_screen_and_holds_no_control_characters(text: str) -> None:
    message = str(LiteNlpError(text))
    assert len(message) <= SCREEN
    assert message.count("\n") < 20
    assert message.replace("\n", "").isprintable()


def test_a_short_message_is_unchanged() -> None:
    text = "a.zip: expected \u00fc, found \u00df\n  second line"
    assert str(LiteNlpError(text)) == text


def test_the_ends_of_a_long_message_are_kept() -> None:
    message = str(LiteNlpError("model.lnlp: expected little, found " + "x" * 90_000_000 + ": made by hand"))
    assert message.startswith("model.lnlp: expected little, found xxx")
    assert message.endswith("xxx: made by hand")
    assert "characters left out" in message


def test_the_ends_of_many_lines_are_kept() -> None:
    lines = [f"line {number}" for number in range(100)]
    shown = str(OverBudgetError("\n".join(lines))).splitlines()
    assert shown[0] == "line 0"
    assert shown[-1] == "line 99"
    assert "... (81 lines left out) ..." in shown


@pytest.mark.parametrize(("found", "shown"), [("\x1b[2J", "\\x1b[2J"), ("\u202e", "\\u202e"), ("\ud800", "\\ud800")])
def test_control_characters_are_shown_as_escapes(found: str, shown: str) -> None:
    assert str(LiteNlpError(f"a{found}b")) == f"a{shown}b"
