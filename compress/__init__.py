"""Compression of any ``nn.Module``: sensitivity, pruning, k-means, entropy coding and the ``.lnlp`` container."""
