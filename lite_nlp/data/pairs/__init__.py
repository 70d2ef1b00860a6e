"""Sentence pairs: readers, preparation, data directories, batches."""
