"""Classification of one text by an encoder of any family (R2D2, section 4.4: subject-verb agreement).

Shape letters: B batch, T tokens, D channels of the model, C classes.
"""

from collections.abc import Iterator
from typing import cast

import torch.nn.functional as F
from torch import Tensor, nn

from lite_nlp.config.layers import encoder_specs
from lite_nlp.config.model import SequenceClassifierConfig
from lite_nlp.models.dropout import apply_dropout
from lite_nlp.models.embeddings import Positions, build_input, token_embedding
from lite_nlp.models.layers import EncoderLayer
from lite_nlp.models.linear import xavier_linear

__all__ = ["SequenceClassifier", "pool_mean"]


def pool_mean(states: Tensor, mask: Tensor) -> Tensor:
    """The mean (B, D) of ``states`` (B, T, D) over the tokens that are True in ``mask`` (B, T), one at least a row."""
    here = mask[:, :, None]
    return states.masked_fill(~here, 0.0).sum(dim=1) / here.sum(dim=1)


class SequenceClassifier(nn.Module):
    """The encoder of an encoder-decoder, its states averaged over the tokens, and a Linear to the classes.

    The paper does not say how the states are pooled.

    Args:
        config: The model's configuration.
    """

    def __init__(self, *, config: SequenceClassifierConfig) -> None:
        super().__init__()
        self.config = config
        self.dropout = config.dropout
        width = config.table_dim
        self.scale = width**0.5
        self.embedding = token_embedding(config.src_vocab_size, width, embed_dim=config.embed_dim)
        self.positions = Positions(
            max_positions=config.max_positions,
            # SAFE mixes tokens before the first layer, so that positions have to be in by then.
            embed_dim=width if config.embedding == "safe" else config.embed_dim,
        )
        self.input = build_input(config)
        self.encoder = nn.ModuleList(EncoderLayer(config=config, spec=spec) for spec in encoder_specs(config))
        self.encoder_norm = nn.LayerNorm(config.embed_dim) if config.final_norm else nn.Identity()
        self.output = xavier_linear(config.embed_dim, config.num_classes)

    def _layers(self) -> Iterator[tuple[EncoderLayer, EncoderLayer]]:
        """Each layer, and the layer whose blocks it applies."""
        layers = [cast(EncoderLayer, layer) for layer in self.encoder]
        return ((layer, layers[layer.owner]) for layer in layers)

    def encode(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """One text per row as a vector.

        Args:
            tokens: (B, T) int64.
            mask: (B, T) bool, True on real tokens, which begin each row; one at least.

        Returns:
            Mean (B, D) of the encoder's states.
        """
        embedded = F.embedding(tokens, self.embedding.weight) * self.scale
        x = self.input(embedded, self.positions.first(tokens.shape[1]), mask[:, None, None, :])
        for layer, owner in self._layers():
            x = layer(x, mask, owner)
        return pool_mean(self.encoder_norm(x), mask)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Logits (B, C) of the classes; the arguments are those of ``encode``."""
        pooled = apply_dropout(self.encode(tokens, mask), self.dropout, self.training)
        logits: Tensor = self.output(pooled)
        return logits
