"""Limits of the mobile budget, the check against them, and advice on meeting them. Imports no torch."""
