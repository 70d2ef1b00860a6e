"""Models from configs: the one place where a family's name becomes a module."""

from lite_nlp.models.config import ModelConfig
from lite_nlp.models.transformer import EncoderDecoder

__all__ = ["build_model"]


def build_model(config: ModelConfig) -> EncoderDecoder:
    """Build the model that ``config`` describes, with fresh random weights, in training mode."""
    return EncoderDecoder(config=config)
