"""Vectors of the tokenizer: ids, decoded text, unfamiliar fraction, and the properties of every code point."""

import unicodedata
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import tokenizers
from tokenizers import normalizers, pre_tokenizers

from lite_nlp.artifacts.bundles import open_any_bundle
from lite_nlp.data.tokenizer import Tokenizer
from tools.golden.texts import everyday_sentences, hostile_texts, random_texts

__all__ = ["NUM_CODE_POINTS", "character_tables", "shipped_tokenizer", "tokenizer_vectors", "trained_tokenizers"]

_SHIPPED: Final = Path(__file__).parents[3] / "lite_nlp" / "assets" / "tatoeba-en-de.zip"

#: Options of the small tokenizers, by name.
_TRAINED: Final[dict[str, dict[str, Any]]] = {
    "plain": {},
    "lower": {"lowercase": True},
    "nfc": {"normalization": "nfc"},
    "nfkc-lower": {"normalization": "nfkc", "lowercase": True},
}
_TRAINED_VOCAB_SIZE: Final = 420

NUM_CODE_POINTS: Final = 0x110000
_SURROGATES: Final = range(0xD800, 0xE000)


def shipped_tokenizer() -> Tokenizer:
    """The tokenizer of the shipped model."""
    return Tokenizer.from_json(open_any_bundle(_SHIPPED).tokenizer_json)


def trained_tokenizers() -> dict[str, Tokenizer]:
    """Small tokenizers, one for each choice of normalizers, trained on everyday sentences and the hostile texts."""
    lines = [side for pair in everyday_sentences(200) for side in pair] + hostile_texts() * 2
    return {
        name: Tokenizer.train(lines, vocab_size=_TRAINED_VOCAB_SIZE, **options) for name, options in _TRAINED.items()
    }


def tokenizer_vectors(named: dict[str, Tokenizer]) -> dict[str, Any]:
    """Content of one file of vectors, for tokenizers by name."""
    everyday = [side for pair in everyday_sentences(150) for side in pair]
    return {
        "python_unicode": unicodedata.unidata_version,
        "tokenizers_version": tokenizers.__version__,
        "tokenizers": {
            name: {
                "texts": [
                    _text_vector(tokenizer, text)
                    for text in [
                        *(everyday if name == "shipped" else everyday[:40]),
                        *hostile_texts(),
                        *random_texts(600 if name == "shipped" else 200, seed=6),
                    ]
                ],
                "ids": [_ids_vector(tokenizer, ids) for ids in _random_ids(tokenizer.vocab_size)],
            }
            for name, tokenizer in named.items()
        },
        "not_unicode": ["\ud800", "a\udfff", "\udc00\ud800", "x \ud83d y", "\ude00\ud83d"],
        "outside": [[-1], [1 << 20], [3, 4, 1 << 30]],
    }


def _text_vector(tokenizer: Tokenizer, text: str) -> list[Any]:
    ids = tokenizer.encode(text)
    return [text, ids, tokenizer.decode(ids), tokenizer.unfamiliar(text)]


def _ids_vector(tokenizer: Tokenizer, ids: Sequence[int]) -> list[Any]:
    return [list(ids), tokenizer.decode(ids)]


def _random_ids(vocab_size: int) -> Iterator[list[int]]:
    """Sequences that no text encodes to: special ids among them, and bytes that are not UTF-8."""
    random = np.random.default_rng(7)
    first_byte, bytes_end = 3, 259
    for _ in range(60):
        yield random.integers(first_byte, bytes_end, int(random.integers(1, 9))).tolist()
    for _ in range(60):
        yield random.integers(0, vocab_size, int(random.integers(0, 9))).tolist()
    yield []
    yield [0, 1, 2]


def character_tables(stop: int = NUM_CODE_POINTS) -> dict[str, Any]:
    """Properties of each code point below ``stop`` in the tokenizer and in Python: runs ``[first, last]`` and mappings.

    The classes of the pattern are found by asking the pre-tokenizer itself: two characters of one class stay together.
    """
    characters = [chr(code) for code in range(stop) if code not in _SURROGATES]
    return {
        "pattern": {
            "letter": _runs(characters, lambda character: _joins("a", character)),
            "number": _runs(characters, lambda character: _joins("1", character)),
            "space": _runs(characters, _is_space),
        },
        "python": {
            "alpha": _runs(characters, str.isalpha),
            "space": _runs(characters, str.isspace),
            "line_end": _runs(characters, lambda character: len(f"a{character}b".splitlines()) == 2),
        },
        "lower": _changes(characters, normalizers.Lowercase()),
        "nfc": _changes(characters, normalizers.NFC()),
        "nfkc": _changes(characters, normalizers.NFKC()),
    }


_PATTERN: Final = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)


def _joins(known: str, character: str) -> bool:
    return len(_PATTERN.pre_tokenize_str(known + character)) == 1


def _is_space(character: str) -> bool:
    # There is a fourth class, of all the rest, to which "!" belongs.
    return not any(_joins(known, character) for known in "a1!")


def _runs(characters: Sequence[str], holds: Callable[[str], bool]) -> list[list[int]]:
    runs: list[list[int]] = []
    for character in characters:
        if not holds(character):
            continue
        code = ord(character)
        if runs and runs[-1][1] == code - 1:
            runs[-1][1] = code
        else:
            runs.append([code, code])
    return runs


def _changes(characters: Sequence[str], normalizer: Any) -> dict[str, str]:
    changed = ((character, normalizer.normalize_str(character)) for character in characters)
    return {f"{ord(before):04X}": after for before, after in changed if before != after}
