"""Longest input that a model reads at once, in torch and in a bundle."""

from typing import TYPE_CHECKING, Final

from lite_nlp.artifacts.classes import SENTENCES
from lite_nlp.export.runtime.layout import DEFAULT_BOUNDS
from lite_nlp.export.runtime.limits import MAX_TOKENS

if TYPE_CHECKING:
    from lite_nlp.config.preset import Config

__all__ = ["cut_bound", "longest_input", "source_bound"]

#: Longest source in tokens given to a model at once; models are trained on sentences, not on pages.
_MAX_SOURCE_TOKENS: Final = 200


def longest_input(config: "Config", long_input: str) -> int:
    """Most tokens of an input, without the end mark; the model's positions may bound it further.

    Args:
        config: Of the model.
        long_input: ``split`` or ``truncate``: what is done with a longer one.
    """
    return config.training.max_tokens if long_input == "truncate" else _MAX_SOURCE_TOKENS


def source_bound(config: "Config", asked: int | None) -> int:
    """Longest source of a model's bundle, in tokens, end mark included; at most the model's positions.

    Args:
        config: Of the model.
        asked: The longest that is wanted; None for the default bound, or for what a model reads that cuts its input
            off, if that is more.
    """
    wanted = max(DEFAULT_BOUNDS.source, cut_bound(config)) if asked is None else asked
    return min(wanted, config.model.max_positions, MAX_TOKENS)


def cut_bound(config: "Config") -> int:
    """Tokens that a model reads of an input before it cuts it off, end mark included; 0 for one that does not cut.

    Classifiers cut, and encoder-decoders whose ``[decoding]`` section says so: a bundle that takes fewer tokens gives
    other outputs for longer inputs. Others split them, or have no such end.
    """
    positions = min(config.model.max_positions, MAX_TOKENS)
    if config.model.architecture in SENTENCES:
        return positions
    if config.decoding is None or config.decoding.long_input == "split":
        return 0
    return min(longest_input(config, config.decoding.long_input) + 1, positions)
