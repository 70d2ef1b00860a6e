import itertools
import random

import pytest

from lite_nlp.core.errors import DataError
from lite_nlp.data.holdout import EveryNth, HoldOut, LastLines, Shares, hold_out
from lite_nlp.data.keys import sentence_key


def corpus(seed, rows=600, distinct=250):
    rng = random.Random(seed)
    words = [f"word{i}" for i in range(distinct)]
    return [(rng.choice(words), rng.choice(words).upper()) for _ in range(rows)]


def divide(rule, pairs):
    assignment = rule.fit(iter(pairs))
    splits = {"train": [], "valid": [], "test": [], None: []}
    for index, pair in enumerate(pairs):
        splits[assignment.split_of(index, *pair)].append(pair)
    return splits


def test_key_ignores_case_spaces_and_punctuation():
    assert sentence_key("Don't go!") == sentence_key("dont GO")
    assert sentence_key("Straße") == sentence_key("STRASSE")
    assert sentence_key("one") != sentence_key("two")
    assert sentence_key("!?") != sentence_key("...")


@pytest.mark.parametrize("seed", range(5))
def test_no_sentence_of_one_split_is_in_another(seed):
    pairs = corpus(seed)
    splits = divide(HoldOut(valid_pairs=20, test_pairs=15), pairs)
    assert (len(splits["valid"]), len(splits["test"])) == (20, 15)
    assert sum(map(len, splits.values())) == len(pairs)
    for side in (0, 1):
        keys = [{sentence_key(pair[side]) for pair in splits[name]} for name in ("train", "valid", "test")]
        assert not keys[0] & keys[1]
        assert not keys[0] & keys[2]
        assert not keys[1] & keys[2]
    assert splits["train"]


def test_choice_does_not_depend_on_the_order_of_the_sentences():
    pairs = [(f"source {i}", f"target {i}") for i in range(300)]
    shuffled = random.Random(1).sample(pairs, len(pairs))
    rule = HoldOut(valid_pairs=10, test_pairs=10)
    assert sorted(divide(rule, pairs)["valid"]) == sorted(divide(rule, shuffled)["valid"])


def test_default_is_a_twentieth_at_most_two_thousand():
    for rows, expected in ((300, 15), (40, 2), (10, 1), (41_000, 2000)):
        splits = divide(HoldOut(), [(f"source {i}", f"target {i}") for i in range(rows)])
        assert (len(splits["valid"]), len(splits["test"])) == (expected, expected)


def test_zero_pairs_take_out_no_split():
    assert HoldOut(valid_pairs=0, test_pairs=5).splits == ("test",)
    assert HoldOut(valid_pairs=0, test_pairs=0).splits == ()
    splits = divide(HoldOut(valid_pairs=0, test_pairs=5), [(f"s {i}", f"t {i}") for i in range(50)])
    assert (len(splits["train"]), len(splits["valid"]), len(splits["test"])) == (45, 0, 5)


@pytest.mark.parametrize("rows", [1, 2])
def test_too_small_a_corpus_is_refused(rows):
    with pytest.raises(DataError, match=f"expected more than 2 pairs, .* found {rows}"):
        divide(HoldOut(), [(f"s {i}", f"t {i}") for i in range(rows)])


def test_repeated_sentences_do_not_count_twice():
    with pytest.raises(DataError, match=r"expected at least 10 pairs .* found 1:"):
        divide(HoldOut(valid_pairs=5, test_pairs=5), [("same", "gleich")] * 100)


def test_too_few_different_targets_are_told():
    message = "expected at least 10 pairs of which no two have a sentence in common, .* found 7: hold out fewer"
    with pytest.raises(DataError, match=message):
        divide(HoldOut(), [(f"order {i}", f"command {i % 7}") for i in range(100)])


