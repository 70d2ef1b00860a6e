"""The part of a payload that the entropy coder reads: start states of the lanes, then words."""

import numpy as np

from lite_nlp.compress.lnlp.rans import STATE_MIN, RansStream, num_lanes
from lite_nlp.core.errors import ContainerError

__all__ = ["parse_stream"]


def parse_stream(content: memoryview, num_symbols: int) -> RansStream:
    """The stream in the rest of a payload; it has as many lanes as its symbols need.

    Raises:
        ContainerError: If there is no symbol, or the bytes are no states and words.
    """
    lanes = num_lanes(num_symbols)
    if not lanes or len(content) < 4 * lanes or len(content) % 2:
        raise ContainerError(
            f"expected {4 * lanes} bytes of states for {num_symbols} weights and 16-bit words, found {len(content)}"
        )
    states = np.frombuffer(content, dtype="<u4", count=lanes)
    if np.any(states < STATE_MIN):
        raise ContainerError(f"states: expected at least {STATE_MIN}, found {int(states.min())}")
    return RansStream(num_symbols=num_symbols, states=states, words=np.frombuffer(content[4 * lanes :], dtype="<u2"))
