"""The sentences, or pairs of them, that a bundle is measured on. Imports no torch."""

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final

from lite_nlp.core.errors import DataError

if TYPE_CHECKING:
    from lite_nlp.export.runtime import Bundle

__all__ = ["NUM_SENTENCES", "read_examples"]

#: Everyday sentences that are measured by default: enough for a p90, few enough for a minute.
NUM_SENTENCES: Final = 32


def read_examples(bundle: "Bundle", lines: Sequence[str] | None, *, name: str = "") -> list[list[list[int]]]:
    """Of each example the token ids of its sentences, one, or two for a classifier of pairs.

    Args:
        bundle: Tells how many sentences, and how long.
        lines: With a tab between the sentences of a pair; blank ones are left out. None takes everyday sentences,
            German where the bundle reads that and else English, cut to what it takes, each with the next one where
            pairs are wanted.
        name: Of their file, for messages.

    Raises:
        DataError: If there is no line that is not blank, one has another number of sentences, or a sentence is too long
            for the bundle.
    """
    from lite_nlp.data.tokenizer import Tokenizer
    from lite_nlp.decoding.classify import split_sentences

    classes = bundle.manifest.classes
    sentences = 1 if classes is None else classes.sentences
    tokenizer = Tokenizer.from_json(bundle.tokenizer_json)
    bounds = bundle.manifest.bounds
    # The end mark takes a place, that of a language model's prompt is left to what it adds.
    longest = (bounds.capacity if bundle.manifest.task == "language-modelling" else bounds.source) - 1
    if lines is None:
        languages = bundle.manifest.languages
        everyday = _everyday(None if languages is None else languages.src, sentences)
        return [[tokenizer.encode(sentence)[:longest] for sentence in example] for example in everyday]
    if classes is None:
        examples: Sequence[Sequence[str]] = [(line,) for line in lines]
    else:
        examples = list(chain.from_iterable(split_sentences([lines], sentences=sentences, name=name)))
    found = []
    for number, example in enumerate(examples, start=1):
        if not any(sentence.strip() for sentence in example):
            continue
        rows = [tokenizer.encode(sentence) for sentence in example]
        if max(map(len, rows)) > longest:
            raise DataError(
                f"{name}: line {number}: expected at most {longest} tokens, which the bundle takes "
                f"at once, found {max(map(len, rows))}"
            )
        if any(rows):
            found.append(rows)
    if not found:
        raise DataError(f"{name}: expected at least one line that is not blank, found none")
    return found


def _everyday(language: str | None, sentences: int) -> list[tuple[str, ...]]:
    """Examples of so many sentences each, 1 or 2."""
    from lite_nlp.data.pairs.everyday import read_everyday_sentences

    lines = read_everyday_sentences(language)[:NUM_SENTENCES]
    # The next one of the last is the first.
    return [example[:sentences] for example in zip(lines, lines[1:] + lines[:1], strict=True)]
