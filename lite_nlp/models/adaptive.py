"""Adaptive input representations and the adaptive softmax tied to them (Baevski and Auli, 2019; Grave et al., 2017)."""

import itertools
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lite_nlp.config.model import LanguageModelConfig
from lite_nlp.models.linear import dense_linear
from lite_nlp.models.roles import Role, mark

__all__ = ["AdaptiveVocabulary"]


class AdaptiveVocabulary(nn.Module):
    """A vocabulary in bands of falling frequency, each with a narrower table and a Linear to and from the model.

    The first band, the head, has the model's width, and nevertheless a Linear of its own into the model, as in the
    authors' code. The output scores the head's types and each other band, whose types share the probability of the
    band; it uses the tables and the other bands' Linears transposed.

    Shape letters: V types, D the model's channels, E_i the channels of band i.

    Args:
        config: The configuration of a language model with adaptive embeddings; types are ordered by frequency.
    """

    def __init__(self, *, config: LanguageModelConfig) -> None:
        super().__init__()
        #: First type of each band, and the number of types.
        self.bounds = (0, *config.adaptive_cutoffs, config.tgt_vocab_size)
        sizes = [high - low for low, high in itertools.pairwise(self.bounds)]
        widths = [config.embed_dim // config.adaptive_factor**band for band in range(len(sizes))]
        self.tables = nn.ParameterList(
            mark(nn.Parameter(torch.zeros(size, width)), Role.ADAPTIVE_TABLE, inputs=size, outputs=width)
            for size, width in zip(sizes, widths, strict=True)
        )
        dim = config.embed_dim
        self.projections = nn.ModuleList(
            dense_linear(width, dim, role=Role.ADAPTIVE_PROJECTION, bias=False) for width in widths
        )
        self.clusters = dense_linear(dim, len(sizes) - 1, role=Role.ADAPTIVE_CLUSTERS, bias=False)

    def embed(self, tokens: Tensor) -> Tensor:
        """Embeddings (..., D) of ``tokens`` (...).

        Every band embeds all tokens, and those of its own are selected: shapes must not depend on the tokens' values.
        """
        embedded = self._embed_in(0, tokens)
        for band in range(1, len(self.tables)):
            here = (tokens >= self.bounds[band])[..., None]
            embedded = torch.where(here, self._embed_in(band, tokens), embedded)
        return embedded

    def logits(self, x: Tensor) -> Tensor:
        """Log-probabilities (..., V) of every type, which serve as logits too, from the model's output (..., D)."""
        head = self._head(x)
        size = self.bounds[1]
        parts = [head[..., :size]]
        for band in range(1, len(self.tables)):
            cluster = head[..., size + band - 1 : size + band]
            parts.append(self._tail(x, band) + cluster)
        return torch.cat(parts, dim=-1)

    def target_log_probs(self, x: Tensor, labels: Tensor) -> Tensor:
        """Log-probabilities (...) of the types ``labels`` (...), from the model's output ``x`` (..., D).

        Each band but the head computes only the tokens whose labels are in it.
        """
        shape, x, labels = labels.shape, x.flatten(0, -2), labels.flatten()
        size = self.bounds[1]
        inner = torch.tensor(self.bounds[1:-1], device=labels.device)
        bands = torch.bucketize(labels, inner, right=True)
        in_head = torch.where(bands == 0, labels, size + bands - 1)
        log_probs = self._head(x).gather(1, in_head[:, None]).squeeze(1)
        for band in range(1, len(self.tables)):
            (rows,) = torch.nonzero(bands == band, as_tuple=True)
            within = (labels[rows] - self.bounds[band])[:, None]
            log_probs = log_probs.index_add(0, rows, self._tail(x[rows], band).gather(1, within).squeeze(1))
        return log_probs.view(shape)

    def _embed_in(self, band: int, tokens: Tensor) -> Tensor:
        """Embeddings (..., D) of ``tokens`` (...) by a band's table; meaningless where a token is in another band."""
        table = self.tables[band]
        rows = (tokens - self.bounds[band]).clamp(min=0, max=table.shape[0] - 1)
        projected: Tensor = self.projections[band](F.embedding(rows, table))
        return projected

    def _head(self, x: Tensor) -> Tensor:
        """Log-probabilities (..., V_0 + bands - 1) of the head's types and then of each other band."""
        scores = torch.cat([F.linear(x, self.tables[0]), self.clusters(x)], dim=-1)
        return scores.log_softmax(dim=-1)

    def _tail(self, x: Tensor, band: int) -> Tensor:
        """Log-probabilities (..., V_i) of a band's types, given the band."""
        projection = cast(nn.Linear, self.projections[band])  # its weight is (D, E_i)
        return F.linear(torch.matmul(x, projection.weight), self.tables[band]).log_softmax(dim=-1)
