"""Labelled examples for classifiers: readers, preparation, data directories."""
