"""Layers of a model and the parameters that they share, derived from its configuration alone. Imports no torch.

The model code builds its layers from these specs and the closed-form counts add them up, so that both describe the same
layer.
"""

from dataclasses import dataclass, replace

from lite_nlp.config.blocks import (
    BaseModelConfig,
    CrossAttentionConfig,
    DecoderConfig,
    EncoderConfig,
    LayeredConfig,
)
from lite_nlp.config.kinds import DENSE, LINEAR_KINDS, AttentionKind, LinearKind, LinearSpec, Sharing

__all__ = [
    "LayerSpec",
    "decoder_specs",
    "derived_heads",
    "derives_heads",
    "encoder_specs",
    "layer_owners",
    "linear_spec",
]


@dataclass(frozen=True, kw_only=True)
class LayerSpec:
    """One layer of a stack. Widths are channels.

    Attributes:
        position: Place in its stack, from 0.
        owner: Position of the layer whose blocks (mixer, cross-attention, feed-forward) this one applies: its own, or
            that of an earlier layer whose parameters it shares. The LayerNorms around the blocks are never shared.
        input_dim: Width of the input; the layer begins with a projection where that is not ``embed_dim``.
        embed_dim: Width inside the layer and of its output.
        attention_dim: Width of the self-attention branch; 0 without one.
        conv_dim: Width of the convolution branch; 0 without one.
        ffn_dim: Width between the two Linears of the feed-forward block.
        num_heads: Heads of self-attention; 0 without it.
        head_dim: Channels of each of them.
        conv_num_heads: Heads of the convolution; 0 without one.
        conv_head_dim: Channels of each of them.
        kernel_size: Taps of the convolution; 0 without one.
        memory_dim: Width of the encoded source, at which cross-attention works; 0 in a layer without it.
        cross_num_heads: Heads of cross-attention; 0 without it.
        cross_head_dim: Channels of each of them.
        extra_linear: Whether a square Linear of its own follows the feed-forward block.
        self_attention: Kind of self-attention.
        self_feature_size: Features per head of a learned or random map in self-attention; else 0.
        cross_attention: Kind of cross-attention.
        cross_feature_size: The same in cross-attention.
        attention_linear: Projections of self- and cross-attention.
        ffn_linear: Projections of the feed-forward block.
        conv_linear: Projections of the convolution branch.
    """

    position: int
    owner: int
    input_dim: int
    embed_dim: int
    attention_dim: int
    conv_dim: int
    ffn_dim: int
    num_heads: int
    head_dim: int
    conv_num_heads: int
    conv_head_dim: int
    kernel_size: int
    memory_dim: int
    cross_num_heads: int
    cross_head_dim: int
    extra_linear: bool
    self_attention: AttentionKind = "softmax"
    self_feature_size: int = 0
    cross_attention: AttentionKind = "softmax"
    cross_feature_size: int = 0
    attention_linear: LinearSpec = DENSE
    ffn_linear: LinearSpec = DENSE
    conv_linear: LinearSpec = DENSE

    @property
    def is_owner(self) -> bool:
        """Whether the layer has blocks of its own."""
        return self.owner == self.position

    @property
    def inner_dim(self) -> int:
        """Channels of all heads of self-attention."""
        return self.num_heads * self.head_dim

    @property
    def cross_inner_dim(self) -> int:
        """Channels of all heads of cross-attention."""
        return self.cross_num_heads * self.cross_head_dim

    @property
    def conv_inner_dim(self) -> int:
        """Channels of all heads of the convolution."""
        return self.conv_num_heads * self.conv_head_dim


def layer_owners(sharing: Sharing, num_layers: int) -> tuple[int, ...]:
    """Position of the layer whose parameters each layer uses (Subformer, section 3.3)."""
    if not num_layers:
        return ()
    last = num_layers - 1
    return {
        "none": tuple(range(num_layers)),
        "all": (0,) * num_layers,
        "independent-ffn": (0,) * num_layers,
        "all-but-last": (*(0,) * last, last),
        "every-two": tuple(position - position % 2 for position in range(num_layers)),
        "sandwich": (0, *(1,) * (num_layers - 2), last),
    }[sharing]


def derived_heads(width: int) -> int:
    """Number of heads of SAFE's attention and of those inside a sandwich (Subformer, released code).

    64 channels each, 128 beyond 1024 channels; where 64 does not divide the width, and at 640, as many heads up to ten
    as divide it (at 640: eight of 80).
    """
    if width == 640:
        return 8
    if width % 64 == 0:
        per_head = 128 if width > 1024 and width % 128 == 0 else 64
        return width // per_head
    return next(heads for heads in range(10, 0, -1) if width % heads == 0)


