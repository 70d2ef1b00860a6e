"""Pretrained word vectors in GloVe's text format: a word, a space, and its components on each line.

fastText's ``.vec`` files, which begin with a line of two counts, are read too.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from lite_nlp.core.errors import DataError
from lite_nlp.core.special_tokens import PAD_ID, SPECIAL_TOKENS
from lite_nlp.data.lines import LongLine, read_lines
from lite_nlp.data.tokenizer import Tokenizer

__all__ = ["TokenVectors", "read_vectors"]

#: Lines looked up at a time.
_CHUNK_LINES: Final = 20_000

#: What a word and a number with its space may take; the longest words of published files have some 1,000 bytes.
_WORD_BYTES: Final = 1 << 16
_NUMBER_BYTES: Final = 64


@dataclass(frozen=True, kw_only=True)
class TokenVectors:
    """A vector for each token of a vocabulary.

    Attributes:
        table: (V, D) float32.
        found: (V,) bool, True where the file has the token's word.
    """

    table: npt.NDArray[np.float32]
    found: npt.NDArray[np.bool_]


def read_vectors(path: Path, tokenizer: Tokenizer, *, dim: int, seed: int) -> TokenVectors:
    """Read the vectors of all tokens that are whole words.

    A token gets the vector of the word that the tokenizer spells with it alone, or of the word in lower case where the
    file has only that. The others (parts of words, rare words, punctuation) get random vectors of the same standard
    deviation; the padding gets zeros.

    Args:
        path: The file, plain or gzip.
        tokenizer: The vocabulary.
        dim: Components D that each vector must have.
        seed: Seed of the random vectors, not negative.

    Raises:
        DataError: If the file is missing or damaged, has vectors of another size, or no word of the vocabulary.
    """
    table = np.zeros((tokenizer.vocab_size, dim), dtype=np.float32)
    found = np.zeros(tokenizer.vocab_size, dtype=np.bool_)
    capitalized = _capitalized(tokenizer)
    lowered: dict[int, npt.NDArray[np.float32]] = {}
    rest = _lines(path, dim)
    while lines := list(islice(rest, _CHUNK_LINES)):
        rows = tokenizer.encode_batch([word for _, word, _ in lines])
        for (number, word, numbers), row in zip(lines, rows, strict=True):
            if len(row) == 1 and not found[row[0]]:
                table[row[0]] = _parse(path, number, numbers)
                found[row[0]] = True
            for token in capitalized.pop(word, ()):
                lowered[token] = _parse(path, number, numbers)
    for token, vector in lowered.items():
        if not found[token]:
            table[token], found[token] = vector, True
    if not found.any():
        raise DataError(f"{path}: expected vectors of words that the vocabulary has as tokens, found none")
    random = np.random.default_rng(seed).standard_normal(table.shape, dtype=np.float32)
    table = np.where(found[:, None], table, random * table[found].std())
    table[PAD_ID] = 0.0
    return TokenVectors(table=table, found=found)


def _lines(path: Path, dim: int) -> Iterator[tuple[int, str, list[str]]]:
    """Line number, word and numbers of each line, the latter not yet read."""
    for number, raw in enumerate(read_lines(path, max_bytes=_WORD_BYTES + dim * _NUMBER_BYTES), start=1):
        if isinstance(raw, LongLine):
            raise DataError(f"{path}: expected a word and {dim} numbers on each line, found more on line {number:,}")
        try:
            # Some words of published files hold spaces; the numbers are the last fields.
            word, *numbers = raw.decode("utf-8").rstrip().rsplit(" ", dim)
        except UnicodeDecodeError as error:
            raise DataError(f"{path}: expected UTF-8 text, found other bytes on line {number:,}: {error}") from error
        if number == 1 and len(numbers) == 1 and word.isdigit() and numbers[0].isdigit():
            continue
        if len(numbers) != dim or not word:
            raise DataError(
                f"{path}: expected a word and {dim} numbers (the width of the embeddings) on each line, found "
                f"{raw.count(b' ')} numbers on line {number:,}"
            )
        yield number, word, numbers


def _parse(path: Path, number: int, numbers: list[str]) -> npt.NDArray[np.float32]:
    try:
        vector = np.array(numbers, dtype=np.float32)
    except ValueError as error:
        raise DataError(f"{path}: expected {len(numbers)} numbers on line {number:,}, found other: {error}") from error
    if not np.isfinite(vector).all():
        raise DataError(f"{path}: expected finite numbers on line {number:,}, found others")
    return vector


def _capitalized(tokenizer: Tokenizer) -> dict[str, list[int]]:
    """The tokens that are words with capitals, by their lower case."""
    tokens = range(len(SPECIAL_TOKENS), tokenizer.vocab_size)
    words = [tokenizer.decode([token]) for token in tokens]
    by_lower: dict[str, list[int]] = {}
    for token, word, row in zip(tokens, words, tokenizer.encode_batch(words), strict=True):
        # A part of a word decodes to text too, but that text is spelled otherwise.
        if row == [token] and word != word.lower():
            by_lower.setdefault(word.lower(), []).append(token)
    return by_lower
