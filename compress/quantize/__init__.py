"""Quantizers: few values per tensor in place of fp32 weights."""
