"""Classification of a text, or of a sentence pair (natural language inference), by an LSTM encoder (R2D2, section 4.1).

Shape letters: B batch, T tokens, D embedding channels, H hidden channels, C classes.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lite_nlp.config.model import LSTMClassifierConfig, PairClassifierConfig
from lite_nlp.models.dropout import apply_dropout
from lite_nlp.models.lstm import LSTM

__all__ = ["LSTMClassifier", "LSTMReader", "PairClassifier", "pool_max_mean"]


def pool_max_mean(states: Tensor, mask: Tensor) -> Tensor:
    """The maximum and the mean (B, 2 H) of ``states`` (B, T, H) over the tokens that are True in ``mask`` (B, T).

    Each row has at least one token.
    """
    here = mask[:, :, None]
    highest = states.masked_fill(~here, float("-inf")).amax(dim=1)
    mean = states.masked_fill(~here, 0.0).sum(dim=1) / here.sum(dim=1)
    return torch.cat([highest, mean], dim=-1)


class LSTMReader(nn.Module):
    """What the classifiers with an LSTM share: the encoder, and an MLP of two hidden layers and an output Linear.

    Args:
        config: The model's configuration.
        embedding: Table (V, D).
        encoder: LSTM with states of H channels.
        first_proj: From the pooled states, 2 H channels for each sentence of an example, to the first hidden layer.
        second_proj: From the first to the second hidden layer.
        output: From the second hidden layer to C.
    """

    def __init__(
        self,
        *,
        config: LSTMClassifierConfig | PairClassifierConfig,
        embedding: nn.Embedding,
        encoder: LSTM,
        first_proj: nn.Linear,
        second_proj: nn.Linear,
        output: nn.Linear,
    ) -> None:
        super().__init__()
        self.config = config
        self.dropout = config.dropout
        self.embedding = embedding
        self.encoder = encoder
        self.first_proj = first_proj
        self.second_proj = second_proj
        self.output = output

    def encode(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Encode one sentence per row as a vector.

        Args:
            tokens: (B, T) int64.
            mask: (B, T) bool, True on real tokens; each row has at least one.

        Returns:
            Maximum and mean (B, 2 H) of the encoder's states.
        """
        embedded = apply_dropout(self.embedding(tokens), self.dropout, self.training)
        states, _ = self.encoder(embedded, mask)
        return pool_max_mean(states, mask)

    def to_classes(self, pooled: Tensor) -> Tensor:
        """Logits (B, C) from the pooled states of all sentences of an example, side by side."""
        hidden = F.relu(self.first_proj(apply_dropout(pooled, self.dropout, self.training)))
        hidden = F.relu(self.second_proj(apply_dropout(hidden, self.dropout, self.training)))
        logits: Tensor = self.output(apply_dropout(hidden, self.dropout, self.training))
        return logits


class LSTMClassifier(LSTMReader):
    """Classifies one text. ``build_model`` assembles it."""

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Logits (B, C) of the classes; the arguments are those of ``encode``."""
        return self.to_classes(self.encode(tokens, mask))


class PairClassifier(LSTMReader):
    """Classifies how the second of two sentences relates to the first.

    One encoder reads both, without attention between them. Their pooled states side by side (the paper does not state
    how the two are joined) go through the MLP. ``build_model`` assembles it.
    """

    def forward(self, first_tokens: Tensor, first_mask: Tensor, second_tokens: Tensor, second_mask: Tensor) -> Tensor:
        """Logits (B, C) of the labels; the arguments are those of ``encode``, for each sentence of the pair."""
        return self.to_classes(
            torch.cat([self.encode(first_tokens, first_mask), self.encode(second_tokens, second_mask)], dim=-1)
        )
