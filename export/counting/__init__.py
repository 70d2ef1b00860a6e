"""Mult-Adds of exported graphs, counted from the graphs themselves."""
