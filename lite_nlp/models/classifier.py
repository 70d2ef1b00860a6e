"""Classification of sentence pairs (natural language inference) with a shared LSTM encoder (R2D2, section 4.1).

Shape letters: B batch, T tokens, D embedding channels, H hidden channels, C classes.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lite_nlp.config.layers import linear_spec
from lite_nlp.config.model import PairClassifierConfig
from lite_nlp.models.dropout import apply_dropout
from lite_nlp.models.embeddings import token_embedding
from lite_nlp.models.linear import xavier_linear
from lite_nlp.models.lstm import LSTM

__all__ = ["PairClassifier", "pool_max_mean"]


def pool_max_mean(states: Tensor, mask: Tensor) -> Tensor:
    """The maximum and the mean (B, 2 H) of ``states`` (B, T, H) over the tokens that are True in ``mask`` (B, T).

    Each row has at least one token.
    """
    here = mask[:, :, None]
    highest = states.masked_fill(~here, float("-inf")).amax(dim=1)
    mean = states.masked_fill(~here, 0.0).sum(dim=1) / here.sum(dim=1)
    return torch.cat([highest, mean], dim=-1)


class PairClassifier(nn.Module):
    """Says how the second of two sentences relates to the first.

    One encoder reads both, without attention between them. Their pooled states side by side (the paper does not say
    how the two are joined) go through an MLP of two hidden layers and an output Linear.

    Args:
        config: The model's configuration: ``table_dim`` channels of the embeddings D, ``embed_dim`` of the encoder's
            states H, ``ffn_dim`` of the MLP's hidden layers.
    """

    def __init__(self, *, config: PairClassifierConfig) -> None:
        super().__init__()
        self.config = config
        self.dropout = config.dropout
        width, hidden_dim, mlp_dim = config.table_dim, config.embed_dim, config.ffn_dim
        self.embedding = token_embedding(config.src_vocab_size, width, embed_dim=width)
        self.encoder = LSTM(input_dim=width, hidden_dim=hidden_dim, linear=linear_spec(config, config.lstm_linear))
        self.first_proj = xavier_linear(4 * hidden_dim, mlp_dim)
        self.second_proj = xavier_linear(mlp_dim, mlp_dim)
        self.output = xavier_linear(mlp_dim, config.num_classes)

    def encode(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """One sentence per row as a vector.

        Args:
            tokens: (B, T) int64.
            mask: (B, T) bool, True on real tokens; each row has at least one.

        Returns:
            Maximum and mean (B, 2 H) of the encoder's states.
        """
        embedded = apply_dropout(self.embedding(tokens), self.dropout, self.training)
        states, _ = self.encoder(embedded, mask)
        return pool_max_mean(states, mask)

    def forward(self, first_tokens: Tensor, first_mask: Tensor, second_tokens: Tensor, second_mask: Tensor) -> Tensor:
        """Logits (B, C) of the labels; the arguments are those of ``encode``, for each sentence of the pair."""
        pair = torch.cat([self.encode(first_tokens, first_mask), self.encode(second_tokens, second_mask)], dim=-1)
        hidden = F.relu(self.first_proj(apply_dropout(pair, self.dropout, self.training)))
        hidden = F.relu(self.second_proj(apply_dropout(hidden, self.dropout, self.training)))
        logits: Tensor = self.output(apply_dropout(hidden, self.dropout, self.training))
        return logits
