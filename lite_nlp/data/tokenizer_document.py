"""The document ``tokenizer.json``: its limits, and the check that it is a tokenizer as ours are trained.

Everything that :meth:`lite_nlp.data.tokenizer.Tokenizer.train` writes follows from two options and the merges. So a
document is compared whole: each key is known and each value the expected one, and the vocabulary is the one that the
merges make. An option that would change what the tokenizer does is no detail that is passed over. Imports no library.
"""

from collections.abc import Sequence
from typing import Any, Final, get_args

from lite_nlp.core.bounds import MAX_VOCAB_SIZE
from lite_nlp.core.errors import LiteNlpError
from lite_nlp.core.parsing import parse_json
from lite_nlp.core.special_tokens import SPECIAL_TOKENS
from lite_nlp.data.choices import Normalization

__all__ = [
    "BYTE_ALPHABET",
    "MAX_MERGES",
    "MAX_TOKENIZER_BYTES",
    "MAX_TOKEN_BYTES",
    "check_trained",
    "parse_tokenizer",
]

#: Merges: each makes a type.
MAX_MERGES: Final = MAX_VOCAB_SIZE

#: Bytes that one type spells, which bounds the text that an output of given length decodes to.
MAX_TOKEN_BYTES: Final = 4096

#: Of the document: a type and its merge take some sixty bytes.
MAX_TOKENIZER_BYTES: Final = 64 << 20

#: A value for each type and three for each merge, and the options.
_MAX_VALUES: Final = MAX_VOCAB_SIZE + 3 * MAX_MERGES + 1000


def _byte_alphabet() -> tuple[str, ...]:
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return tuple(chr(byte if byte in printable else next(others)) for byte in range(0x100))


#: The character that stands for each byte in the spelling of a type, as GPT-2 has it.
BYTE_ALPHABET: Final = _byte_alphabet()


def parse_tokenizer(content: bytes, *, source: str, error: type[LiteNlpError]) -> dict[str, Any]:
    """Read a ``tokenizer.json`` of any kind as far as every kind has it: ids by type in ``model.vocab``.

    Args:
        content: The document.
        source: Stands for it in messages.
        error: Kind of the error.

    Raises:
        LiteNlpError: Of the kind ``error``, if it is no JSON, has no such vocabulary, or is beyond the limits.
    """
    document = parse_json(content, source=source, error=error, max_bytes=MAX_TOKENIZER_BYTES, max_values=_MAX_VALUES)
    model = document.get("model") if isinstance(document, dict) else None
    types = model.get("vocab") if isinstance(model, dict) else None
    if not isinstance(document, dict) or not isinstance(types, dict):
        raise error(f"{source}: expected a tokenizer with a vocabulary, found a damaged one")
    if len(types) > MAX_VOCAB_SIZE:
        raise error(f"{source}: expected at most {MAX_VOCAB_SIZE} types, found {len(types)}")
    if not all(type(number) is int for number in types.values()):
        raise error(f"{source}: expected a tokenizer with a vocabulary, found ids that are no integers")
    return document


def check_trained(document: dict[str, Any]) -> tuple[bool, Normalization]:
    """Check that a document is one that the training writes.

    Args:
        document: From :func:`parse_tokenizer`.

    Returns:
        Whether it lowercases text, and its normalization.

    Raises:
        ValueError: At the first difference.
    """
    model = dict(document["model"])
    vocabulary, merges = model.pop("vocab"), model.pop("merges", None)
    options = _find_options(document.get("normalizer"))
    difference = _first_difference(_outline(*options), {**document, "model": model}, "")
    if difference is not None:
        raise ValueError(difference)
    if not isinstance(merges, list) or len(merges) > MAX_MERGES:
        raise ValueError(f"merges: expected a list of at most {MAX_MERGES}, found another value")
    if vocabulary != _types_of(merges):
        raise ValueError(
            f"vocabulary: expected {', '.join(SPECIAL_TOKENS)}, the 256 bytes and what the merges make, with ids in "
            "this order, found another"
        )
    return options


