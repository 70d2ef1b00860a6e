"""Configuration keys of the blocks that architectures consist of. Imports no torch.

An architecture of :mod:`lite_nlp.config.model` is put together from these classes, so that it has the keys of its own
blocks and no others. Code that needs one block takes the class of that block.
"""

from typing import ClassVar, Literal

from pydantic import Field

from lite_nlp.config.kinds import FAMILY_INIT, AttentionKind, InitScheme, LinearKind, Sharing
from lite_nlp.config.limits import MAX_LAYERS, MAX_POSITIONS, MAX_WIDTH, KernelSizes
from lite_nlp.config.section import ConfigSection
from lite_nlp.core.bounds import MAX_VOCAB_SIZE

__all__ = [
    "BaseModelConfig",
    "ClassifierConfig",
    "CrossAttentionConfig",
    "DecoderConfig",
    "EncoderConfig",
    "Family",
    "LayeredConfig",
    "SourceConfig",
]

#: Kind of a model's layers, or the option of them that the model is about.
Family = Literal["transformer", "lite-transformer", "lightconv", "subformer", "r2d2", "t2r", "lstm"]


class BaseModelConfig(ConfigSection):
    """Keys of every model.

    Families: ``transformer`` has full-width self-attention; ``lite-transformer`` runs attention on the first half of
    the channels and a convolution on the second half, in parallel (LSRA; Lite Transformer, section 4); ``lightconv``
    has a full-width convolution in place of self-attention (Wu et al. 2019). ``subformer`` (shared layers or factorized
    embeddings), ``r2d2`` (Kronecker-factorized, quaternion or low-rank projections) and ``t2r`` (linear attention) mix
    tokens like a transformer and name the option that the model is about; every option goes with every family that has
    the blocks it applies to. ``lstm`` is the family of classifiers with an LSTM, beside ``r2d2`` where its gates are
    factorized.
    """

    has_encoder: ClassVar[bool] = False
    has_decoder: ClassVar[bool] = False
    #: Whether it reads a source, a text or the first sentence of a pair; and a target, or the second sentence.
    has_source: ClassVar[bool] = True
    has_target: ClassVar[bool] = True

    architecture: str
    family: Family
    embed_dim: int = Field(ge=2, le=MAX_WIDTH)
    #: Width of the embedding tables; 0: embed_dim.
    embedding_dim: int = Field(default=0, ge=0, le=MAX_WIDTH)
    #: Feed-forward width; with an LSTM, that of the hidden layers after the encoder.
    ffn_dim: int = Field(ge=1, le=MAX_WIDTH)
    #: Kronecker factors of an r2d2 projection, a divisor of its widths.
    linear_n: int = Field(default=1, ge=1, le=MAX_WIDTH)
    #: Inner width of a low-rank projection; 0 with the other kinds.
    linear_rank: int = Field(default=0, ge=0, le=MAX_WIDTH)
    dropout: float = Field(default=0.1, ge=0.0, lt=1.0)
    #: Longest sequence, in tokens with the end mark, that the position table covers.
    max_positions: int = Field(default=1024, ge=2, le=MAX_POSITIONS)

    #: How the initial weights are drawn; ``family``: as is best for the family.
    init: InitScheme = "family"

    @property
    def init_scheme(self) -> str:
        """How the initial weights are drawn, one of ``INIT_SCHEMES``."""
        return FAMILY_INIT[self.family] if self.init == "family" else self.init

    @property
    def table_dim(self) -> int:
        """Width of the embedding tables."""
        return self.embedding_dim or self.embed_dim

    @property
    def vocab_sizes(self) -> dict[str, int]:
        """Types of the vocabularies that the architecture has, by their keys."""
        return {key: size for key, size in self if key.endswith("_vocab_size")}


class SourceConfig(BaseModelConfig):
    """Keys of a model that reads a text to be translated or classified."""

    src_vocab_size: int = Field(default=8000, ge=4, le=MAX_VOCAB_SIZE)


class ClassifierConfig(SourceConfig):
    """Keys of a model that chooses one of several classes."""

    num_classes: int = Field(ge=2, le=MAX_WIDTH)


