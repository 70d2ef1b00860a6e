"""Byte-level BPE, of which decoding is the exact inverse of encoding.

A tokenizer is one file, ``tokenizer.json``, in the format of Hugging Face ``tokenizers``: optional Unicode
normalization and lowercasing, one space put before the line (so that a word is spelled the same at its start as inside
it), the GPT-2 pattern, byte-pair merges. No character is outside the vocabulary: what no merge covers falls apart into
its bytes.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from lite_nlp.core.bounds import MAX_VOCAB_SIZE
from lite_nlp.core.errors import DataError, UsageError
from lite_nlp.core.files import sha256_bytes
from lite_nlp.core.parsing import parsing
from lite_nlp.core.special_tokens import SPECIAL_TOKENS
from lite_nlp.data.choices import Normalization
from lite_nlp.data.tokenizer_document import (
    BYTE_ALPHABET,
    MAX_TOKEN_BYTES,
    check_trained,
    parse_tokenizer,
)

__all__ = ["MIN_VOCAB_SIZE", "Tokenizer"]

#: The special tokens and one token for each byte: below this no text can be written.
MIN_VOCAB_SIZE: Final = len(SPECIAL_TOKENS) + len(BYTE_ALPHABET)

#: A pair seen once is noise: merging it would spend a row of the embedding table on one line of the corpus.
_MIN_PAIR_COUNT: Final = 2

_FORMS: Final = {"nfc": normalizers.NFC, "nfkc": normalizers.NFKC}


class Tokenizer:
    """A tokenizer: text to token ids and back.

    Made by :meth:`train`, :meth:`load` or :meth:`from_json`. Ids never include the special tokens, whatever the text:
    a literal ``</s>`` typed by the user is five characters like any others.
    """

    def __init__(self, content: bytes, name: str = "tokenizer") -> None:
        """Read the content of a ``tokenizer.json``; prefer :meth:`load` and :meth:`from_json`.

        Raises:
            DataError: If ``content`` is damaged or describes another kind of tokenizer.
        """
        where = f"{name}: expected a tokenizer.json of byte-level BPE, found a damaged one"
        document = parse_tokenizer(content, source=where, error=DataError)
        try:
            options = check_trained(document)
        except ValueError as error:
            raise DataError(f"{where}: {error}") from error
        with parsing(where, "one that the library accepts", DataError):
            self._inner = tokenizers.Tokenizer.from_buffer(content)
        self._content = content
        self._specials = range(len(SPECIAL_TOKENS))
        self.lowercase: bool = options[0]
        self.normalization: Normalization = options[1]

    @classmethod
    def load(cls, path: Path) -> "Tokenizer":
        """Read ``tokenizer.json``.

        Raises:
            DataError: If the file is missing, damaged or describes another kind of tokenizer.
        """
        try:
            content = Path(path).read_bytes()
        except OSError as error:
            raise DataError(f"{path}: expected a readable tokenizer.json, found none: {error}") from error
        return cls(content, str(path))

    @classmethod
    def from_json(cls, content: bytes | str) -> "Tokenizer":
        """Build from the content of a ``tokenizer.json``.

        Raises:
            DataError: If it is damaged or describes another kind of tokenizer.
        """
        return cls(content.encode("utf-8") if isinstance(content, str) else content)

    @classmethod
    def train(
        cls,
        lines: Iterable[str],
        *,
        vocab_size: int,
        lowercase: bool = False,
        normalization: Normalization = "none",
    ) -> "Tokenizer":
        """Learn the merges from ``lines``, both languages together; the same lines give the same file.

        Args:
            lines: The text; read once, never held in memory.
            vocab_size: Tokens wanted, special tokens and bytes included; a small text may give fewer.
            lowercase: Whether to lowercase before tokenizing; decoding then gives lower case.
            normalization: Unicode normalization form applied before tokenizing.

        Raises:
            DataError: If ``vocab_size`` is below :data:`MIN_VOCAB_SIZE` or beyond the limits, or there is no text.
        """
        if vocab_size < MIN_VOCAB_SIZE:
            raise DataError(
                f"vocab size: expected at least {MIN_VOCAB_SIZE} (bytes, special tokens), found {vocab_size}"
            )
        if vocab_size > MAX_VOCAB_SIZE:
            raise DataError(f"vocab size: expected at most {MAX_VOCAB_SIZE}, found {vocab_size}")
        inner = tokenizers.Tokenizer(models.BPE())
        inner.normalizer = _normalizer(lowercase=lowercase, normalization=normalization)
        # The space before the line comes from the normalizer: unlike add_prefix_space it is there for every line, also
        # for one that starts with a space, so the decoder can always take exactly one away.
        inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
        inner.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
        trainer = trainers.BpeTrainer(
            vocab_size=vocab_size,
            min_frequency=_MIN_PAIR_COUNT,
            special_tokens=list(SPECIAL_TOKENS),
            initial_alphabet=sorted(BYTE_ALPHABET),
            max_token_length=MAX_TOKEN_BYTES,
            show_progress=False,
        )
        inner.train_from_iterator(_non_empty(lines), trainer=trainer)
        document = json.loads(inner.to_str())
        # Listed as added tokens they would be cut out of the text before the merges; they are ids only.
        document["added_tokens"] = []
        return cls.from_json(_dump(document))

    def first(self, types: int) -> "Tokenizer":
        """The tokenizer of the first ``types`` types alone: what a later merge makes stays in its parts.

        Types are in the order in which they were learned, so the ids of those that stay are the same.

        Raises:
            UsageError: If ``types`` is below :data:`MIN_VOCAB_SIZE` or above the size of this vocabulary.
        """
        if not MIN_VOCAB_SIZE <= types <= self.vocab_size:
            raise UsageError(
                f"--vocab-size: expected {MIN_VOCAB_SIZE} (bytes, special tokens) to {self.vocab_size}, the types of "
                f"the tokenizer, found {types}"
            )
        document = json.loads(self._content)
        model = document["model"]
        model["vocab"] = {spelling: number for spelling, number in model["vocab"].items() if number < types}
        model["merges"] = model["merges"][: types - MIN_VOCAB_SIZE]
        return self.from_json(_dump(document))

    def begins_with(self, other: "Tokenizer") -> bool:
        """Whether ``other`` is this tokenizer or one of its first types, however its file is laid out."""
        same = self if other.vocab_size >= self.vocab_size else self.first(other.vocab_size)
        return bool(json.loads(same.to_json()) == json.loads(other.to_json()))

    @property
    def vocab_size(self) -> int:
        """Number of ids, special tokens included."""
        return self._inner.get_vocab_size(with_added_tokens=False)

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the file: two tokenizers with the same one give the same ids."""
        return sha256_bytes(self._content)

    def to_json(self) -> bytes:
        """The content of ``tokenizer.json``, byte for byte as it was read or trained."""
        return self._content

    def encode(self, text: str) -> list[int]:
        """Token ids of ``text``, without special tokens; none for the empty string.

        Raises:
            DataError: If ``text`` holds a lone surrogate, which is no character.
        """
        return self._inner.encode(_checked(text), add_special_tokens=False).ids

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """:meth:`encode` of each text, on all cores."""
        encodings = self._inner.encode_batch_fast([_checked(text) for text in texts], add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ``ids``; special tokens are left out.

        Inverse of :meth:`encode`, up to the tokenizer's own lowercasing and normalization. Ids that do not form whole
        UTF-8 characters give U+FFFD in their place.

        Raises:
            DataError: If an id is outside the vocabulary.
        """
        kept = []
        size = self.vocab_size
        for token in ids:
            if not 0 <= token < size:
                raise DataError(f"token id: expected 0 to {size - 1}, found {token}")
            if token not in self._specials:
                kept.append(int(token))
        return self._inner.decode(kept, skip_special_tokens=False)

    def unfamiliar(self, text: str) -> float:
        """Fraction of the letters of ``text`` that the vocabulary has no token for, 0 to 1; 0 without letters.

        A letter counts when its UTF-8 bytes are spread over two or more tokens: the training text did not hold it, or
        too rarely to be learned. Letters are the characters of the Unicode categories L*, after normalization. ASCII
        letters are one byte and never count.
        """
        normalized = self._inner.normalizer.normalize_str(_checked(text)) if text else ""
        cuts = {0}
        end = 0
        for token in self.encode(text):
            # In the byte-level alphabet each character of a token's spelling is one byte.
            end += len(self._inner.id_to_token(token) or "")
            cuts.add(end)
        letters = split = start = 0
        for character in normalized:
            stop = start + len(character.encode("utf-8"))
            if character.isalpha():
                letters += 1
                split += any(cut in cuts for cut in range(start + 1, stop))
            start = stop
        return split / letters if letters else 0.0


def _dump(document: dict[str, Any]) -> str:
    return json.dumps(document, ensure_ascii=False, indent=1) + "\n"


def _normalizer(*, lowercase: bool, normalization: Normalization) -> normalizers.Sequence:
    steps: list[normalizers.Normalizer] = []
    if normalization != "none":
        steps.append(_FORMS[normalization]())
    if lowercase:
        steps.append(normalizers.Lowercase())
    return normalizers.Sequence([*steps, normalizers.Prepend(" ")])


def _non_empty(lines: Iterable[str]) -> Iterator[str]:
    """Pass ``lines`` on; a text without a single character raises at its end."""
    found = False
    for line in lines:
        found = found or bool(line)
        yield _checked(line)
    if not found:
        raise DataError("tokenizer: expected text to learn from, found none")


def _checked(text: str) -> str:
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        found = f"U+{ord(text[error.start]):04X} at character {error.start}"
        raise DataError(f"text: expected Unicode characters, found the lone surrogate {found}") from error
    return text
