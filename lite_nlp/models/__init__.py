"""Model families, built from a validated config. Importing this package imports no torch."""
