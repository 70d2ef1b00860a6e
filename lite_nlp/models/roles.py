"""Roles of parameters: what a weight does in its model, which decides how ``initialisation`` draws it.

Modules allocate their parameters and name the roles where they do so; what a constructor of torch draws is drawn over.
A module that is not marked keeps it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

from torch import nn

__all__ = ["Role", "Site", "mark", "marked_sites"]

#: Attribute that holds a site. It is no parameter or buffer: neither state dicts nor exports have it.
_ATTRIBUTE: Final = "_initialisation_site"

_Marked = TypeVar("_Marked", bound=nn.Module | nn.Parameter)


class Role(StrEnum):
    """What the parameters of a module do; a Linear's bias has the role of its weight."""

    #: Embedding table, which may be the output projection too.
    EMBEDDING = "embedding"
    #: Output projection of its own.
    OUTPUT_TABLE = "output table"
    #: Queries, keys and values of attention, fused or not.
    QUERY_KEY_VALUE = "query, key, value"
    ATTENTION_OUTPUT = "attention output"
    #: The same two in linear attention, which the T2R code draws in another way.
    LINEAR_QUERY_KEY_VALUE = "query, key, value of linear attention"
    LINEAR_ATTENTION_OUTPUT = "output of linear attention"
    #: Learned feature map of linear attention.
    FEATURE_MAP = "feature map"
    #: Scale of random features, per head and channel.
    FEATURE_SCALE = "feature scale"
    FFN_UP = "feed-forward up"
    FFN_DOWN = "feed-forward down"
    #: Linear of its own after a shared feed-forward block.
    FFN_EXTRA = "feed-forward extra"
    CONV_IN = "convolution in"
    CONV_OUT = "convolution out"
    #: Kernels that are the same at every position.
    STATIC_KERNEL = "static kernel"
    #: Linear that computes a kernel for each position.
    KERNEL_GENERATOR = "kernel generator"
    #: From one width to another: of factorized embeddings, around a sandwich and around its cross-attention.
    WIDTH_PROJECTION = "width projection"
    #: Tables, projections and cluster scores of adaptive embeddings.
    ADAPTIVE_TABLE = "adaptive table"
    ADAPTIVE_PROJECTION = "adaptive projection"
    ADAPTIVE_CLUSTERS = "adaptive clusters"
    LSTM_INPUT = "LSTM input gate"
    LSTM_HIDDEN = "LSTM hidden gate"
    LSTM_BIAS = "LSTM bias"
    CLASSIFIER_HIDDEN = "classifier hidden"
    CLASSIFIER_OUTPUT = "classifier output"


@dataclass(frozen=True, kw_only=True)
class Site:
    """A role and the widths of one map, however many are fused in one parameter.

    Attributes:
        role: What the parameters do.
        inputs: Inputs of the map; types of a table.
        outputs: Outputs of the map; of a table, the channels by whose root its rows are scaled.
    """

    role: Role
    inputs: int
    outputs: int


def mark(target: _Marked, role: Role, *, inputs: int, outputs: int) -> _Marked:
    """Name the role of a module's own parameters, or of one parameter; returns ``target``."""
    object.__setattr__(target, _ATTRIBUTE, Site(role=role, inputs=inputs, outputs=outputs))
    return target


def marked_sites(model: nn.Module) -> Iterator[tuple[nn.Module | nn.Parameter, Site]]:
    """Every marked module and parameter of ``model`` with its site, in the order of the modules."""
    for module in model.modules():
        targets: list[nn.Module | nn.Parameter] = [module, *module.parameters(recurse=False)]
        for target in targets:
            if _ATTRIBUTE in target.__dict__:
                yield target, target.__dict__[_ATTRIBUTE]
