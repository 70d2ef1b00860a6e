"""The ``[model]`` section of a config: its keys, and what must hold between them. Imports no torch."""

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from lite_nlp.models.specs import (
    AttentionKind,
    LayerSpec,
    LinearKind,
    LinearSpec,
    Sharing,
    decoder_specs,
    encoder_specs,
)

__all__ = ["ModelConfig", "Section"]

Family = Literal["transformer", "lite-transformer", "lightconv", "subformer", "r2d2", "t2r"]
#: Channels of a quaternion layer come in fours.
_QUATERNION_PARTS = 4


class Section(BaseModel):
    """A section that rejects unknown keys and silent conversions such as "3" for 3."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ModelConfig(Section):
    """Architecture of an encoder-decoder.

    Families: ``transformer`` has full-width self-attention; ``lite-transformer`` runs attention on the first half of
    the channels and a convolution on the second half, in parallel (LSRA; Lite Transformer, section 4); ``lightconv``
    has a full-width convolution in place of self-attention (Wu et al. 2019). ``subformer`` (shared layers or factorized
    embeddings), ``r2d2`` (Kronecker-factorized, quaternion or low-rank projections) and ``t2r`` (linear attention) mix
    tokens like a transformer and say which option they are about; every option goes with every family that has the
    blocks it is for.
    """

    family: Family
    src_vocab_size: int = Field(default=8000, ge=4)
    tgt_vocab_size: int = Field(default=8000, ge=4)
    #: none: three tables; decoder: target input and output share one; all: source shares it too.
    tie_embeddings: Literal["none", "decoder", "all"] = "all"
    #: What leads from the tables to the model's width (Subformer, section 3.2 and table 1): nothing, one Linear, two
    #: in a row, or a small Transformer layer (SAFE).
    embedding: Literal["table", "linear", "two-layer-linear", "safe"] = "table"
    #: Width of the tables; 0: embed_dim.
    embedding_dim: int = Field(default=0, ge=0)
    embed_dim: int = Field(ge=2)
    ffn_dim: int = Field(ge=1)
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

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.tie_embeddings == "all" and self.src_vocab_size != self.tgt_vocab_size:
            raise ValueError(
                "tie_embeddings = 'all' needs one vocabulary: expected src_vocab_size = tgt_vocab_size, "
                f"found {self.src_vocab_size} and {self.tgt_vocab_size}"
            )
        if self.embedding == "table" and self.table_dim != self.embed_dim:
            raise ValueError(
                f"embedding_dim: expected embed_dim ({self.embed_dim}) or 0 with embedding = 'table', "
                f"found {self.embedding_dim}"
            )
        for key, width in (("embed_dim", self.embed_dim), ("sandwich_dim", self.sandwich_dim)):
            if self.family == "lite-transformer" and width % 2:
                raise ValueError(
                    f"{key}: a lite-transformer splits it in halves, expected an even number, found {width}"
                )
        self._check_family()
        self._check_heads("num_heads", self.num_heads, "the attention channels", self.attention_dim)
        self._check_heads("cross_num_heads", self.cross_num_heads, "embed_dim", self.embed_dim)
        self._check_kernels("kernel_sizes", self.kernel_sizes, self.num_encoder_layers)
        self._check_kernels("decoder_kernel_sizes", self.decoder_kernel_sizes, self.num_decoder_layers)
        for size in self.kernel_sizes:
            if size % 2 == 0:
                raise ValueError(f"kernel_sizes: expected odd sizes (centred in the encoder), found {size}")
        self._check_sharing()
        self._check_attention()
        self._check_linear()
        for stack, specs in (("encoder", encoder_specs(self)), ("decoder", decoder_specs(self))):
            for spec in specs:
                self._check_heads("conv_num_heads", self.conv_num_heads, "the convolution channels", spec.conv_dim)
                self._check_widths("attention_linear", spec.attention_linear, spec.attention_dim, spec.memory_dim)
                self._check_widths("ffn_linear", spec.ffn_linear, spec.embed_dim, spec.ffn_dim)
                self._check_widths("conv_linear", spec.conv_linear, spec.conv_dim)
                _check_same_blocks(stack, specs[spec.owner], spec)
        return self

    def _check_family(self) -> None:
        shown = {
            "subformer": ("sharing", "embedding"),
            "r2d2": ("attention_linear", "ffn_linear", "conv_linear"),
            "t2r": ("self_attention", "cross_attention"),
        }.get(self.family, ())
        plain = {key: type(self).model_fields[key].default for key in shown}
        if shown and all(getattr(self, key) == value for key, value in plain.items()):
            found = ", ".join(f"{key} = {value!r}" for key, value in plain.items())
            raise ValueError(f"family = {self.family!r}: expected one of these to be set, found {found}")

    def _check_heads(self, key: str, heads: int, what: str, channels: int) -> None:
        if channels % heads:
            raise ValueError(f"{key}: expected a divisor of {what} ({channels}), found {heads}")

    def _check_kernels(self, key: str, sizes: tuple[int, ...], layers: int) -> None:
        expected = layers if self.conv_dim else 0
        if len(sizes) != expected:
            raise ValueError(
                f"{key}: expected {expected} sizes for a {self.family} with {layers} layers, found {len(sizes)}"
            )
        for size in sizes:
            if size < 1:
                raise ValueError(f"{key}: expected sizes of at least 1, found {size}")

    def _check_sharing(self) -> None:
        for key in ("sandwich_dim", "sandwich_ffn_dim"):
            if self.sharing != "sandwich" and getattr(self, key):
                raise ValueError(f"{key}: expected 0 without sharing = 'sandwich', found {getattr(self, key)}")
        needed = {"sandwich": 3, "all-but-last": 2}.get(self.sharing, 1)
        for key in ("num_encoder_layers", "num_decoder_layers"):
            if getattr(self, key) < needed:
                raise ValueError(
                    f"{key}: expected at least {needed} layers with sharing = {self.sharing!r}, "
                    f"found {getattr(self, key)}"
                )

    def _check_attention(self) -> None:
        for kind_key, size_key in (
            ("self_attention", "self_feature_size"),
            ("cross_attention", "cross_feature_size"),
        ):
            kind, size = getattr(self, kind_key), getattr(self, size_key)
            if kind in ("t2r", "random-features") and size < 1:
                raise ValueError(f"{size_key}: expected at least 1 with {kind_key} = {kind!r}, found {size}")
            if kind == "random-features" and size % 2:
                raise ValueError(f"{size_key}: expected an even number (sines and cosines), found {size}")
            if kind in ("softmax", "elu") and size:
                raise ValueError(f"{size_key}: expected 0 with {kind_key} = {kind!r}, found {size}")
        if self.self_attention != "softmax" and not self.attention_dim:
            raise ValueError(f"self_attention: a {self.family} has none, found {self.self_attention!r}")
        if self.keep_softmax_every:
            if self.self_attention == self.cross_attention == "softmax":
                raise ValueError(
                    f"keep_softmax_every: expected 0 where all attention is softmax, found {self.keep_softmax_every}"
                )
            if not 2 <= self.keep_softmax_every <= self.num_decoder_layers:
                raise ValueError(
                    f"keep_softmax_every: expected 0 or 2 to num_decoder_layers ({self.num_decoder_layers}), "
                    f"found {self.keep_softmax_every}"
                )

    def _check_linear(self) -> None:
        kinds = {self.attention_linear, self.ffn_linear, self.conv_linear}
        if self.linear_n != 1 and "r2d2" not in kinds:
            raise ValueError(f"linear_n: expected 1 without an r2d2 projection, found {self.linear_n}")
        if "low-rank" in kinds and self.linear_rank < 1:
            raise ValueError(f"linear_rank: expected at least 1 with a low-rank projection, found {self.linear_rank}")
        if "low-rank" not in kinds and self.linear_rank:
            raise ValueError(f"linear_rank: expected 0 without a low-rank projection, found {self.linear_rank}")
        if self.conv_linear != "dense" and not self.conv_dim:
            raise ValueError(f"conv_linear: a {self.family} has no convolution, found {self.conv_linear!r}")

    def _check_widths(self, key: str, linear: LinearSpec, *widths: int) -> None:
        """What the projections of one block map between must divide as the member of the linear family needs it."""
        parts = {"r2d2": linear.n, "quaternion": _QUATERNION_PARTS}.get(linear.kind, 1)
        for width in widths:
            if width % parts:
                what = f"a multiple of linear_n = {parts}" if linear.kind == "r2d2" else f"a multiple of {parts}"
                raise ValueError(f"{key} = {linear.kind!r}: expected widths that are {what}, found {width}")
            if 0 < width < linear.rank:
                raise ValueError(f"linear_rank: expected at most the widths of {key} ({width}), found {linear.rank}")


def _check_same_blocks(stack: str, owner: LayerSpec, spec: LayerSpec) -> None:
    """Blocks that share parameters must be of one shape and kind."""
    if spec.kernel_size != owner.kernel_size:
        raise ValueError(
            f"sharing: {stack} layers {owner.position + 1} and {spec.position + 1} share parameters, expected one "
            f"kernel size, found {owner.kernel_size} and {spec.kernel_size}"
        )
    kinds = [(layer.self_attention, layer.cross_attention) for layer in (owner, spec)]
    if kinds[0] != kinds[1]:
        raise ValueError(
            f"keep_softmax_every: {stack} layers {owner.position + 1} and {spec.position + 1} share parameters, "
            f"expected one kind of attention, found {' and '.join('/'.join(pair) for pair in kinds)}"
        )
