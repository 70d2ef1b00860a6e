"""The base of all other packages: errors, output files, progress, special tokens."""
