"""What of one split stands in another, against a slow account by sets of texts."""

import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lite_nlp.core.errors import DataError
from lite_nlp.core.progress import SilentProgress
from lite_nlp.data.comparison import compare_splits
from lite_nlp.data.holdout import EveryNth, HoldOut, LastLines, Shares
from lite_nlp.data.keys import folded_letters, sentence_key
from lite_nlp.data.labelled.prepare import _LabelledFormat
from lite_nlp.data.labelled.readers import Example
from lite_nlp.data.overlap import Search, make_keys, place_of, read_place
from lite_nlp.data.pairs.prepare import _PairFormat
from lite_nlp.data.passes import CorpusPasses
from lite_nlp.data.sources import Corpus
from lite_nlp.data.text.prepare import MIN_COMPARED_LETTERS, _TextFormat

PAIRS = _PairFormat(languages=("en", "de"), task="translation")

#: Sentences some of which are others but for case, punctuation, spacing or the form of a character.
SENTENCES = (
    "Yes.",
    "yes",
    "YES !",
    "No",
    "no",
    "?!",
    "?",
    "one two",
    "One  Two",
    "onetwo",
    "é",
    "e\u0301",
    "E\u0301!",
    "CO₂",
    "co2",
)


class Given:
    """A source of items in memory, of which every second line is bad."""

    def __init__(self, name, items):
        self.name = self.file = name
        self._items = items

    def read(self, on_bad):
        del on_bad
        yield from ((2 * number, item) for number, item in enumerate(self._items, start=1))


def passes_over(form, rule=None, **splits):
    sources = {
        name: [Given(f"{name}{number}", items) for number, items in enumerate(parts)] for name, parts in splits.items()
    }
    return CorpusPasses(Corpus(splits=sources, rule=rule), form, SilentProgress())


