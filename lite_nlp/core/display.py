"""Text that people get to see: names as they are written, and nothing that moves a cursor."""

import re
from typing import Final

__all__ = ["displayable", "in_utf8", "with_letters"]

#: Bytes that Python could not decode, in its own notation for them (PEP 383).
_STRAY_BYTES: Final = re.compile("[\udc80-\udcff]+")


def displayable(text: str, *, keep: str = "") -> str:
    """``text`` with unprintable characters as backslash escapes, such as a file name's stray bytes.

    In a locale without UTF-8 every letter beyond ASCII of a file name is stray bytes to Python; where these are UTF-8,
    they are shown as what they are.

    Args:
        text: Any text.
        keep: Unprintable characters to leave as they are.
    """
    if text.isprintable():
        return text
    whole = with_letters(text)
    return "".join(character if _is_shown(character, keep) else _escaped(character) for character in whole)


def in_utf8(text: str) -> str:
    """``text`` with letters or escapes in place of stray bytes, which a file in UTF-8 cannot hold."""
    return text if text.isascii() else _STRAY_BYTES.sub(lambda found: _escaped(found.group()), with_letters(text))


def with_letters(text: str) -> str:
    """A word of the command line with its letters beyond ASCII, which a locale without UTF-8 makes stray bytes of."""
    return _STRAY_BYTES.sub(lambda found: _as_utf8(found.group()), text)


def _as_utf8(stray: str) -> str:
    return stray.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")


def _is_shown(character: str, keep: str) -> bool:
    return character in keep or character.isprintable()


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()
