"""Mult-Adds of any ``nn.Module``, counted operator by operator while it runs. Needs torch."""
