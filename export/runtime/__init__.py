"""Translation from a bundle without torch."""
