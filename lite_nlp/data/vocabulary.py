"""The vocabulary of a data directory: given, or learned in a size that the amount of text allows."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from lite_nlp.core.bounds import MAX_VOCAB_SIZE, check_range
from lite_nlp.core.errors import UsageError
from lite_nlp.data.choices import Normalization
from lite_nlp.data.tokenizer import MIN_VOCAB_SIZE, Tokenizer

__all__ = ["VocabularyOptions", "choose_vocab_size", "train_vocabulary"]

#: The sizes that are chosen, and the characters of training text from which each is.
_SIZES: Final = ((500, 0), (1_000, 50_000), (2_000, 200_000), (4_000, 800_000), (8_000, 3_200_000))


@dataclass(frozen=True, kw_only=True, slots=True)
class VocabularyOptions:
    """The vocabulary of a data directory.

    Attributes:
        vocab_size: Tokens of the vocabulary, which the two languages of pairs share, at least 259: the special tokens
            and one for each byte. None to choose it by the amount of training text.
        lowercase: Whether the tokenizer lowercases.
        normalization: Unicode normalization form of the tokenizer.
        tokenizer: An existing tokenizer to use instead of training one.

    Raises:
        UsageError: If the size is out of range, or ``tokenizer`` does not do to the text what is asked for.
    """

    vocab_size: int | None = None
    lowercase: bool = False
    normalization: Normalization = "none"
    tokenizer: Tokenizer | None = None

    def __post_init__(self) -> None:
        check_range("--vocab-size", self.vocab_size, MIN_VOCAB_SIZE, MAX_VOCAB_SIZE)
        given = self.tokenizer
        if given is not None and self.lowercase and not given.lowercase:
            raise UsageError("--lowercase: expected a tokenizer that lowercases, found one that keeps the case")
        if given is not None and self.normalization not in ("none", given.normalization):
            raise UsageError(
                f"--normalization: expected a tokenizer with {self.normalization}, found one with {given.normalization}"
            )


def choose_vocab_size(characters: int) -> int:
    """The size of a vocabulary for a training text of so many characters.

    It doubles where the text quadruples, since a text of n words has about the square root of n different ones (Heaps'
    law): 500 tokens below 50,000 characters, then 1,000, and 2,000, 4,000 and 8,000 from 200,000, 800,000 and 3.2
    million on. There it ends: in a small model the embeddings of more tokens outweigh the rest.
    """
    return next(size for size, least in reversed(_SIZES) if characters >= least)


def train_vocabulary(
    options: VocabularyOptions, texts: Callable[[str], Iterable[str]], *, say: Callable[[str], None] | None = None
) -> Tokenizer:
    """Learn the vocabulary of a training text.

    Args:
        options: Its size, or None to choose it, and what is done to the text first.
        texts: Gives the text anew for each pass over it, which it is told the name of.
        say: Receiver of remarks on the size.

    Raises:
        DataError: If there is no text.
    """
    size = options.vocab_size
    if size is None:
        characters = _count_characters(texts("vocabulary size"), enough=_SIZES[-1][1])
        size = choose_vocab_size(characters)
        if say is not None:
            least = "at least " if characters >= _SIZES[-1][1] else ""
            say(f"vocabulary: {size:,} tokens for {least}{characters:,} characters of text (else --vocab-size)")
    tokenizer = Tokenizer.train(
        texts("vocabulary"), vocab_size=size, lowercase=options.lowercase, normalization=options.normalization
    )
    if say is not None and tokenizer.vocab_size < size:
        say(f"vocabulary: the text gives {tokenizer.vocab_size:,} tokens of the {size:,} wanted")
    return tokenizer


def _count_characters(texts: Iterable[str], *, enough: int) -> int:
    """Characters of the texts, which are read no further than to ``enough``."""
    count = 0
    for text in texts:
        count += len(text)
        if count >= enough:
            return enough
    return count
