"""Quantizers: matrices stored with few bits per weight."""
