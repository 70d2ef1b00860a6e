"""Token embeddings, the blocks between the tables and a stack of layers, and sinusoidal positions."""

import itertools
import math
from typing import ClassVar, Final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lite_nlp.config.blocks import LayeredConfig
from lite_nlp.core.errors import DataError
from lite_nlp.models.dropout import apply_dropout
from lite_nlp.models.linear import dense_linear
from lite_nlp.models.roles import Role, mark
from lite_nlp.models.subformer import SafeInput

__all__ = [
    "PlainInput",
    "PlainVocabulary",
    "Positions",
    "StackInput",
    "build_output_projection",
    "build_positions",
    "build_stack_input",
    "token_embedding",
]

#: Positions that are computed at once.
_ROWS: Final = 4096


def token_embedding(vocab_size: int, table_dim: int, *, embed_dim: int) -> nn.Embedding:
    """An embedding table (V, table_dim) whose rows are scaled by the root of ``embed_dim`` where they are used."""
    return mark(nn.Embedding(vocab_size, table_dim), Role.EMBEDDING, inputs=vocab_size, outputs=embed_dim)


class PlainInput(nn.Module):
    """Embeddings, projected token by token if wanted, plus positions.

    Args:
        projection: From the tables' width E to the model's width D; None where E = D.
        dropout: Drop rate of the sum while training.
    """

    #: Whether ``forward`` needs a mask.
    needs_mask: ClassVar[bool] = False

    def __init__(self, *, projection: nn.Module | None, dropout: float) -> None:
        super().__init__()
        self.projection = projection
        self.dropout = dropout

    def forward(self, embedded: Tensor, positions: Tensor, mask: Tensor | None = None) -> Tensor:
        """Turn embeddings (B, T, E) and ``positions`` (T, D) into the first layer's input; ``mask`` is not used."""
        x = embedded if self.projection is None else self.projection(embedded)
        return apply_dropout(x + positions, self.dropout, self.training)

    def init_state(self, like: Tensor, capacity: int) -> dict[str, Tensor]:
        """An empty state: tokens do not see each other here."""
        return {}

    def step(
        self, embedded: Tensor, positions: Tensor, state: dict[str, Tensor], position: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Tokens ``embedded`` (B, T, E); returns (B, T, D) and no state."""
        return self(embedded, positions), {}


#: The block from the tables to the first layer of a stack.
StackInput = PlainInput | SafeInput


def build_stack_input(config: LayeredConfig) -> StackInput:
    """The block from the tables to the first layer of a stack (Subformer, section 3.2 and table 1)."""
    if config.embedding == "safe":
        return SafeInput(
            table_dim=config.table_dim,
            embed_dim=config.embed_dim,
            dropout=config.dropout,
            attention_dropout=config.attention_dropout,
            ffn_dropout=config.ffn_dropout,
            drops_output=config.safe_dropout,
        )
    widths = {
        "table": (),
        "adaptive": (),
        "linear": (config.table_dim, config.embed_dim),
        "two-layer-linear": (config.table_dim, config.embed_dim, config.embed_dim),
    }[config.embedding]
    return PlainInput(projection=_linears(widths), dropout=config.dropout)


def build_output_projection(config: LayeredConfig) -> nn.Module | None:
    """The projection from the decoder's width to that of the output table; None where both are equal.

    With SAFE one Linear with a bias, as in the Subformer's released code: the two of the paper's section 3.4 do not
    agree with its parameter counts. Otherwise the input's Linears in reverse order, without biases (table 1).
    """
    if config.table_dim == config.embed_dim:
        return None
    if config.embedding == "safe":
        return dense_linear(config.embed_dim, config.table_dim, role=Role.WIDTH_PROJECTION)
    inner = (config.embed_dim,) if config.embedding == "two-layer-linear" else ()
    return _linears((config.embed_dim, *inner, config.table_dim))


def _linears(widths: tuple[int, ...]) -> nn.Module | None:
    """Linears without biases from each width to the next; None for fewer than two widths."""
    linears = [
        dense_linear(width, after, role=Role.WIDTH_PROJECTION, bias=False)
        for width, after in itertools.pairwise(widths)
    ]
    return nn.Sequential(*linears) if linears else None


class PlainVocabulary(nn.Module):
    """A language model's embeddings and output over one vocabulary.

    Args:
        table: (V, E), which is the output projection too unless there is a separate one.
        own_output: An output projection of its own, from E to V.
        output_proj: From the model's width D to E; None where D = E.
    """

    def __init__(self, *, table: nn.Embedding, own_output: nn.Linear | None, output_proj: nn.Module | None) -> None:
        super().__init__()
        self.table = table
        self.own_output = own_output
        self.output_proj = output_proj

    def embed(self, tokens: Tensor) -> Tensor:
        """Rows (..., E) of the table for ``tokens`` (...)."""
        return F.embedding(tokens, self.table.weight)

    @property
    def output_table(self) -> Tensor:
        """The output projection (V, E), whichever module owns it."""
        return self.table.weight if self.own_output is None else self.own_output.weight

    def to_table(self, x: Tensor) -> Tensor:
        """The input (..., E) of ``output_table``, from the model's output ``x`` (..., D)."""
        return x if self.output_proj is None else self.output_proj(x)

    def logits(self, x: Tensor) -> Tensor:
        """Scores (..., V) of every type, from the model's output ``x`` (..., D)."""
        return F.linear(self.to_table(x), self.output_table)

    def target_log_probs(self, x: Tensor, labels: Tensor) -> Tensor:
        """Log-probabilities (...) of the types ``labels`` (...), from the model's output ``x`` (..., D)."""
        log_probs = self.logits(x).log_softmax(dim=-1)
        return log_probs.gather(-1, labels[..., None]).squeeze(-1)


def build_positions(config: LayeredConfig) -> "Positions":
    """The position table of a model, at the width at which its stacks' inputs add it."""
    # SAFE mixes tokens before the first layer, so its positions are added to the embeddings.
    width = config.table_dim if config.embedding == "safe" else config.embed_dim
    return Positions(max_positions=config.max_positions, embed_dim=width)


class Positions(nn.Module):
    """Sinusoidal positions (Vaswani et al. 2017, section 3.5), sines in the first half of the channels.

    Every step is made in double precision and rounded to fp32: the table is the same on every machine, and no compact
    bundle need hold it.

    Args:
        max_positions: Rows of the table.
        embed_dim: Channels D.
    """

    table: Tensor

    def __init__(self, *, max_positions: int, embed_dim: int) -> None:
        super().__init__()
        table = torch.zeros(max_positions, embed_dim)
        # On the device "meta" there is nothing to fill, for which torch would import its compiler.
        if not table.is_meta:
            _fill_sinusoids(table)
        self.register_buffer("table", table, persistent=False)

    def first(self, length: int) -> Tensor:
        """Rows (T, D) of the first ``length`` positions.

        Raises:
            DataError: If the table is shorter than that.
        """
        if length > self.table.shape[0]:
            raise DataError(
                f"sequence of {length} tokens: expected at most model.max_positions = {self.table.shape[0]} tokens"
            )
        return self.table[:length]

    def at(self, position: Tensor) -> Tensor:
        """Rows (..., D) at ``position`` (...)."""
        return self.table[position]


def _fill_sinusoids(table: Tensor) -> None:
    half = table.shape[1] // 2
    exponents = torch.arange(half) * (-math.log(10_000.0) / max(half - 1, 1))
    rates = exponents.double().exp().float()
    # In parts: of a table of 64 MB what it is computed from would take ten times as much.
    for start in range(0, len(table), _ROWS):
        rows = table[start : start + _ROWS]
        angles = (torch.arange(start, start + len(rows))[:, None] * rates[None, :]).double()
        rows[:, :half], rows[:, half : 2 * half] = angles.sin(), angles.cos()
