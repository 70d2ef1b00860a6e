"""The vectorised coder against the slow one, symbol for symbol and word for word."""

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from lite_nlp.compress.lnlp.rans import encode_streams
from lite_nlp.compress.lnlp.rans_decoder import NamedStream, decode_streams


def _load_slow() -> ModuleType:
    spec = importlib.util.spec_from_file_location("slow_rans", Path(__file__).with_name("slow_rans.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


slow = _load_slow()


def _symbols(seed: int, count: int, size: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    skewed = rng.geometric(0.2, count) % size
    return np.where(rng.random(count) < 0.4, 0, skewed).astype(np.uint16)


@pytest.mark.parametrize("symbols_per_lane", [1, 7, 64, 4096])
@pytest.mark.parametrize("scale_bits", [8, 12, 15])
def test_words_and_states_equal_the_slow_encoder(symbols_per_lane: int, scale_bits: int) -> None:
    symbols = _symbols(3, 500, 40)
    (stream,) = encode_streams([(symbols, 40)], scale_bits=scale_bits, symbols_per_lane=symbols_per_lane)
    lanes = len(stream.states)
    padding = stream.rows * lanes - len(symbols)
    padded = [*symbols.tolist(), *[int(np.argmax(stream.frequencies))] * padding]
    states, words = slow.encode(padded, stream.frequencies.tolist(), stream.scale_bits, lanes)
    assert stream.states.tolist() == states
    assert stream.words.tolist() == words


def test_slow_decoder_reads_what_the_encoder_wrote() -> None:
    sequences = [(_symbols(seed, count, 256), 256) for seed, count in ((1, 1), (2, 37), (3, 3000), (4, 999))]
    streams = encode_streams(sequences, symbols_per_lane=100)
    decoded = decode_streams(NamedStream("w", stream, np.arange(256, dtype=np.uint16)) for stream in streams)
    for (symbols, _), stream, fast in zip(sequences, streams, decoded, strict=True):
        expected = slow.decode(
            stream.states.tolist(),
            stream.words.tolist(),
            stream.frequencies.tolist(),
            stream.scale_bits,
            stream.num_symbols,
        )
        assert expected == symbols.tolist()
        assert fast.tolist() == symbols.tolist()
