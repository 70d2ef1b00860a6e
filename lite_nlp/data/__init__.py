"""Corpora: published and own, their preparation, data directories, tokenizer. Importing it imports nothing heavy."""
