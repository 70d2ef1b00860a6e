"""The rANS coder of compress/FORMAT.md as it is written there: one symbol at a time, plain integers."""


def encode(symbols: list[int], frequencies: list[int], scale_bits: int, lanes: int) -> tuple[list[int], list[int]]:
    """Start states and words of a decoder; ``symbols`` must fill whole rows of lanes."""
    cumulative = [sum(frequencies[:symbol]) for symbol in range(len(frequencies))]
    states = [1 << 16] * lanes
    words: list[int] = []
    for place in range(len(symbols) - 1, -1, -1):
        lane, symbol = place % lanes, symbols[place]
        x, f = states[lane], frequencies[symbol]
        if x >= f << (32 - scale_bits):
            words.insert(0, x & 0xFFFF)
            x >>= 16
        states[lane] = ((x // f) << scale_bits) + x % f + cumulative[symbol]
    return states, words


def decode(states: list[int], words: list[int], frequencies: list[int], scale_bits: int, count: int) -> list[int]:
    """The first ``count`` symbols; checks that the stream ends as it must."""
    states, words = list(states), list(words)
    lanes = len(states)
    rows = -(-count // lanes)
    symbols = []
    for place in range(rows * lanes):
        lane = place % lanes
        x = states[lane]
        slot = x % (1 << scale_bits)
        symbol, start = 0, 0
        while slot >= start + frequencies[symbol]:
            start += frequencies[symbol]
            symbol += 1
        x = frequencies[symbol] * (x >> scale_bits) + slot - start
        if x < 1 << 16:
            x = (x << 16) + words.pop(0)
        states[lane] = x
        symbols.append(symbol)
    assert not words
    assert states == [1 << 16] * lanes
    return symbols[:count]