def plain(text):
    """A text but for case, punctuation and spacing, in the words of the documentation."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return "".join(c for c in folded if c.isalnum() or unicodedata.category(c)[0] == "M") or folded


def nearly(item):
    return tuple(map(plain, item))


def count_slowly(items, others):
    """Items by the closest way in which they are the same as one of the others."""
    counts = dict.fromkeys(("exact", "near", "source", "target"), 0)
    for item in items:
        if item in others:
            counts["exact"] += 1
        elif nearly(item) in set(map(nearly, others)):
            counts["near"] += 1
        elif len(item) == 2 and item[0] in {other[0] for other in others}:
            counts["source"] += 1
        elif len(item) == 2 and item[1] in {other[1] for other in others}:
            counts["target"] += 1
    return counts


def counts_of(overlap):
    return overlap.model_dump(include={"exact", "near", "source", "target"})


sentences = st.one_of(st.sampled_from(SENTENCES), st.text(max_size=3))
pairs = st.lists(st.tuples(sentences, sentences), min_size=1, max_size=25)


@given(pairs, pairs, pairs, st.booleans())
@settings(deadline=None)
def test_the_counts_are_those_of_sets_and_nothing_else_is_dropped(train, valid, test, drop):
    held = {nearly(pair) for pair in valid + test}
    remaining = [pair for pair in train if nearly(pair) not in held] if drop else train
    passes = passes_over(PAIRS, train=[train[:9], train[9:]], valid=[valid], test=[test])
    if not remaining:
        with pytest.raises(DataError, match=f"--drop-overlap leaves all {len(train)} out"):
            compare_splits(passes, drop=True)
        return
    facts = compare_splits(passes, drop=drop)
    exact = sum(pair in valid + test for pair in train)
    assert facts["train"].overlapping == exact
    assert facts["train"].near_duplicates == sum(nearly(pair) in held for pair in train) - exact
    assert facts["train"].dropped == len(train) - len(remaining)
    assert list(passes.split("train", "again")) == remaining
    for name, items in (("valid", valid), ("test", test)):
        overlap = facts[name].overlaps["train"]
        assert counts_of(overlap) == count_slowly(items, remaining)
        assert (facts[name].overlapping, facts[name].near_duplicates) == (overlap.exact, overlap.near)
        assert overlap.compared == len(items)
    assert counts_of(facts["valid"].overlaps["test"]) == count_slowly(valid, test)
    if drop:
        again = compare_splits(passes_over(PAIRS, train=[remaining], valid=[valid], test=[test]), drop=True)
        assert (again["train"].overlapping, again["train"].near_duplicates, again["train"].dropped) == (0, 0, 0)


@given(pairs, pairs)
@settings(deadline=None)
def test_examples_are_the_first_of_each_kind_by_file_and_line(train, test):
    parts = [train[:5], train[5:]] if len(train) > 5 else [train]
    examples = (
        compare_splits(passes_over(PAIRS, train=parts, test=[test]), drop=False)["test"].overlaps["train"].examples
    )
    counts = count_slowly(test, train)
    listed = [example.kind for example in examples]
    assert {kind: listed.count(kind) for kind in counts} == {kind: min(3, count) for kind, count in counts.items()}
    same = {
        "exact": lambda pair, other: pair == other,
        "near": lambda pair, other: nearly(pair) == nearly(other),
        "source": lambda pair, other: pair[0] == other[0],
        "target": lambda pair, other: pair[1] == other[1],
    }
    for example in examples:
        pair = test[example.line // 2 - 1]
        number = 5 * int(example.other_file.removeprefix("train")) + example.other_line // 2 - 1
        assert same[example.kind](pair, train[number])
        assert not any(same[example.kind](pair, other) for other in train[:number])
        assert example.places == (f"test0:{example.line}", f"{example.other_file}:{example.other_line}")
    lines = [(example.line) for example in examples]
    assert lines == sorted(set(lines))


@given(pairs)
@settings(deadline=None)
def test_what_the_rule_excludes_is_counted_as_left_out(everything):
    try:
        passes = passes_over(PAIRS, HoldOut(valid_pairs=2, test_pairs=1), train=[everything])
    except DataError:
        return
    try:
        facts = compare_splits(passes, drop=False)
    except DataError:
        return
    train, valid, test = (list(passes.split(name, name)) for name in ("train", "valid", "test"))
    assert (len(valid), len(test)) == (2, 1)
    assert facts["train"].dropped == facts["train"].overlapping == len(everything) - len(train) - 3
    for side in (0, 1):
        assert {plain(pair[side]) for pair in train}.isdisjoint(plain(pair[side]) for pair in valid + test)
    for name in ("valid", "test"):
        assert counts_of(facts[name].overlaps["train"]) == dict.fromkeys(("exact", "near", "source", "target"), 0)


@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("rule", [EveryNth(3), Shares(valid_percent=30, test_percent=20), LastLines()], ids=repr)
def test_splits_taken_by_number_or_share_are_compared_too(rule, drop):
    rng = np.random.default_rng(5)
    everything = [(f"word {a}", f"Wort {b}") for a, b in rng.integers(0, 6, (200, 2))]
    passes = passes_over(PAIRS, rule, train=[everything])
    before = {name: list(passes.split(name, name)) for name in passes.split_names}
    facts = compare_splits(passes, drop=drop)
    train = list(passes.split("train", "again"))
    held = [pair for name, items in before.items() if name != "train" for pair in items]
    assert train == [pair for pair in before["train"] if not drop or pair not in held]
    for name, items in before.items():
        if name != "train":
            assert counts_of(facts[name].overlaps["train"]) == count_slowly(items, train)
            assert list(passes.split(name, name)) == items


def test_a_test_set_beside_a_rule_is_compared_with_what_the_rule_leaves():
    everything = [(f"source {i}", f"target {i}") for i in range(60)]
    passes = passes_over(PAIRS, HoldOut(valid_pairs=5, test_pairs=0), train=[everything], test=[everything[:20]])
    facts = compare_splits(passes, drop=True)
    valid, train = list(passes.split("valid", "")), list(passes.split("train", ""))
    assert counts_of(facts["valid"].overlaps["test"])["exact"] == sum(pair in everything[:20] for pair in valid)
    assert train == [pair for pair in everything[20:] if pair not in valid]


def test_labelled_sentences_are_the_same_whatever_the_label():
    train = [Example("red", "One."), Example("red", "Two."), Example("blue", "Three.")]
    test = [Example("blue", "One."), Example("red", "two"), Example("red", "four"), Example("green", "Three.")]
    form = _LabelledFormat(1)
    passes = passes_over(form, train=[train], test=[test])
    form.survey(train)
    facts = compare_splits(passes, drop=True)
    # The last has a label that no training example has, so it is in no split, and nothing is left out for it.
    assert (facts["train"].overlapping, facts["train"].near_duplicates) == (1, 1)
    assert facts["test"].overlaps["train"].compared == 3
    assert list(passes.split("train", "")) == train[2:]


def test_lines_of_text_count_from_a_length_on():
    long, short = "It was the best of times, ", "Chapter 5"
    passes = passes_over(_TextFormat(), train=[[long, short, "", "x"]], test=[[long.upper(), short, ""]])
    overlap = compare_splits(passes, drop=False)["test"].overlaps["train"]
    assert (overlap.compared, overlap.exact, overlap.near) == (1, 0, 1)
    assert len(folded_letters(short)) < MIN_COMPARED_LETTERS <= len(folded_letters(long))


def test_a_corpus_of_one_split_is_not_read():
    class Unread(Given):
        def read(self, on_bad):
            raise AssertionError

    corpus = Corpus(splits={"train": [Unread("train", [])]})
    facts = compare_splits(CorpusPasses(corpus, PAIRS, SilentProgress()), drop=False)
    assert facts["train"].overlaps == {}


@given(st.text(max_size=30))
def test_a_key_is_that_of_the_letters(text):
    assert folded_letters(text).decode() == plain(text)
    assert (sentence_key(text) == sentence_key(text.lower())) or text.casefold() != text.lower().casefold()


@given(st.integers(0, 1 << 20), st.integers(1, (1 << 40) - 1))
def test_a_place_is_read_back(source, line):
    assert read_place(place_of(source, line)) == (source, line)
    assert place_of(source, line) < place_of(source + 1, 1)


def test_swapped_sides_are_another_pair():
    search = Search(make_keys([(1, ("a", "b"))]))
    search.look_among(make_keys([(1, ("b", "a"))]))
    assert search.found()[0].tolist() == [-1]
    search.look_among(make_keys([(2, ("a", "c")), (3, ("A!", "b")), (4, ("c", "a"))]))
    assert [part.tolist() for part in search.found()] == [[1], [3]]
