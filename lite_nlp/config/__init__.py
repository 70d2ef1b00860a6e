"""The validated configuration of models and training: what a preset holds. Imports no torch."""
