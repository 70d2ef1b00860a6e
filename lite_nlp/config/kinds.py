"""Kinds of attention and of Linear layers, with what a configuration has to know about each. Imports no torch.

Both tables are open: a further kind is a row here, a module in ``lite_nlp.models`` and a closed form in
``lite_nlp.budget``.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from pydantic import AfterValidator

__all__ = [
    "ATTENTION_KINDS",
    "DENSE",
    "FAMILY_INIT",
    "INIT_SCHEMES",
    "LINEAR_KINDS",
    "AttentionFacts",
    "AttentionKind",
    "InitScheme",
    "LinearFacts",
    "LinearKind",
    "LinearSpec",
    "Sharing",
]


@dataclass(frozen=True, kw_only=True)
class AttentionFacts:
    """A kind of attention, as far as configurations and counts are concerned.

    Attributes:
        is_linear: Whether it keeps a state of constant size per head instead of all keys and values (T2R, section
            2.2); such attention needs no causal mask.
        has_feature_size: Whether the configuration chooses the number of features per head; linear attention without
            that choice has as many features as a head has channels.
        feature_multiple: What the number of features per head must be a multiple of.
    """

    is_linear: bool
    has_feature_size: bool = False
    feature_multiple: int = 1


@dataclass(frozen=True, kw_only=True)
class LinearFacts:
    """A kind of Linear layer, as far as configurations are concerned.

    Attributes:
        has_factors: Whether ``linear_n`` applies to it; its widths must be multiples of that number.
        has_rank: Whether ``linear_rank`` applies to it; its widths must be at least that number.
        width_multiple: What its widths must be multiples of in any case.
    """

    has_factors: bool = False
    has_rank: bool = False
    width_multiple: int = 1


#: Kinds of attention by the value of ``self_attention`` or ``cross_attention``.
ATTENTION_KINDS: Final[dict[str, AttentionFacts]] = {
    "softmax": AttentionFacts(is_linear=False),
    # Learned feature map (T2R, equation 3b).
    "t2r": AttentionFacts(is_linear=True, has_feature_size=True),
    # ELU + 1 (Katharopoulos et al., 2020, equation 7).
    "elu": AttentionFacts(is_linear=True),
    # Sines and cosines of random projections (Peng et al., 2021).
    "random-features": AttentionFacts(is_linear=True, has_feature_size=True, feature_multiple=2),
}

#: Kinds of Linear layers by the value of ``attention_linear``, ``ffn_linear``, ``conv_linear`` or ``lstm_linear``.
LINEAR_KINDS: Final[dict[str, LinearFacts]] = {
    "dense": LinearFacts(),
    # Kronecker-factorized with shared diffusion matrices (R2D2, section 2.2).
    "r2d2": LinearFacts(has_factors=True),
    # One quaternion stands for four channels (Parcollet et al., 2019).
    "quaternion": LinearFacts(width_multiple=4),
    "low-rank": LinearFacts(has_rank=True),
}

#: Value of ``init`` that leaves the choice to the family.
_BY_FAMILY: Final = "family"

#: How the initial weights are drawn, by the value of ``init``; ``lite_nlp.models.initialisation`` has the formulas.
INIT_SCHEMES: Final = (
    "xavier",
    "lite-transformer",
    "lite-transformer-iwslt",
    "subformer",
    "t2r",
    "r2d2",
    "torch",
    "normal",
    "depth-scaled",
)

#: The scheme of a family whose configuration names none.
FAMILY_INIT: Final[dict[str, str]] = {
    "transformer": "depth-scaled",
    "lite-transformer": "depth-scaled",
    "lightconv": "depth-scaled",
    "subformer": "depth-scaled",
    "t2r": "depth-scaled",
    "r2d2": "depth-scaled",
    "lstm": "xavier",
}


def _check_listed(kind: str, kinds: Iterable[str]) -> str:
    if kind not in kinds:
        raise ValueError(f"expected {_listed(kinds)}, found {kind!r}")
    return kind


def _listed(kinds: Iterable[str]) -> str:
    *most, last = map(repr, kinds)
    return f"{', '.join(most)} or {last}" if most else last


def _check_attention(kind: str) -> str:
    return _check_listed(kind, ATTENTION_KINDS)


def _check_linear(kind: str) -> str:
    return _check_listed(kind, LINEAR_KINDS)


def _check_init(scheme: str) -> str:
    return _check_listed(scheme, (_BY_FAMILY, *INIT_SCHEMES))


#: One of ``INIT_SCHEMES``, or ``family``: that of ``FAMILY_INIT``.
InitScheme = Annotated[str, AfterValidator(_check_init)]
#: A key of ``ATTENTION_KINDS``.
AttentionKind = Annotated[str, AfterValidator(_check_attention)]
#: A key of ``LINEAR_KINDS``.
LinearKind = Annotated[str, AfterValidator(_check_linear)]
#: Which layers of a stack share their blocks (Subformer, section 3.3).
Sharing = Literal["none", "all", "all-but-last", "independent-ffn", "every-two", "sandwich"]


@dataclass(frozen=True, kw_only=True)
class LinearSpec:
    """Kind and size of the Linear layers of one block.

    Attributes:
        kind: A key of ``LINEAR_KINDS``.
        n: Kronecker factors of an R2D2 layer; 1 with the other kinds.
        rank: Inner width of a low-rank layer; 0 with the other kinds.
    """

    kind: LinearKind = "dense"
    n: int = 1
    rank: int = 0


#: The kind of every Linear layer unless something else is asked for.
DENSE: Final = LinearSpec()
