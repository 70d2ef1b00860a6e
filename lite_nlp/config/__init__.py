"""Validated configuration of models, training and decoding. Imports no torch."""
