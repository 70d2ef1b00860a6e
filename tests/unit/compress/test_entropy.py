import numpy as np
import pytest

from lite_nlp.compress.lnlp import rans_decoder
from lite_nlp.compress.lnlp.rans import (
    RansStream,
    RansSymbols,
    encode_streams,
    entropy_bits,
    num_lanes,
    quantize_frequencies,
)
from lite_nlp.compress.lnlp.rans_decoder import NamedStream, SymbolTables
from lite_nlp.core.errors import ContainerError


def _symbols(symbols: np.ndarray, size: int, *, carried: int = 0) -> RansSymbols:
    """A sequence with one table, of its own frequencies."""
    scale_bits = max(12, (4 * size - 1).bit_length())
    frequencies = quantize_frequencies(np.bincount(symbols, minlength=size), scale_bits)
    return RansSymbols(places=symbols.astype(np.int64), frequencies=frequencies, scale_bits=scale_bits, carried=carried)


def _decode(streams: list[RansStream], sequences: list[RansSymbols]) -> list[rans_decoder.DecodedStream]:
    """The symbols themselves."""
    named = (
        NamedStream(
            f"t{index}",
            stream,
            SymbolTables(
                scale_bits=sequence.scale_bits,
                frequencies=sequence.frequencies,
                values=np.arange(len(sequence.frequencies), dtype=np.uint16),
            ),
        )
        for index, (stream, sequence) in enumerate(zip(streams, sequences, strict=True))
    )
    return list(rans_decoder.decode_streams(named))


def _round_trip(sequences: list[RansSymbols]) -> None:
    for sequence, found in zip(sequences, _decode(encode_streams(sequences), sequences), strict=True):
        assert np.array_equal(found.values, sequence.places)
        assert found.carried == sequence.carried


def _example(frequencies: list[int], state: int, words: list[int]) -> list[int]:
    stream = RansStream(num_symbols=3, states=np.array([state], np.uint32), words=np.array(words, np.uint16))
    sequence = RansSymbols(places=np.zeros(3, np.int64), frequencies=np.array(frequencies), scale_bits=8)
    return _decode([stream], [sequence])[0].values.tolist()


def test_worked_example_of_the_arithmetic() -> None:
    # P = 8, f = (192, 64), c = (0, 192), one lane, symbols 0 1 0, coded from the last to the first:
    # 65536 -> 65536 / 192 = 341 rest 64  -> 341 * 256 + 64        = 87360
    # 87360 -> 87360 / 64  = 1365 rest 0  -> 1365 * 256 + 0 + 192  = 349632
    # 349632 -> 349632 / 192 = 1821 rest 0 -> 1821 * 256           = 466176; never so large that a word goes out.
    assert _example([192, 64], 466176, []) == [0, 1, 0]


def test_worked_example_with_a_word() -> None:
    # f = (255, 1): each symbol 1 adds 8 bits. 65536 -> 16777471; that is at least 1 << 24, so its low half 0x00FF
    # goes out and 256 is left -> 256 * 256 + 255 = 65791 -> 65791 * 256 + 255 = 16842751.
    assert _example([255, 1], 16842751, [0x00FF]) == [1, 1, 1]


@pytest.mark.parametrize("count", [1, 2, 8191, 8192, 8193, 20000])
@pytest.mark.parametrize("size", [1, 2, 256, 4096])
def test_round_trip(count: int, size: int) -> None:
    rng = np.random.default_rng(count + size)
    symbols = rng.exponential(size / 8, count).astype(np.int64) % size
    _round_trip([_symbols(symbols, size, carried=count)])


def test_lanes_are_as_few_as_the_format_has_them() -> None:
    assert [num_lanes(count) for count in (0, 1, 8192, 8193, 10_000_000)] == [0, 1, 1, 2, 1221]


def _mixed(lengths: tuple[int, ...]) -> list[RansSymbols]:
    rng = np.random.default_rng(0)
    sizes = (3, 9, 200, 17, 256)
    return [
        _symbols(rng.integers(0, size, count), size, carried=carried)
        for count, size, carried in zip(lengths, sizes * 9, (0, 65_535, 1, 0, 7) * 9, strict=False)
    ]


def test_many_streams_of_different_lengths_at_once() -> None:
    _round_trip(_mixed((5000, 1, 123, 9000, 5000, 30_000, 8192, 16_384)))


