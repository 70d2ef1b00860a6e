"""Costs per part and their sums, the result of every closed form. Imports no torch."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

__all__ = ["GROUPS", "Convention", "Cost", "Group", "ModelCount", "Operation", "group_of", "sum_costs"]

_Key = TypeVar("_Key")

Operation = Literal[
    "embedding", "linear", "kernel_generator", "feature_map", "attention", "layer_norm", "conv_taps", "output"
]

#: How Mult-Adds are counted; each is explained in ``lite_nlp.budget.reporting.conventions``.
Convention = Literal["paper", "executed"]

#: What a reader compares models by, coarser than parts.
Group = Literal[
    "embeddings", "encoder", "decoder", "cross_attention", "ffn", "convolution", "recurrent", "layer_norm", "output"
]

#: Every group in the order of a report, with its title.
GROUPS: Final[dict[Group, str]] = {
    "embeddings": "embeddings",
    "encoder": "encoder self-attention",
    "decoder": "decoder self-attention",
    "cross_attention": "cross-attention",
    "ffn": "feed-forward",
    "convolution": "convolution",
    "recurrent": "recurrent layers",
    "layer_norm": "layer norm",
    "output": "output",
}

#: The group of a part, by the last word of its name; LayerNorm is a group of its own whatever the part.
_GROUP_OF_BLOCK: Final[dict[str, Group]] = {
    "lstm": "recurrent",
    "cross_attention": "cross_attention",
    "ffn": "ffn",
    "conv_in": "convolution",
    "conv_kernel": "convolution",
    "conv_out": "convolution",
}


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The cost of one operation in one part, all layers together.

    Attributes:
        part: Dotted name of the part, such as ``encoder.ffn``.
        operation: The kind of work.
        params: Parameters that belong to it; a shared tensor counts once, where it first occurs.
        vectors: How many of ``params`` are biases of Linears or gains and biases of LayerNorms.
        paper: Mult-Adds in the ``paper`` convention.
        executed: Mult-Adds in the ``executed`` convention.
        repeated: How many of ``executed`` are by weights of another layer, which it shares.
    """

    part: str
    operation: Operation
    params: int = 0
    vectors: int = 0
    paper: int = 0
    executed: int = 0
    repeated: int = 0

    def macs(self, convention: Convention) -> int:
        """Mult-Adds in ``convention``."""
        return self.paper if convention == "paper" else self.executed


@dataclass(frozen=True, kw_only=True)
class ModelCount:
    """Parameters and Mult-Adds of one model at one pair of lengths; all figures are exact integers.

    Attributes:
        src_len: Source tokens, end mark included.
        tgt_len: Target tokens, which is the number of decoder steps.
        beam: Hypotheses that every decoder step extends.
        costs: Every operation of every part, in the order of the computation.
    """

    src_len: int
    tgt_len: int
    beam: int = 1
    costs: tuple[Cost, ...]

    @property
    def lengths(self) -> str:
        """The tokens counted, as text: of source and target, or of the only sequence."""
        both = self.src_len and self.tgt_len
        return f"{self.src_len} -> {self.tgt_len}" if both else f"{self.src_len or self.tgt_len}"

    @property
    def params_total(self) -> int:
        """All parameters, shared tensors once."""
        return sum(cost.params for cost in self.costs)

    @property
    def params_embeddings(self) -> int:
        """Parameters of the input look-up tables, whether or not the output projection shares one.

        Adaptive embeddings belong here as a whole, with the projections of their bands.
        """
        return sum(cost.params for cost in self.costs if cost.operation == "embedding")

    @property
    def params_paper(self) -> int:
        """Parameters as Lite Transformer's tables count: without input look-up tables, with an untied output."""
        return self.params_total - self.params_embeddings

    @property
    def params_weights(self) -> int:
        """Parameters as R2D2's tables count: matrices alone, without look-up tables, biases and LayerNorms."""
        return self.params_paper - sum(cost.vectors for cost in self.costs)

    @property
    def params_encoder(self) -> int:
        """Parameters of the encoder's layers or of an LSTM's cells, as R2D2's tables of classifiers count."""
        return sum(cost.params for cost in self._encoder)

    @property
    def params_encoder_weights(self) -> int:
        """The encoder's matrices alone."""
        return sum(cost.params - cost.vectors for cost in self._encoder)

    @property
    def params_encoder_partly_biased(self) -> int:
        """The encoder without the biases of its attention, as R2D2's table of agreement models counts."""
        return self.params_encoder - sum(cost.vectors for cost in self._encoder if cost.part == "encoder.attention")

    @property
    def _encoder(self) -> tuple[Cost, ...]:
        return tuple(cost for cost in self.costs if cost.part.partition(".")[0] == "encoder")

    @property
    def macs_paper(self) -> int:
        """Mult-Adds in the ``paper`` convention."""
        return self.macs("paper")

    @property
    def macs_executed(self) -> int:
        """Mult-Adds in the ``executed`` convention."""
        return self.macs("executed")

    def macs(self, convention: Convention) -> int:
        """Mult-Adds in ``convention``."""
        return sum(cost.macs(convention) for cost in self.costs)

    def by_part(self) -> dict[str, Cost]:
        """Costs summed per part, in the order of the computation; ``operation`` is that of the part's first cost."""
        return _summed(self.costs, lambda cost: cost.part)

    def by_operation(self) -> dict[str, Cost]:
        """Costs summed per operation; ``part`` is that of the operation's first cost."""
        return _summed(self.costs, lambda cost: cost.operation)

    def by_group(self) -> dict[Group, Cost]:
        """Costs summed per group: every group, in the order of ``GROUPS``, zero where the model has no such part.

        ``part`` is the group's name; ``operation`` is that of its first cost.
        """
        sums = _summed(self.costs, group_of)
        empty = (Cost(part=group, operation="linear") for group in GROUPS)
        return {
            group: _add(Cost(part=group, operation=sums[group].operation), sums[group]) if group in sums else nothing
            for group, nothing in zip(GROUPS, empty, strict=True)
        }


def group_of(cost: Cost) -> Group:
    """The group that a cost belongs to."""
    stack, _, block = cost.part.partition(".")
    if cost.operation == "layer_norm":
        return "layer_norm"
    if stack == "embeddings":
        return "embeddings"
    if stack == "output":
        return "output"
    return _GROUP_OF_BLOCK.get(block, "encoder" if stack == "encoder" else "decoder")


def sum_costs(costs: Iterable[Cost]) -> tuple[Cost, ...]:
    """One cost per operation of each part, in the order in which they first occur."""
    return tuple(_summed(costs, lambda cost: (cost.part, cost.operation)).values())


def _summed(costs: Iterable[Cost], key: Callable[[Cost], _Key]) -> dict[_Key, Cost]:
    sums: dict[_Key, Cost] = {}
    for cost in costs:
        name = key(cost)
        sums[name] = _add(sums[name], cost) if name in sums else cost
    return sums


def _add(first: Cost, second: Cost) -> Cost:
    """The sum of two costs under the first one's names."""
    return Cost(
        part=first.part,
        operation=first.operation,
        params=first.params + second.params,
        vectors=first.vectors + second.vectors,
        paper=first.paper + second.paper,
        executed=first.executed + second.executed,
        repeated=first.repeated + second.repeated,
    )
