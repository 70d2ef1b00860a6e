from dataclasses import replace

import numpy as np
import pytest

from lite_nlp.compress.lnlp import rans_decoder
from lite_nlp.compress.lnlp.limits import MAX_SYMBOLS_PER_LANE
from lite_nlp.compress.lnlp.rans import RansStream, encode_streams, entropy_bits, quantize_frequencies
from lite_nlp.core.errors import ContainerError


def decode_streams(streams: list[RansStream]) -> list[np.ndarray]:
    """The symbols themselves."""
    named = (
        rans_decoder.NamedStream(f"t{index}", stream, np.arange(len(stream.frequencies), dtype=np.uint16))
        for index, stream in enumerate(streams)
    )
    return list(rans_decoder.decode_streams(named))


def test_worked_example_of_the_arithmetic() -> None:
    # P = 8, f = (192, 64), c = (0, 192), one lane, symbols 0 1 0, coded from the last to the first:
    # 65536 -> 65536 / 192 = 341 rest 64  -> 341 * 256 + 64        = 87360
    # 87360 -> 87360 / 64  = 1365 rest 0  -> 1365 * 256 + 0 + 192  = 349632
    # 349632 -> 349632 / 192 = 1821 rest 0 -> 1821 * 256           = 466176; never so large that a word goes out.
    stream = RansStream(
        num_symbols=3,
        scale_bits=8,
        frequencies=np.array([192, 64]),
        states=np.array([466176], dtype=np.uint32),
        words=np.empty(0, dtype=np.uint16),
    )
    assert decode_streams([stream])[0].tolist() == [0, 1, 0]


def test_worked_example_with_a_word() -> None:
    # f = (255, 1): each symbol 1 adds 8 bits. 65536 -> 16777471; that is at least 1 << 24, so its low half 0x00FF
    # goes out and 256 is left -> 256 * 256 + 255 = 65791 -> 65791 * 256 + 255 = 16842751.
    stream = RansStream(
        num_symbols=3,
        scale_bits=8,
        frequencies=np.array([255, 1]),
        states=np.array([16842751], dtype=np.uint32),
        words=np.array([0x00FF], dtype=np.uint16),
    )
    assert decode_streams([stream])[0].tolist() == [1, 1, 1]


@pytest.mark.parametrize("count", [1, 2, 4095, 4096, 4097, 20000])
@pytest.mark.parametrize("size", [1, 2, 256, 4096])
def test_round_trip(count: int, size: int) -> None:
    rng = np.random.default_rng(count + size)
    symbols = (rng.exponential(size / 8, count).astype(np.int64) % size).astype(np.uint16)
    (stream,) = encode_streams([(symbols, size)])
    assert np.array_equal(decode_streams([stream])[0], symbols)


def test_many_streams_of_different_lengths_at_once() -> None:
    rng = np.random.default_rng(0)
    sequences = [
        (rng.integers(0, size, count).astype(np.uint16), size)
        for count, size in ((5000, 3), (1, 9), (123, 200), (9000, 17), (5000, 256))
    ]
    decoded = decode_streams(encode_streams(sequences, symbols_per_lane=500))
    for (symbols, _), found in zip(sequences, decoded, strict=True):
        assert np.array_equal(found, symbols)


def test_groups_and_blocks_of_any_size_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    lengths = (1, 700, 3, 5000, 2, 64, 65, 4999, 1)
    sequences = [(rng.integers(0, 9, count).astype(np.uint16), 9) for count in lengths]
    for slots, lanes, block in ((1, 1, 1), (1 << 13, 4, 7), (1 << 20, 3, 1 << 20), (1 << 20, 1 << 16, 50)):
        monkeypatch.setattr(rans_decoder, "_GROUP_SLOTS", slots)
        monkeypatch.setattr(rans_decoder, "_GROUP_LANES", lanes)
        monkeypatch.setattr(rans_decoder, "_BLOCK_SYMBOLS", block)
        decoded = decode_streams(encode_streams(sequences, symbols_per_lane=64))
        for (symbols, _), found in zip(sequences, decoded, strict=True):
            assert np.array_equal(found, symbols)


