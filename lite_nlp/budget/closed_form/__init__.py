"""Parameters and Mult-Adds from a config, by formulas. Imports no torch."""