@pytest.mark.parametrize("side", [0, 1])
def test_a_frequent_sentence_stays_in_training(side):
    rare = [(f"source {i}", f"target {i}") for i in range(287)]
    frequent = [(f"order {i}", "Ja.") for i in range(713)]
    pairs = random.Random(2).sample([*rare, *(pair if side else pair[::-1] for pair in frequent)], 1000)
    # The same rule finds as many as there are, without the frequent sentence and with it.
    splits = divide(HoldOut(valid_pairs=50, test_pairs=50), pairs)
    assert len(splits["train"]) == 900
    splits = divide(HoldOut(valid_pairs=144, test_pairs=144), pairs)
    assert (len(splits["valid"]), len(splits["test"]), len(splits["train"])) == (144, 144, 0)


def test_the_hash_decides_where_sentences_stand_in_few_pairs():
    # Half of the pairs are of sentences that stand twice: their share of the held-out pairs is that of the sentences.
    pairs = [(f"twice {i // 2}", f"twice {i // 2}") for i in range(1000)] + [
        (f"once {i}", f"once {i}") for i in range(1000)
    ]
    splits = divide(HoldOut(), pairs)
    assert (len(splits["valid"]), len(splits["test"])) == (100, 100)
    twice = sum(src.startswith("twice") for name in ("valid", "test") for src, _ in splits[name])
    # 200 draws of a third: four times their standard deviation.
    assert twice == pytest.approx(200 / 3, abs=4 * (200 * 2 / 9) ** 0.5)
    assert len(splits[None]) == twice


def test_pairs_are_found_in_any_order():
    keys = sorted(["one", "two"], key=sentence_key)
    pairs = [(keys[0], "x"), (keys[1], "x"), (keys[1], "y")]
    for order in itertools.permutations(pairs):
        splits = divide(HoldOut(valid_pairs=1, test_pairs=1), order)
        assert sorted([*splits["valid"], *splits["test"]]) == sorted([(keys[0], "x"), (keys[1], "y")])


def test_held_out_pairs_with_repeated_sources_leave_as_much_as_they_can():
    # As where each premise stands in three pairs: whatever is held out takes two others with it.
    pairs = [(f"premise {i // 3}", f"hypothesis {i}") for i in range(3000)]
    splits = divide(HoldOut(), pairs)
    assert (len(splits["valid"]), len(splits["test"]), len(splits["train"])) == (150, 150, 2100)


def test_every_nth_pair_validates():
    splits = divide(EveryNth(4), [(f"s {i}", f"t {i}") for i in range(1, 10)])
    assert [src for src, _ in splits["valid"]] == ["s 4", "s 8"]
    assert len(splits["train"]) == 7
    assert EveryNth(4).splits == ("valid",)


def test_shares_are_about_as_large_as_asked_and_disjoint():
    pairs = [(f"sentence {i}", "x") for i in range(20_000)] * 2
    splits = divide(Shares(valid_percent=1, test_percent=90), pairs)
    # Half of the rows are repetitions: 20,000 draws, of which a share p differs by sqrt(p (1 - p) / 20,000).
    for name, share in (("valid", 0.01), ("test", 0.9), ("train", 0.09)):
        assert len(splits[name]) / len(pairs) == pytest.approx(share, abs=5 * (share * (1 - share) / 20_000) ** 0.5)
    texts = {name: {src for src, _ in splits[name]} for name in ("train", "valid", "test")}
    assert sum(map(len, texts.values())) == 20_000
    assert Shares(valid_percent=1, test_percent=90).splits == ("valid", "test")


@pytest.mark.parametrize(
    ("valid", "test", "given", "expected"),
    [
        (None, None, False, HoldOut()),
        (None, None, True, None),
        (3, None, True, HoldOut(valid_pairs=3, test_pairs=0)),
        (3, None, False, HoldOut(valid_pairs=3)),
        (0, 0, False, None),
    ],
)
def test_a_corpus_with_a_split_of_its_own_gives_none_away_unasked(valid, test, given, expected):
    assert hold_out(valid, test, given=given) == expected


def test_the_last_lines_are_two_ranges_of_a_twentieth():
    rule = LastLines().fit((f"line {number}", f"line {number}") for number in range(59))
    splits = [rule.split_of(number, "", "") for number in range(59)]
    assert splits == ["train"] * 55 + ["valid"] * 2 + ["test"] * 2
    with pytest.raises(DataError, match="expected at least 20 lines"):
        LastLines().fit((str(number), "") for number in range(19))