def test_padding_is_the_most_frequent_symbol() -> None:
    # Seven symbols in four lanes, so that one of the eight is padding: 0 is as frequent as 1, and comes first.
    for padding, accepted in ((0, True), (1, False), (2, False)):
        (stream,) = encode_streams([(np.array([0, 1, 2, 0, 1, 2, 0, padding], dtype=np.uint16), 3)], symbols_per_lane=2)
        shorter = replace(stream, num_symbols=7)
        if accepted:
            assert decode_streams([shorter])[0].tolist() == [0, 1, 2, 0, 1, 2, 0]
        else:
            with pytest.raises(ContainerError, match="padding"):
                decode_streams([shorter])


def test_no_streams() -> None:
    assert decode_streams([]) == []


def test_cost_is_near_the_entropy() -> None:
    rng = np.random.default_rng(1)
    symbols = np.where(rng.random(200_000) < 0.6, 0, rng.normal(128, 30, 200_000).clip(1, 255)).astype(np.uint16)
    (stream,) = encode_streams([(symbols, 256)])
    bits = 32 * len(stream.states) + 16 * len(stream.words)
    ideal = entropy_bits(np.bincount(symbols, minlength=256))
    assert ideal < bits < 1.02 * ideal


def test_entropy_of_known_distributions() -> None:
    assert entropy_bits(np.array([8, 8])) == 16
    assert entropy_bits(np.array([4, 2, 2])) == 12
    assert entropy_bits(np.array([7, 0])) == 0
    assert entropy_bits(np.array([0, 0])) == 0


@pytest.mark.parametrize("scale_bits", [8, 12])
def test_frequencies_sum_to_the_scale_and_keep_rare_symbols(scale_bits: int) -> None:
    counts = np.array([1_000_000, 0, 1, 1, 1, 70_000] + [1] * 200)
    frequencies = quantize_frequencies(counts, scale_bits)
    assert frequencies.sum() == 1 << scale_bits
    assert np.array_equal(frequencies > 0, counts > 0)


def test_frequencies_of_even_counts_are_even() -> None:
    assert quantize_frequencies(np.array([5, 5, 5, 5]), 8).tolist() == [64, 64, 64, 64]


@pytest.mark.parametrize("counts", [np.zeros(3, dtype=np.int64), np.ones(257, dtype=np.int64)])
def test_impossible_frequencies_are_refused(counts: np.ndarray) -> None:
    with pytest.raises(ValueError, match="expected 1 to 256 symbols"):
        quantize_frequencies(counts, 8)


def _stream(**changes: object) -> RansStream:
    symbols = np.random.default_rng(2).integers(0, 16, 4000).astype(np.uint16)
    (stream,) = encode_streams([(symbols, 16)], symbols_per_lane=1000)
    fields = {name: getattr(stream, name) for name in ("num_symbols", "scale_bits", "frequencies", "states", "words")}
    return RansStream(**{**fields, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_each_defect_of_a_stream_names_its_tensor(place: int) -> None:
    good = _stream()
    defects = {
        "expected more words than there are": _stream(words=good.words[:-1]),
        "expected the words to end with the last index, found 1 more": _stream(
            words=np.append(good.words, np.uint16(5))
        ),
    }
    # Its last row holds a symbol more than counts, and not the most frequent one.
    (longer,) = encode_streams([(np.repeat(np.arange(3, dtype=np.uint16), (40, 10, 2)), 3)], symbols_per_lane=13)
    defects["expected the most frequent index as padding"] = replace(longer, num_symbols=51)
    for message, damaged in defects.items():
        streams = [good, good]
        streams.insert(place, damaged)
        with pytest.raises(ContainerError, match=f"^tensor 't{place}': {message}"):
            decode_streams(streams)


def test_another_start_state_is_noticed() -> None:
    # One symbol, which costs nothing: the state that comes in is the state that goes out.
    (stream,) = encode_streams([(np.zeros(6, dtype=np.uint16), 1)], symbols_per_lane=2)
    states = stream.states + np.array([0, 0, 1], dtype=np.uint32)
    with pytest.raises(ContainerError, match="tensor 't1': expected every lane to end in its start state"):
        decode_streams([stream, replace(stream, states=states)])


def test_lanes_stay_within_the_bound_of_the_format() -> None:
    (stream,) = encode_streams([(np.zeros(10 * MAX_SYMBOLS_PER_LANE, dtype=np.uint16), 1)], symbols_per_lane=10**9)
    assert len(stream.states) == 10
