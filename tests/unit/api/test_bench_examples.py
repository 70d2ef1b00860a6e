"""The sentences that a bundle is measured on."""

from pathlib import Path

import pytest

from lite_nlp.api.bench_examples import read_examples
from lite_nlp.core.errors import DataError
from lite_nlp.data.pairs.everyday import read_everyday_pairs
from lite_nlp.export.runtime import Bundle, open_bundle
from lite_nlp.export.runtime.manifest import Languages
from tests.integration.small_bundle import BOUNDS, TOKENIZER, write_small_bundle

#: Tokens that the bundle takes beside the end mark.
LONGEST = BOUNDS.source - 1


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    """One that takes fewer tokens than most everyday sentences have."""
    return open_bundle(write_small_bundle(tmp_path / "small.zip", {}))


def test_everyday_sentences_are_cut_to_what_the_bundle_takes(bundle: Bundle) -> None:
    sentences = [TOKENIZER.encode(english) for english, _ in read_everyday_pairs()[:32]]
    assert max(map(len, sentences)) > LONGEST
    assert read_examples(bundle, None) == [[tokens[:LONGEST]] for tokens in sentences]


@pytest.mark.parametrize(("source", "side"), [("en", 0), ("de", 1), ("de-AT", 1), ("DEU", 1), ("fr", 0), ("src", 0)])
def test_everyday_sentences_are_in_the_language_that_the_bundle_reads(bundle: Bundle, source: str, side: int) -> None:
    bundle.manifest = bundle.manifest.model_copy(update={"languages": Languages(src=source, tgt="en")})
    expected = [[TOKENIZER.encode(pair[side])[:LONGEST]] for pair in read_everyday_pairs()[:32]]
    assert read_examples(bundle, None) == expected


def test_a_line_of_a_file_that_is_too_long_is_an_error(bundle: Bundle) -> None:
    lines = ["a few words", "a few words " * 9]
    with pytest.raises(DataError, match=rf"lines.txt: line 2: expected at most {LONGEST} tokens, .*, found"):
        read_examples(bundle, lines, name="lines.txt")