class LayeredConfig(BaseModelConfig):
    """Keys of a model that consists of stacks of layers."""

    family: Literal["transformer", "lite-transformer", "lightconv", "subformer", "r2d2", "t2r"]
    #: Projection from the tables to the model's width (Subformer, section 3.2 and table 1): none, one Linear, two
    #: in a row, or a small Transformer layer (SAFE). Adaptive, in language models: tables that are the narrower the
    #: rarer their types, and an adaptive softmax tied to them (Baevski and Auli, 2019).
    embedding: Literal["table", "linear", "two-layer-linear", "safe", "adaptive"] = "table"
    #: Whether dropout is applied to SAFE's output also where no residual connection goes around it, as in the
    #: Subformer's released code.
    safe_dropout: bool = False
    #: Which layers of a stack share their blocks (Subformer, section 3.3); LayerNorms are never shared.
    sharing: Sharing = "none"
    #: Width of the layers inside the sandwich; 0: embed_dim.
    sandwich_dim: int = Field(default=0, ge=0, le=MAX_WIDTH)
    #: Feed-forward width of the layers inside the sandwich; 0: ffn_dim.
    sandwich_ffn_dim: int = Field(default=0, ge=0, le=MAX_WIDTH)
    #: Heads of self-attention inside the sandwich. ``configured``: num_heads where those layers are as wide as the
    #: model, else a number derived from their width; ``width``: always derived, as in the Subformer's released code.
    sandwich_heads: Literal["configured", "width"] = "configured"
    #: Heads of self-attention (of its half of the channels in a lite-transformer).
    num_heads: int = Field(default=4, ge=1, le=MAX_WIDTH)
    #: Channels of a head of self-attention where ``num_heads`` applies; 0: the inner width divided by the heads.
    #: Structured pruning sets it where it removes heads, as it does ``cross_head_dim`` and ``conv_head_dim``.
    head_dim: int = Field(default=0, ge=0, le=MAX_WIDTH)
    #: Inner width of self- and cross-attention, that of all heads' queries, keys or values together, as a multiple of
    #: the width around it (R2D2, section 4.2: the upsampling factor U), where the channels of a head do not state it.
    attention_expansion: int = Field(default=1, ge=1, le=MAX_WIDTH)
    #: Projections of self- and cross-attention, of the feed-forward blocks and of the convolutions.
    attention_linear: LinearKind = "dense"
    ffn_linear: LinearKind = "dense"
    conv_linear: LinearKind = "dense"
    conv_type: Literal["lightweight", "dynamic"] = "lightweight"
    conv_glu: bool = False
    conv_num_heads: int = Field(default=4, ge=1, le=MAX_WIDTH)
    #: Channels of a head of the convolution; 0: those of the branch divided by the heads.
    conv_head_dim: int = Field(default=0, ge=0, le=MAX_WIDTH)
    #: LayerNorm before each block (pre-norm) instead of after the residual sum (post-norm).
    pre_norm: bool = False
    #: LayerNorm after the last layer of each stack; goes with pre_norm.
    final_norm: bool = False
    attention_dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    ffn_dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    conv_dropout: float = Field(default=0.0, ge=0.0, lt=1.0)

    @property
    def attention_dim(self) -> int:
        """Channels of the self-attention branch of a layer of the model's width; 0 if there is none."""
        return self.attention_share(self.embed_dim)

    @property
    def conv_dim(self) -> int:
        """Channels of the convolution branch of a layer of the model's width; 0 if there is none."""
        return self.embed_dim - self.attention_dim

    def attention_share(self, width: int) -> int:
        """Of the ``width`` channels of a layer, how many go to self-attention; the rest goes to the convolution."""
        return {"lite-transformer": width // 2, "lightconv": 0}.get(self.family, width)


class EncoderConfig(SourceConfig, LayeredConfig):
    """Keys of a model with a stack of encoder layers."""

    has_encoder: ClassVar[bool] = True

    num_encoder_layers: int = Field(default=6, ge=1, le=MAX_LAYERS)
    #: One odd kernel size per encoder layer; empty in a model without convolutions.
    kernel_sizes: KernelSizes = ()


class DecoderConfig(LayeredConfig):
    """Keys of a model with a stack of decoder layers."""

    has_decoder: ClassVar[bool] = True

    tgt_vocab_size: int = Field(default=8000, ge=4, le=MAX_VOCAB_SIZE)
    #: none: three tables; decoder: target input and output share one; all: source shares it too. A language model has
    #: all (input and output share one) or none.
    tie_embeddings: Literal["none", "decoder", "all"] = "all"
    num_decoder_layers: int = Field(default=6, ge=1, le=MAX_LAYERS)
    #: Kind of the decoder's self-attention.
    self_attention: AttentionKind = "softmax"
    #: Features per head of a learned or random map; 0 with the other kinds.
    self_feature_size: int = Field(default=0, ge=0, le=MAX_WIDTH)
    #: Every n-th decoder layer, counted from the top, keeps softmax attention; 0: none does.
    keep_softmax_every: int = Field(default=0, ge=0, le=MAX_LAYERS)
    #: One kernel size per decoder layer; empty in a model without convolutions.
    decoder_kernel_sizes: KernelSizes = ()


class CrossAttentionConfig(LayeredConfig):
    """Keys of a model whose decoder attends to an encoder."""

    #: Heads of cross-attention, which always has the full width.
    cross_num_heads: int = Field(default=4, ge=1, le=MAX_WIDTH)
    #: Channels of a head of cross-attention; 0: the inner width divided by the heads.
    cross_head_dim: int = Field(default=0, ge=0, le=MAX_WIDTH)
    #: Kind of the cross-attention.
    cross_attention: AttentionKind = "softmax"
    #: Features per head of a learned or random map; 0 with the other kinds.
    cross_feature_size: int = Field(default=0, ge=0, le=MAX_WIDTH)
