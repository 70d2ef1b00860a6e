"""Greedy and beam search over one small step interface, in NumPy."""
