"""Checks of the shrunk program and of the signed package: API levels, libraries, size, reproducibility."""
