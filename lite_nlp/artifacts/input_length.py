"""Longest input that a model translates at once."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lite_nlp.config.preset import Config

__all__ = ["longest_input"]

#: Longest source in tokens given to a model at once; models are trained on sentences, not on pages.
_MAX_SOURCE_TOKENS: Final = 200


def longest_input(config: "Config", long_input: str) -> int:
    """Most tokens of an input, without the end mark; the model's positions may bound it further.

    Args:
        config: Of the model.
        long_input: ``split`` or ``truncate``: what is done with a longer one.
    """
    return config.training.max_tokens if long_input == "truncate" else _MAX_SOURCE_TOKENS