def encoder_specs(config: BaseModelConfig) -> tuple[LayerSpec, ...]:
    """The encoder's layers, first to last; none in an architecture without an encoder."""
    if not isinstance(config, EncoderConfig):
        return ()
    positions = enumerate(layer_owners(config.sharing, config.num_encoder_layers))
    return tuple(
        _layer(config, position, owner, num_layers=config.num_encoder_layers, kernel_sizes=config.kernel_sizes)
        for position, owner in positions
    )


def decoder_specs(config: BaseModelConfig) -> tuple[LayerSpec, ...]:
    """The decoder's layers, first to last; none in an architecture without a decoder."""
    if not isinstance(config, DecoderConfig):
        return ()
    num_layers, every = config.num_decoder_layers, config.keep_softmax_every
    specs = []
    for position, owner in enumerate(layer_owners(config.sharing, num_layers)):
        spec = _layer(config, position, owner, num_layers=num_layers, kernel_sizes=config.decoder_kernel_sizes)
        # Counted from the top layer, which is the first.
        keeps_softmax = bool(every) and (num_layers - position) % every == 0
        specs.append(_with_decoder_attention(spec, config, keeps_softmax=keeps_softmax))
    return tuple(specs)


def _layer(
    config: LayeredConfig, position: int, owner: int, *, num_layers: int, kernel_sizes: tuple[int, ...]
) -> LayerSpec:
    """A layer with softmax self-attention and without cross-attention."""
    width = _width(config, position, num_layers)
    inside = _is_inside(config, position, num_layers)
    attention_dim = config.attention_share(width)
    conv_dim = width - attention_dim
    num_heads, head_dim = _heads(config, position, num_layers)
    return LayerSpec(
        position=position,
        owner=owner,
        input_dim=_width(config, position - 1, num_layers) if position else config.embed_dim,
        embed_dim=width,
        attention_dim=attention_dim,
        conv_dim=conv_dim,
        ffn_dim=(config.sandwich_ffn_dim or config.ffn_dim) if inside else config.ffn_dim,
        num_heads=num_heads,
        head_dim=head_dim,
        conv_num_heads=config.conv_num_heads if conv_dim else 0,
        conv_head_dim=(config.conv_head_dim or conv_dim // config.conv_num_heads) if conv_dim else 0,
        kernel_size=kernel_sizes[position] if kernel_sizes else 0,
        memory_dim=0,
        cross_num_heads=0,
        cross_head_dim=0,
        extra_linear=config.sharing == "independent-ffn",
        attention_linear=linear_spec(config, config.attention_linear),
        ffn_linear=linear_spec(config, config.ffn_linear),
        conv_linear=linear_spec(config, config.conv_linear),
    )


def _with_decoder_attention(spec: LayerSpec, config: DecoderConfig, *, keeps_softmax: bool) -> LayerSpec:
    """The layer with the decoder's kinds of attention, and with cross-attention where the model has it."""
    if isinstance(config, CrossAttentionConfig):
        heads, width = config.cross_num_heads, config.attention_expansion * config.embed_dim
        head_dim = config.cross_head_dim or width // heads
        spec = replace(spec, memory_dim=config.embed_dim, cross_num_heads=heads, cross_head_dim=head_dim)
        if not keeps_softmax:
            kind, size = config.cross_attention, config.cross_feature_size
            spec = replace(spec, cross_attention=kind, cross_feature_size=size)
    if keeps_softmax:
        return spec
    return replace(spec, self_attention=config.self_attention, self_feature_size=config.self_feature_size)


def linear_spec(config: BaseModelConfig, kind: LinearKind) -> LinearSpec:
    """Kind and size of a Linear layer."""
    facts = LINEAR_KINDS[kind]
    return LinearSpec(
        kind=kind,
        n=config.linear_n if facts.has_factors else 1,
        rank=config.linear_rank if facts.has_rank else 0,
    )


def _is_inside(config: LayeredConfig, position: int, num_layers: int) -> bool:
    """Whether a layer is inside a sandwich, neither its first nor its last."""
    return config.sharing == "sandwich" and 0 < position < num_layers - 1


def _width(config: LayeredConfig, position: int, num_layers: int) -> int:
    return (config.sandwich_dim or config.embed_dim) if _is_inside(config, position, num_layers) else config.embed_dim


def derives_heads(config: LayeredConfig, position: int, num_layers: int) -> bool:
    """Whether the heads of a layer's self-attention follow from its width, whatever ``num_heads`` says."""
    inside = _is_inside(config, position, num_layers)
    return inside and (config.sandwich_heads == "width" or _width(config, position, num_layers) != config.embed_dim)


def _heads(config: LayeredConfig, position: int, num_layers: int) -> tuple[int, int]:
    """Heads of self-attention and the channels of each."""
    attention_dim = config.attention_share(_width(config, position, num_layers))
    if not attention_dim:
        return 0, 0
    inner = config.attention_expansion * attention_dim
    if derives_heads(config, position, num_layers):
        heads = derived_heads(attention_dim)
        return heads, inner // heads
    return config.num_heads, config.head_dim or inner // config.num_heads
