"""What a user may have meant: the nearest known name, for messages about an unknown one."""

from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import Final

__all__ = ["did_you_mean", "did_you_mean_path", "expected_one_of", "nearest_names", "phrase"]

#: Least similarity of a suggestion, from 0 to 1: a slip or two in a short name, a word left out of a long one.
_CUTOFF: Final = 0.6

#: Similarity of a name to several of its own words.
_WITHIN: Final = 0.95


def expected_one_of(known: Iterable[str], found: str) -> str:
    """What a message about the unknown name ``found`` says of it.

    Such as ``expected one of train, valid, found 'trian'; did you mean 'train'?``.

    Args:
        known: The names that it may be, in the order in which they are told.
        found: What was given.
    """
    names = list(known)
    return f"expected one of {', '.join(names)}, found {found!r}{did_you_mean(found, names)}"


def did_you_mean(found: str, known: Iterable[str]) -> str:
    """The end of a message about the unknown name ``found``: ``; did you mean 'train'?``, or nothing if none is near.

    Args:
        found: What was given.
        known: The names that it may be.
    """
    return phrase(nearest_names(found, known))


def did_you_mean_path(path: Path, known: Iterable[str] = ()) -> str:
    """:func:`did_you_mean` for a file or directory that does not exist, or one of the ``known`` names."""
    names = nearest_names(str(path), known)
    near = None if names else _nearest_path(path)
    return phrase(names if near is None else [str(near)])


def phrase(names: Sequence[str]) -> str:
    """The end of a message that suggests ``names``; empty without any."""
    return f"; did you mean {' or '.join(map(repr, names))}?" if names else ""


def nearest_names(found: str, known: Iterable[str]) -> list[str]:
    """The known names that are nearest to ``found``: one, or several that are equally near; none if none is near."""
    wanted = _words(found)
    scores = {name: _similarity(wanted, _words(name)) for name in known if name != found}
    best = max(scores.values(), default=(0.0, 0.0))
    return [name for name, score in scores.items() if score == best] if best[0] >= _CUTOFF else []


def _nearest_path(path: Path) -> Path | None:
    """The existing path that differs from ``path`` in one name, the first that does not exist."""
    try:
        missing = next((part for part in (*reversed(path.parents), path) if not part.exists()), None)
        if missing is None:
            return None
        siblings = sorted(entry.name for entry in missing.parent.iterdir())
    except OSError:
        return None
    candidates = (missing.with_name(name) / path.relative_to(missing) for name in nearest_names(missing.name, siblings))
    return next((candidate for candidate in candidates if candidate.exists()), None)


def _similarity(wanted: Sequence[str], name: Sequence[str]) -> tuple[float, float]:
    """From 0 to 1, best without regard to the order of words, then with regard to it."""
    ordered = SequenceMatcher(None, "-".join(wanted), "-".join(name)).ratio()
    unordered = SequenceMatcher(None, "-".join(sorted(wanted)), "-".join(sorted(name))).ratio()
    within = _WITHIN if len(wanted) > 1 and set(wanted) <= set(name) else 0.0
    return max(ordered, unordered, within), ordered


def _words(name: str) -> list[str]:
    return name.lower().replace("_", "-").split("-")
