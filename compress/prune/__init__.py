"""Pruning: sensitivity scan, allocation of sparsity, single weights and whole channels."""
