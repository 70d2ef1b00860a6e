"""Corpora, tokenizer and token-budget batches. Importing this package imports nothing heavy."""
