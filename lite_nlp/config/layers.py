"""What each layer of a model is made of, and which layers share parameters: from the config alone. Imports no torch.

The model code builds its layers from these specs and the closed-form counts add them up, so both mean the same layer.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from lite_nlp.config.model import ModelConfig

__all__ = [
    "AttentionKind",
    "LayerSpec",
    "LinearKind",
    "LinearSpec",
    "Sharing",
    "decoder_specs",
    "derived_heads",
    "encoder_specs",
    "layer_owners",
    "lstm_linear",
]

AttentionKind = Literal["softmax", "t2r", "elu", "random-features"]
LinearKind = Literal["dense", "r2d2", "quaternion", "low-rank"]
Sharing = Literal["none", "all", "all-but-last", "independent-ffn", "every-two", "sandwich"]


@dataclass(frozen=True, kw_only=True)
class LinearSpec:
    """Which member of the linear family a layer's projections are.

    Attributes:
        kind: The member.
        n: Kronecker factors of an R2D2 layer.
        rank: Inner width of a low-rank layer.
    """

    kind: LinearKind = "dense"
    n: int = 1
    rank: int = 0


@dataclass(frozen=True, kw_only=True)
class LayerSpec:
    """One layer of a stack. Widths are channels.

    Attributes:
        position: Place in its stack, from 0.
        owner: Position of the layer whose blocks (mixer, cross-attention, feed-forward) this one applies: its own, or
            that of an earlier layer whose parameters it shares. The LayerNorms around the blocks are never shared.
        input_dim: Width of what comes in; the layer begins with a projection where that is not ``embed_dim``.
        embed_dim: Width inside the layer and of what goes out.
        attention_dim: Width of the self-attention branch; 0 without one.
        conv_dim: Width of the convolution branch; 0 without one.
        ffn_dim: Width between the two Linears of the feed-forward block.
        num_heads: Heads of self-attention; 0 without it.
        kernel_size: Taps of the convolution; 0 without one.
        memory_dim: Width of the encoded source, at which cross-attention works; 0 in a layer without it.
        extra_linear: Whether a square Linear of its own follows the feed-forward block.
        self_attention: Kind of self-attention.
        self_feature_size: Features per head of a learned or random map in self-attention; else 0.
        cross_attention: Kind of cross-attention.
        cross_feature_size: The same in cross-attention.
        attention_expansion: Inner width of self- and cross-attention, as a multiple of the width around it.
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
    kernel_size: int
    memory_dim: int
    extra_linear: bool
    self_attention: AttentionKind = "softmax"
    self_feature_size: int = 0
    cross_attention: AttentionKind = "softmax"
    cross_feature_size: int = 0
    attention_expansion: int = 1
    attention_linear: LinearSpec = LinearSpec()
    ffn_linear: LinearSpec = LinearSpec()
    conv_linear: LinearSpec = LinearSpec()

    @property
    def is_owner(self) -> bool:
        """Whether the layer has blocks of its own."""
        return self.owner == self.position


def layer_owners(sharing: Sharing, num_layers: int) -> tuple[int, ...]:
    """Per position, the position of the layer whose parameters it uses (Subformer, section 3.3)."""
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
    """Heads of an attention whose width is not the model's (rule of the Subformer's released code).

    64 channels each, 128 beyond 1024 channels; where 64 does not divide the width, and at 640, as many heads up to ten
    as divide it (at 640: eight of 80).
    """
    if width == 640:
        return 8
    if width % 64 == 0:
        per_head = 128 if width > 1024 and width % 128 == 0 else 64
        return width // per_head
    return next(heads for heads in range(10, 0, -1) if width % heads == 0)


def encoder_specs(config: "ModelConfig") -> tuple[LayerSpec, ...]:
    """The encoder's layers, first to last; none in an architecture without an encoder."""
    layers = config.num_encoder_layers if config.has_encoder else 0
    return _specs(config, num_layers=layers, kernel_sizes=config.kernel_sizes, memory_dim=0, causal=False)


def decoder_specs(config: "ModelConfig") -> tuple[LayerSpec, ...]:
    """The decoder's layers, first to last; none in an architecture without a decoder."""
    return _specs(
        config,
        num_layers=config.num_decoder_layers if config.has_decoder else 0,
        kernel_sizes=config.decoder_kernel_sizes,
        memory_dim=config.embed_dim if config.has_encoder else 0,
        causal=True,
    )


def _specs(
    config: "ModelConfig", *, num_layers: int, kernel_sizes: tuple[int, ...], memory_dim: int, causal: bool
) -> tuple[LayerSpec, ...]:
    specs: list[LayerSpec] = []
    for position, owner in enumerate(layer_owners(config.sharing, num_layers)):
        inside = config.sharing == "sandwich" and 0 < position < num_layers - 1
        width = (config.sandwich_dim or config.embed_dim) if inside else config.embed_dim
        attention_dim = config.attention_share(width)
        # Counted from the top layer, which is the first.
        kept = config.keep_softmax_every and (num_layers - position) % config.keep_softmax_every == 0
        linearized = causal and not kept
        specs.append(
            LayerSpec(
                position=position,
                owner=owner,
                input_dim=specs[-1].embed_dim if specs else config.embed_dim,
                embed_dim=width,
                attention_dim=attention_dim,
                conv_dim=width - attention_dim,
                ffn_dim=(config.sandwich_ffn_dim or config.ffn_dim) if inside else config.ffn_dim,
                num_heads=_heads(config, width, attention_dim),
                kernel_size=kernel_sizes[position] if kernel_sizes else 0,
                memory_dim=memory_dim,
                extra_linear=config.sharing == "independent-ffn",
                self_attention=config.self_attention if linearized else "softmax",
                self_feature_size=config.self_feature_size if linearized else 0,
                cross_attention=config.cross_attention if linearized else "softmax",
                cross_feature_size=config.cross_feature_size if linearized else 0,
                attention_expansion=config.attention_expansion,
                attention_linear=_linear(config, config.attention_linear),
                ffn_linear=_linear(config, config.ffn_linear),
                conv_linear=_linear(config, config.conv_linear),
            )
        )
    return tuple(specs)


def lstm_linear(config: "ModelConfig") -> LinearSpec:
    """The gates of an LSTM."""
    return _linear(config, config.lstm_linear)


def _heads(config: "ModelConfig", width: int, attention_dim: int) -> int:
    if not attention_dim:
        return 0
    return config.num_heads if width == config.embed_dim else derived_heads(attention_dim)


def _linear(config: "ModelConfig", kind: LinearKind) -> LinearSpec:
    return LinearSpec(
        kind=kind,
        n=config.linear_n if kind == "r2d2" else 1,
        rank=config.linear_rank if kind == "low-rank" else 0,
    )
