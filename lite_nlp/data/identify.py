"""The language of a text, by its look: to check and complete what names of files say."""

from functools import cache
from typing import Any, Final

__all__ = ["look_of", "more_like", "supported"]

#: Letters below which the look of a text says nothing.
_MIN_LETTERS: Final = 100


def look_of(text: str) -> list[str]:
    """Codes of languages, the most likely first; none where the text is too short to tell."""
    if sum(map(str.isalpha, text)) < _MIN_LETTERS:
        return []
    identifier = _identifier()
    return [] if identifier is None else [str(code) for code, _ in identifier.rank(text)]


def supported(code: str) -> bool:
    """Whether texts of a language can be told from others."""
    identifier = _identifier()
    return identifier is not None and code in identifier.labels


def more_like(texts: tuple[str, str], languages: tuple[str, str]) -> bool | None:
    """Whether two texts, each the translation of the other, look like two languages in this order.

    None if the texts are too short, or a language is not supported.
    """
    ranks: list[list[str]] = [look_of(text) for text in texts]
    if not all(ranks) or not all(map(supported, languages)):
        return None
    first, second = ([rank.index(language) for language in languages] for rank in ranks)
    # The places in both orders: the better order has the smaller sum.
    straight, crossed = first[0] + second[1], first[1] + second[0]
    return None if straight == crossed else straight < crossed


@cache
def _identifier() -> Any:
    """The model; None where there is no room for the temporary file that it is unpacked to."""
    # Loading it takes a third of a second.
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    try:
        return LanguageIdentifier.from_model_file(MODEL_FILE)
    except OSError:
        return None