def test_groups_and_blocks_of_any_size_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lite_nlp.compress.lnlp.rans.SYMBOLS_PER_LANE", 64)
    sequences = _mixed((1, 700, 3, 5000, 2, 64, 65, 4999, 1))
    for slots, lanes, block in ((1, 1, 1), (1 << 13, 4, 7), (1 << 20, 3, 1 << 20), (1 << 20, 1 << 16, 50)):
        monkeypatch.setattr(rans_decoder, "_GROUP_SLOTS", slots)
        monkeypatch.setattr(rans_decoder, "_GROUP_LANES", lanes)
        monkeypatch.setattr(rans_decoder, "_BLOCK_SYMBOLS", block)
        _round_trip(sequences)


def test_symbols_with_tables_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    chosen = rng.integers(0, 3, 30_000).astype(np.uint8)
    counts = np.array([[90, 9, 1, 0], [1, 9, 90, 0], [25, 25, 25, 25]])
    frequencies = np.stack([quantize_frequencies(row, 10) for row in counts])
    symbols = np.array([rng.choice(4, p=counts[table] / counts[table].sum()) for table in chosen[:3000]] * 10)
    chosen = np.tile(chosen[:3000], 10)
    (stream,) = encode_streams(
        [RansSymbols(places=symbols + 4 * chosen, frequencies=frequencies.reshape(-1), scale_bits=10)]
    )
    tables = SymbolTables(
        scale_bits=10,
        frequencies=frequencies.reshape(-1),
        values=np.tile(np.arange(4), 3),
        choose=lambda start, count: chosen[start : start + count],
    )
    for block in (1 << 20, 100, 1):
        monkeypatch.setattr(rans_decoder, "_BLOCK_SYMBOLS", block)
        (found,) = rans_decoder.decode_streams([NamedStream("w", stream, tables)])
        assert np.array_equal(found.values, symbols)
    ideal = sum(entropy_bits(np.bincount(symbols[chosen == table])) for table in range(3))
    assert 8 * len(stream.to_bytes()) < 1.01 * ideal + 32 * 4


def test_no_streams() -> None:
    assert encode_streams([]) == []
    assert _decode([], []) == []


def test_cost_is_near_the_entropy() -> None:
    rng = np.random.default_rng(1)
    symbols = np.where(rng.random(200_000) < 0.6, 0, rng.normal(128, 30, 200_000).clip(1, 255)).astype(np.int64)
    (stream,) = encode_streams([_symbols(symbols, 256)])
    ideal = entropy_bits(np.bincount(symbols, minlength=256))
    assert ideal < 8 * len(stream.to_bytes()) < 1.01 * ideal


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


def _defects() -> dict[str, tuple[RansStream, RansSymbols]]:
    sequence = _symbols(np.random.default_rng(2).integers(0, 16, 20_000), 16)
    (good,) = encode_streams([sequence])

    def with_words(words: np.ndarray) -> RansStream:
        return RansStream(num_symbols=20_000, states=good.states, words=words)

    # One symbol, which costs nothing: the state that comes in is the state that goes out.
    still = _symbols(np.zeros(20_000, dtype=np.int64), 1)
    states = [np.full(3, 1 << 16, np.uint32) + np.array(change, np.uint32) for change in ([0, 0, 1], [1 << 16, 0, 0])]
    nothing = np.zeros(0, np.uint16)
    return {
        "expected more words than there are": (with_words(good.words[:-1]), sequence),
        "expected the words to end with the last index, found 1 more": (
            with_words(np.append(good.words, np.uint16(5))),
            sequence,
        ),
        "expected every lane to end in its start state": (
            RansStream(num_symbols=20_000, states=states[0], words=nothing),
            still,
        ),
        "expected every lane to end in its start state, found": (
            RansStream(num_symbols=20_000, states=states[1], words=nothing),
            still,
        ),
    }


def test_a_stream_alone_without_words_is_refused() -> None:
    sequence = _symbols(np.random.default_rng(2).integers(0, 16, 20_000), 16)
    (good,) = encode_streams([sequence])
    empty = RansStream(num_symbols=20_000, states=good.states, words=np.zeros(0, np.uint16))
    with pytest.raises(ContainerError, match=r"^tensor 't0': expected more words than there are"):
        _decode([empty], [sequence])


@pytest.mark.parametrize("place", [0, 1, 2])
def test_each_defect_of_a_stream_names_its_tensor(place: int) -> None:
    sequence = _symbols(np.random.default_rng(3).integers(0, 16, 20_000), 16)
    (good,) = encode_streams([sequence])
    for message, (damaged, other) in _defects().items():
        streams, sequences = [good, good], [sequence, sequence]
        streams.insert(place, damaged)
        sequences.insert(place, other)
        with pytest.raises(ContainerError, match=f"^tensor 't{place}': {message}"):
            _decode(streams, sequences)
