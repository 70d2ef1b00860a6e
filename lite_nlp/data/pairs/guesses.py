"""The languages of files of pairs: from names, tags and keys, in doubt from the look of the text."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from lite_nlp.core.errors import DataError
from lite_nlp.data.identify import look_of, more_like, supported
from lite_nlp.data.languages import language_code, languages_in_name, speaks
from lite_nlp.data.pairs.corpus import Pair
from lite_nlp.data.pairs.tmx import survey_languages

__all__ = ["UNKNOWN", "PartlyKnown", "check_look", "table_languages", "tmx_languages"]

#: Languages of which one or both may not be known.
PartlyKnown = tuple[str | None, str | None]

#: Names of languages that are not known.
UNKNOWN: Final = ("src", "tgt")

#: A text is taken for a language that is among so many most likely ones.
_LIKELY: Final = 5


def table_languages(
    path: Path, sample: Sequence[Pair], given: PartlyKnown, say: Callable[[str], None]
) -> tuple[str, str]:
    """The languages of a table of pairs.

    The order of two languages in its name is no evidence, since the file ``fra-eng`` of a well-known collection has
    English first: the text decides. One language in the name has the other side's look beside it.

    Args:
        path: The file, for its name.
        sample: The first pairs.
        given: Languages that are known.
        say: Receiver of what was chosen.
    """
    src, tgt = given
    if src is not None and tgt is not None:
        return src, tgt
    texts = _texts(sample)
    named = languages_in_name(path)
    if len(named) == 2:
        found = _oriented((named[0], named[1]), given, texts)
    elif len(named) == 1:
        found = _completed(named[0], given, texts)
    else:
        found = None
    if found is not None:
        say(f"languages: {found[0]} -> {found[1]}, by name and text of {path} (else --src-lang, --tgt-lang)")
        return found
    looks = [look_of(text) for text in texts]
    if all(looks):
        codes = f"--src-lang {src or looks[0][0]} --tgt-lang {tgt or looks[1][0]}"
        say(f"warning: languages: not named by {path}: give them, {codes} by the look of the text")
    elif sample:
        say(f"warning: languages: not named by {path}: give them, as in --src-lang en --tgt-lang fr")
    return src or UNKNOWN[0], tgt or UNKNOWN[1]


def tmx_languages(path: Path, given: PartlyKnown) -> tuple[str, str]:
    """The languages of a TMX file: those given, else those in its name, else that of its header and the other.

    Raises:
        DataError: If the file does not have the languages given, or more than two to choose from.
    """
    found = survey_languages(path, [language for language in given if language is not None])
    codes = list(dict.fromkeys(language_code(tag) or tag for tag in found.tags))
    for option, wanted in zip(("--src-lang", "--tgt-lang"), given, strict=True):
        if wanted is not None and not any(speaks(tag, wanted) for tag in found.tags):
            raise DataError(
                f"{path}: expected units in {wanted} ({option}), found {', '.join(found.tags) or 'no language'}"
            )
    named = languages_in_name(path)
    src, tgt = given
    if given == (None, None) and len(named) == 2 and set(named) <= set(codes):
        return named[0], named[1]
    header = None if found.source is None else language_code(found.source) or found.source
    others = [code for code in codes if not any(known is not None and speaks(code, _base(known)) for known in given)]
    if src is None and (header in others or len(others) == (1 if tgt is not None else 2)):
        src = header if header in others else others[0]
        others.remove(str(src))
    if tgt is None and len(others) == 1:
        tgt = others[0]
    if src is None or tgt is None:
        raise DataError(
            f"{path}: expected two languages, found {', '.join(codes) or 'none'}: choose with --src-lang and --tgt-lang"
        )
    return src, tgt


def check_look(
    sample: Sequence[Pair], languages: tuple[str, str], say: Callable[[str], None], *, swap: str = "the files"
) -> None:
    """Say if the sides look like other languages than they should.

    Args:
        sample: The first pairs.
        languages: Source and target.
        say: Receiver of the warning.
        swap: What to swap then.
    """
    texts = _texts(sample)
    src, tgt = languages
    if more_like(texts, languages) is False:
        say(
            f"warning: languages: the source looks like {tgt} and the target like {src}: "
            f"swap {swap}, or --src-lang and --tgt-lang"
        )
        return
    for option, language, look in zip(("--src-lang", "--tgt-lang"), languages, map(look_of, texts), strict=True):
        if look and supported(language) and language not in look[:_LIKELY]:
            say(f"warning: languages: expected text in {language}, found it to look like {look[0]}: check {option}")


def _texts(sample: Sequence[Pair]) -> tuple[str, str]:
    return "\n".join(src for src, _ in sample), "\n".join(tgt for _, tgt in sample)


def _oriented(named: tuple[str, str], given: PartlyKnown, texts: tuple[str, str]) -> tuple[str, str] | None:
    """Two languages in the order that fits what is known, else the text, else as they are."""
    if given == (None, None):
        return (named[1], named[0]) if more_like(texts, named) is False else named
    for order in (named, (named[1], named[0])):
        if all(known in (None, code) for known, code in zip(given, order, strict=True)):
            return order
    return None


def _completed(named: str, given: PartlyKnown, texts: tuple[str, str]) -> tuple[str, str] | None:
    """One language of a name, on the side that looks more like it, and the look of the other side."""
    looks = [look_of(text) for text in texts]
    if not all(looks) or not supported(named):
        return None
    side = 0 if looks[0].index(named) < looks[1].index(named) else 1
    other = next(code for code in looks[1 - side] if code != named)
    found = (named, other) if side == 0 else (other, named)
    return _oriented(found, given, texts) if given != (None, None) else found


def _base(code: str) -> str:
    return language_code(code) or code
