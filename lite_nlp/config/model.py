"""The ``[model]`` section of a config: its keys. Imports no torch."""

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from lite_nlp.config.checks import check_model
from lite_nlp.config.layers import AttentionKind, LinearKind, Sharing

__all__ = ["Architecture", "ModelConfig", "Section"]

Architecture = Literal["encoder-decoder", "language-model", "sequence-classifier", "pair-classifier"]
Family = Literal["transformer", "lite-transformer", "lightconv", "subformer", "r2d2", "t2r", "lstm"]


class Section(BaseModel):
    """A section that rejects unknown keys and silent conversions such as "3" for 3."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ModelConfig(Section):
    """What a model is made of.

    Architectures: an ``encoder-decoder`` turns one text into another; a ``language-model`` is a decoder alone, without
    cross-attention, over ``tgt_vocab_size`` types; a ``sequence-classifier`` is an encoder with one output per text; a
    ``pair-classifier`` encodes two sentences by an LSTM. A key that describes a block that an architecture does not
    have must keep its default.

    Families: ``transformer`` has full-width self-attention; ``lite-transformer`` runs attention on the first half of
    the channels and a convolution on the second half, in parallel (LSRA; Lite Transformer, section 4); ``lightconv``
    has a full-width convolution in place of self-attention (Wu et al. 2019). ``subformer`` (shared layers or factorized
    embeddings), ``r2d2`` (Kronecker-factorized, quaternion or low-rank projections) and ``t2r`` (linear attention) mix
    tokens like a transformer and say which option they are about; every option goes with every family that has the
    blocks it is for. ``lstm`` is the family of pair-classifiers, beside ``r2d2`` where its gates are factorized.
    """

    architecture: Architecture = "encoder-decoder"
    family: Family
    src_vocab_size: int = Field(default=8000, ge=4)
    tgt_vocab_size: int = Field(default=8000, ge=4)
    #: none: three tables; decoder: target input and output share one; all: source shares it too. A language model has
    #: all (input and output share one) or none.
    tie_embeddings: Literal["none", "decoder", "all"] = "all"
    #: What leads from the tables to the model's width (Subformer, section 3.2 and table 1): nothing, one Linear, two
    #: in a row, or a small Transformer layer (SAFE). Adaptive, for language models: tables that are the narrower the
    #: rarer their types, and an adaptive softmax tied to them (Baevski and Auli, 2019).
    embedding: Literal["table", "linear", "two-layer-linear", "safe", "adaptive"] = "table"
    #: Width of the tables; 0: embed_dim.
    embedding_dim: int = Field(default=0, ge=0)
    #: First types of every adaptive table but the first, which begins at type 0; types are ordered by frequency.
    adaptive_cutoffs: tuple[int, ...] = ()
    #: How many times narrower each adaptive table is than the one before.
    adaptive_factor: int = Field(default=4, ge=1)
    embed_dim: int = Field(ge=2)
    #: Feed-forward width; in a pair-classifier, that of the hidden layers after the encoder.
    ffn_dim: int = Field(ge=1)
    #: Classes that a classifier chooses from; 0 in other architectures.
    num_classes: int = Field(default=0, ge=0)
    num_encoder_layers: int = Field(default=6, ge=1)
    num_decoder_layers: int = Field(default=6, ge=1)
    #: Which layers of a stack share their blocks (Subformer, section 3.3); the LayerNorms around them never are shared.
    sharing: Sharing = "none"
    #: Width of the layers inside the sandwich; 0: embed_dim.
    sandwich_dim: int = Field(default=0, ge=0)
    #: Feed-forward width of the layers inside the sandwich; 0: ffn_dim.
    sandwich_ffn_dim: int = Field(default=0, ge=0)
    #: Heads of self-attention (of its half of the channels in a lite-transformer).
    num_heads: int = Field(default=4, ge=1)
    #: Heads of cross-attention, which always has the full width.
    cross_num_heads: int = Field(default=4, ge=1)
    #: Inner width of self- and cross-attention, that of all heads' queries, keys or values together, as a multiple of
    #: the width around it (R2D2, section 4.2: the upsampling factor U).
    attention_expansion: int = Field(default=1, ge=1)
    #: Kind of the decoder's self-attention and cross-attention: softmax, or linear with the learned map of T2R, with
    #: ELU + 1, or with random features.
    self_attention: AttentionKind = "softmax"
    cross_attention: AttentionKind = "softmax"
    #: Features per head of a learned or random map; 0 with the other kinds.
    self_feature_size: int = Field(default=0, ge=0)
    cross_feature_size: int = Field(default=0, ge=0)
    #: Every n-th decoder layer, counted from the top, keeps softmax attention; 0: none does.
    keep_softmax_every: int = Field(default=0, ge=0)
    #: Projections of self- and cross-attention, of the feed-forward blocks and of the convolutions.
    attention_linear: LinearKind = "dense"
    ffn_linear: LinearKind = "dense"
    conv_linear: LinearKind = "dense"
    #: Gates of an LSTM.
    lstm_linear: LinearKind = "dense"
    #: Kronecker factors of an r2d2 projection, a divisor of its widths.
    linear_n: int = Field(default=1, ge=1)
    #: Inner width of a low-rank projection; 0 with the other kinds.
    linear_rank: int = Field(default=0, ge=0)
    #: One odd kernel size per encoder layer; empty for a transformer.
    kernel_sizes: tuple[int, ...] = ()
    #: One kernel size per decoder layer.
    decoder_kernel_sizes: tuple[int, ...] = ()
    conv_type: Literal["lightweight", "dynamic"] = "lightweight"
    conv_glu: bool = False
    conv_num_heads: int = Field(default=4, ge=1)
    #: LayerNorm before each block (pre-norm) instead of after the residual sum (post-norm).
    pre_norm: bool = False
    #: LayerNorm after the last layer of each stack; wanted with pre_norm.
    final_norm: bool = False
    dropout: float = Field(default=0.1, ge=0.0, lt=1.0)
    attention_dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    ffn_dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    conv_dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    #: Longest sequence, in tokens with the end mark, that the position table covers.
    max_positions: int = Field(default=1024, ge=2)

    @model_validator(mode="before")
    @classmethod
    def _lists_to_tuples(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        return {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}

    @property
    def attention_dim(self) -> int:
        """Channels of the self-attention branch of a layer of the model's width; 0 if there is none."""
        return self.attention_share(self.embed_dim)

    @property
    def conv_dim(self) -> int:
        """Channels of the convolution branch of a layer of the model's width; 0 if there is none."""
        return self.embed_dim - self.attention_dim

    @property
    def table_dim(self) -> int:
        """Width of the embedding tables."""
        return self.embedding_dim or self.embed_dim

    def attention_share(self, width: int) -> int:
        """Of the ``width`` channels of a layer, how many go to self-attention; the rest goes to the convolution."""
        return {"lite-transformer": width // 2, "lightconv": 0}.get(self.family, width)

    @property
    def vocab_sizes(self) -> dict[str, int]:
        """Types of the vocabularies that the architecture has, by the keys that say so."""
        keys = {
            "encoder-decoder": ("src_vocab_size", "tgt_vocab_size"),
            "language-model": ("tgt_vocab_size",),
        }.get(self.architecture, ("src_vocab_size",))
        return {key: getattr(self, key) for key in keys}

    @property
    def has_encoder(self) -> bool:
        """Whether there is a stack of encoder layers."""
        return self.architecture in ("encoder-decoder", "sequence-classifier")

    @property
    def has_decoder(self) -> bool:
        """Whether there is a stack of decoder layers; with an encoder too they have cross-attention."""
        return self.architecture in ("encoder-decoder", "language-model")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        check_model(self)
        return self
