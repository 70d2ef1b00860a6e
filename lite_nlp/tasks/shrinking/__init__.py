"""Structured pruning of our models: which units go, chosen by measurement, and the config of what is left."""
