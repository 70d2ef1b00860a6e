"""Hashes by which sentences are compared: as they are, and but for case, punctuation and spacing."""

import unicodedata
from hashlib import blake2b
from typing import Final

__all__ = ["exact_key", "folded_letters", "sentence_key"]


class _LettersOnly(dict[int, int | None]):
    """A table of :meth:`str.translate` that keeps letters, digits and the marks on them; filled as characters occur."""

    def __missing__(self, point: int) -> int | None:
        character = chr(point)
        kept = point if character.isalnum() or unicodedata.category(character).startswith("M") else None
        self[point] = kept
        return kept


_LETTERS_ONLY: Final = _LettersOnly()
#: The same for ASCII, which is faster as bytes.
_ASCII_OTHERS: Final = bytes(point for point in range(128) if not chr(point).isalnum())


def exact_key(text: str) -> int:
    """A 64-bit hash of ``text`` as it is."""
    return _hash(text.encode("utf-8"))


def sentence_key(text: str) -> int:
    """A 64-bit hash of the letters, marks and digits of ``text``, case aside; of all of it where it has none.

    Characters that only look different are one: NFKC, the compatibility form of Unicode, is taken first.
    """
    return _hash(folded_letters(text))


def folded_letters(text: str) -> bytes:
    """What :func:`sentence_key` hashes, in UTF-8."""
    if text.isascii():
        plain = text.lower().encode("ascii")
        return plain.translate(None, _ASCII_OTHERS) or plain
    # Folding can take a character apart that NFKC writes as one.
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return (folded.translate(_LETTERS_ONLY) or folded).encode("utf-8")


def _hash(content: bytes) -> int:
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "big")
