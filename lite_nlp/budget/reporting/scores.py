"""What people call the scores. Imports no torch."""

from typing import Final

__all__ = ["LOWER_IS_BETTER", "metric_label"]

_LABELS: Final = {
    "bleu": "BLEU",
    "chrf": "chrF",
    "rouge1": "ROUGE-1",
    "rouge2": "ROUGE-2",
    "rougel": "ROUGE-L",
    "rougelsum": "ROUGE-Lsum",
}

#: Scores of which a smaller one is better.
LOWER_IS_BETTER: Final = frozenset(("perplexity", "loss", "nll"))


def metric_label(name: str) -> str:
    """The name for people of a score with this key."""
    return _LABELS.get(name.lower(), name.replace("_", " "))