def _find_options(normalizer: Any) -> tuple[bool, Normalization]:
    for lowercase in (False, True):
        for normalization in get_args(Normalization):
            if _first_difference(_normalizer(lowercase, normalization), normalizer, "") is None:
                return lowercase, normalization
    raise ValueError(
        "normalizer: expected a sequence of NFC or NFKC (optional), Lowercase (optional) and Prepend of one space, "
        f"found {_shown(normalizer)}"
    )


def _normalizer(lowercase: bool, normalization: Normalization) -> dict[str, Any]:
    form = [] if normalization == "none" else [{"type": normalization.upper()}]
    lower = [{"type": "Lowercase"}] if lowercase else []
    return {"type": "Sequence", "normalizers": [*form, *lower, {"type": "Prepend", "prepend": " "}]}


def _outline(lowercase: bool, normalization: Normalization) -> dict[str, Any]:
    """What the training writes, without vocabulary and merges."""
    byte_level = {"type": "ByteLevel", "trim_offsets": True, "use_regex": True}
    strip = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": _normalizer(lowercase, normalization),
        "pre_tokenizer": {**byte_level, "add_prefix_space": False},
        "post_processor": None,
        "decoder": {"type": "Sequence", "decoders": [{**byte_level, "add_prefix_space": True}, strip]},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
        },
    }


def _first_difference(expected: Any, found: Any, path: str) -> str | None:
    """The first place where ``found`` is not ``expected``, to the type of every value; None if there is none."""
    where = path.removeprefix(".") or "document"
    if type(found) is not type(expected) or (isinstance(expected, list) and len(found) != len(expected)):
        return f"{where}: expected {_shown(expected)}, found {_shown(found)}"
    if isinstance(expected, dict):
        if unknown := next((key for key in found if key not in expected), None):
            return f"{where}: expected no key {unknown[:80]!r}, found one"
        if missing := next((key for key in expected if key not in found), None):
            return f"{where}: expected a key {missing!r}, found none"
        pairs: Sequence[tuple[Any, Any, Any]] = [(key, expected[key], found[key]) for key in expected]
    elif isinstance(expected, list):
        pairs = [(index, *both) for index, both in enumerate(zip(expected, found, strict=True))]
    else:
        return None if found == expected else f"{where}: expected {_shown(expected)}, found {_shown(found)}"
    differences = (_first_difference(wanted, value, f"{path}.{key}") for key, wanted, value in pairs)
    return next((difference for difference in differences if difference is not None), None)


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "an object"
    return f"a list of {len(value)}" if isinstance(value, list) else repr(value)[:80]


def _types_of(merges: Sequence[Any]) -> dict[str, int]:
    """The vocabulary that merges make, ids by type.

    Raises:
        ValueError: If a merge is no pair of types that are there before it, or makes one that is too long or special.
    """
    ids = {spelling: number for number, spelling in enumerate((*SPECIAL_TOKENS, *sorted(BYTE_ALPHABET)))}
    for rank, merge in enumerate(merges):
        if not isinstance(merge, list) or len(merge) != 2 or not all(isinstance(part, str) for part in merge):
            raise ValueError(f"merges: expected pairs of types, found {_shown(merge)} in place {rank}")
        for part in merge:
            if part not in ids or part in SPECIAL_TOKENS:
                raise ValueError(
                    f"merges: expected types that come before the merge, found {_shown(part)} in place {rank}"
                )
        made = merge[0] + merge[1]
        if len(made) > MAX_TOKEN_BYTES or made in SPECIAL_TOKENS:
            raise ValueError(
                f"merges: expected text of at most {MAX_TOKEN_BYTES} bytes, found one that makes {_shown(made)}"
            )
        ids.setdefault(made, len(ids))
    return ids
