"""Limits, verdicts and advice on what would bring a model under them. Imports no torch."""
