"""Classification of one text by an encoder of any family (R2D2, section 4.4: subject-verb agreement).

Shape letters: B batch, T tokens, D channels of the model, C classes.
"""

import torch.nn.functional as F
from torch import Tensor, nn

from lite_nlp.config.model import SequenceClassifierConfig
from lite_nlp.models.dropout import apply_dropout
from lite_nlp.models.embeddings import Positions, StackInput
from lite_nlp.models.stacks import EncoderStack

__all__ = ["SequenceClassifier", "pool_mean"]


def pool_mean(states: Tensor, mask: Tensor) -> Tensor:
    """The mean (B, D) of ``states`` (B, T, D) over the tokens, at least one a row, that are True in ``mask`` (B, T)."""
    here = mask[:, :, None]
    return states.masked_fill(~here, 0.0).sum(dim=1) / here.sum(dim=1)


class SequenceClassifier(nn.Module):
    """The encoder of an encoder-decoder, the mean of its states over the tokens, and a Linear to the classes.

    The paper does not state how the states are pooled. ``build_model`` assembles it.

    Args:
        config: The model's configuration.
        embedding: Table (V, E).
        positions: Position table.
        stack_input: Block from the table to the first layer.
        encoder: Encoder layers.
        encoder_norm: LayerNorm after the last layer, or identity.
        output: From D to C.
    """

    def __init__(
        self,
        *,
        config: SequenceClassifierConfig,
        embedding: nn.Embedding,
        positions: Positions,
        stack_input: StackInput,
        encoder: EncoderStack,
        encoder_norm: nn.Module,
        output: nn.Linear,
    ) -> None:
        super().__init__()
        self.config = config
        self.dropout = config.dropout
        self.scale = config.table_dim**0.5
        self.embedding = embedding
        self.positions = positions
        self.input = stack_input
        self.encoder = encoder
        self.encoder_norm = encoder_norm
        self.output = output

    def encode(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Encode one text per row as a vector.

        Args:
            tokens: (B, T) int64.
            mask: (B, T) bool, True on real tokens, which are the first of each row; at least one.

        Returns:
            Mean (B, D) of the encoder's states.
        """
        embedded = F.embedding(tokens, self.embedding.weight) * self.scale
        positions = self.positions.first(tokens.shape[1])
        x = self.encoder.encode(self.input, embedded, positions, mask)
        return pool_mean(self.encoder_norm(x), mask)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Logits (B, C) of the classes; the arguments are those of ``encode``."""
        pooled = apply_dropout(self.encode(tokens, mask), self.dropout, self.training)
        logits: Tensor = self.output(pooled)
        return logits
