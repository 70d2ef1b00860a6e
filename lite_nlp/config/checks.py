"""What must hold between the keys of a model's configuration. Imports no torch.

Every function raises ``ValueError`` with the key, what was expected and what was found.
"""

import itertools
from typing import TYPE_CHECKING, Final

from lite_nlp.config.layers import LayerSpec, LinearSpec, decoder_specs, encoder_specs, lstm_linear

if TYPE_CHECKING:
    from lite_nlp.config.model import ModelConfig

__all__ = ["absent_keys", "check_model"]

#: Channels of a quaternion layer come in fours.
_QUATERNION_PARTS: Final = 4

_CROSS: Final = ("cross_num_heads", "cross_attention", "cross_feature_size")

#: Keys of blocks that an architecture does not have.
_ABSENT: Final[dict[str, tuple[str, ...]]] = {
    "language-model": ("src_vocab_size", "num_encoder_layers", "kernel_sizes", *_CROSS),
    "sequence-classifier": (
        "tgt_vocab_size",
        "tie_embeddings",
        "num_decoder_layers",
        "decoder_kernel_sizes",
        "self_attention",
        "self_feature_size",
        "keep_softmax_every",
        *_CROSS,
    ),
    "pair-classifier": (
        "tgt_vocab_size",
        "tie_embeddings",
        "embedding",
        "num_encoder_layers",
        "num_decoder_layers",
        "sharing",
        "num_heads",
        "attention_expansion",
        "self_attention",
        "self_feature_size",
        "keep_softmax_every",
        "attention_linear",
        "ffn_linear",
        "conv_linear",
        "kernel_sizes",
        "decoder_kernel_sizes",
        "conv_type",
        "conv_glu",
        "conv_num_heads",
        "pre_norm",
        "final_norm",
        "attention_dropout",
        "ffn_dropout",
        "conv_dropout",
        *_CROSS,
    ),
}

_CLASSIFIERS: Final = ("sequence-classifier", "pair-classifier")


def absent_keys(architecture: str) -> tuple[str, ...]:
    """Keys of blocks that an architecture does not have; they keep their defaults and mean nothing."""
    return _ABSENT.get(architecture, ())


def check_model(model: "ModelConfig") -> None:
    """Check everything that one key alone does not show."""
    _check_absent(model)
    _check_embeddings(model)
    for key, width in (("embed_dim", model.embed_dim), ("sandwich_dim", model.sandwich_dim)):
        if model.family == "lite-transformer" and width % 2:
            raise ValueError(f"{key}: a lite-transformer splits it in halves, expected an even number, found {width}")
    _check_family(model)
    _check_classifier(model)
    times = model.attention_expansion
    if model.has_encoder or model.has_decoder:
        _check_heads("num_heads", model.num_heads, "the attention channels", times * model.attention_dim)
    if model.has_encoder and model.has_decoder:
        what = "embed_dim" if times == 1 else "attention_expansion * embed_dim"
        _check_heads("cross_num_heads", model.cross_num_heads, what, times * model.embed_dim)
    if model.has_encoder:
        _check_kernels(model, "kernel_sizes", model.kernel_sizes, model.num_encoder_layers)
    if model.has_decoder:
        _check_kernels(model, "decoder_kernel_sizes", model.decoder_kernel_sizes, model.num_decoder_layers)
    for size in model.kernel_sizes:
        if size % 2 == 0:
            raise ValueError(f"kernel_sizes: expected odd sizes (centred in the encoder), found {size}")
    _check_sharing(model)
    _check_attention(model)
    _check_linear(model)
    for stack, specs in (("encoder", encoder_specs(model)), ("decoder", decoder_specs(model))):
        for spec in specs:
            _check_heads("conv_num_heads", model.conv_num_heads, "the convolution channels", spec.conv_dim)
            _check_widths("attention_linear", spec.attention_linear, spec.attention_dim, spec.memory_dim)
            _check_widths("ffn_linear", spec.ffn_linear, spec.embed_dim, spec.ffn_dim)
            _check_widths("conv_linear", spec.conv_linear, spec.conv_dim)
            _check_same_blocks(stack, specs[spec.owner], spec)


def _check_absent(model: "ModelConfig") -> None:
    fields = type(model).model_fields
    for key in absent_keys(model.architecture):
        default, found = fields[key].default, getattr(model, key)
        if found != default:
            raise ValueError(f"{key}: a {model.architecture} has no such block, expected {default!r}, found {found!r}")


def _check_embeddings(model: "ModelConfig") -> None:
    tied = model.tie_embeddings
    if model.architecture == "encoder-decoder" and tied == "all" and model.src_vocab_size != model.tgt_vocab_size:
        raise ValueError(
            "tie_embeddings = 'all' needs one vocabulary: expected src_vocab_size = tgt_vocab_size, "
            f"found {model.src_vocab_size} and {model.tgt_vocab_size}"
        )
    if model.architecture == "language-model" and tied == "decoder":
        raise ValueError("tie_embeddings: expected 'all' or 'none' in a language-model, found 'decoder'")
    # An LSTM takes embeddings of any width.
    fixed = model.embedding in ("table", "adaptive") and model.architecture != "pair-classifier"
    if fixed and model.table_dim != model.embed_dim:
        raise ValueError(
            f"embedding_dim: expected embed_dim ({model.embed_dim}) or 0 with embedding = {model.embedding!r}, "
            f"found {model.embedding_dim}"
        )
    _check_adaptive(model)


def _check_adaptive(model: "ModelConfig") -> None:
    cutoffs, factor = model.adaptive_cutoffs, model.adaptive_factor
    if model.embedding != "adaptive":
        if cutoffs:
            raise ValueError(f"adaptive_cutoffs: expected none without embedding = 'adaptive', found {list(cutoffs)}")
        default = type(model).model_fields["adaptive_factor"].default
        if factor != default:
            raise ValueError(
                f"adaptive_factor: expected {default} without embedding = 'adaptive', found {model.adaptive_factor}"
            )
        return
    if model.architecture != "language-model":
        raise ValueError(f"embedding = 'adaptive': expected a language-model, found {model.architecture!r}")
    if model.tie_embeddings != "all":
        raise ValueError(f"tie_embeddings: expected 'all' with embedding = 'adaptive', found {model.tie_embeddings!r}")
    bounds = (0, *cutoffs, model.tgt_vocab_size)
    if not cutoffs or any(low >= high for low, high in itertools.pairwise(bounds)):
        raise ValueError(
            "adaptive_cutoffs: expected rising numbers of types between 0 and tgt_vocab_size "
            f"({model.tgt_vocab_size}), found {list(cutoffs)}"
        )
    narrowest = factor ** len(cutoffs)
    if model.embed_dim % narrowest:
        raise ValueError(
            f"adaptive_factor: expected embed_dim ({model.embed_dim}) to be a multiple of its power {narrowest}, "
            f"found {factor} with {len(cutoffs)} cutoffs"
        )


def _check_family(model: "ModelConfig") -> None:
    shown = {
        "subformer": ("sharing", "embedding"),
        "r2d2": ("attention_linear", "ffn_linear", "conv_linear", "lstm_linear"),
        "t2r": ("self_attention", "cross_attention"),
    }.get(model.family, ())
    plain = {key: type(model).model_fields[key].default for key in shown}
    if shown and all(getattr(model, key) == value for key, value in plain.items()):
        found = ", ".join(f"{key} = {value!r}" for key, value in plain.items())
        raise ValueError(f"family = {model.family!r}: expected one of these to be set, found {found}")


def _check_classifier(model: "ModelConfig") -> None:
    classifies, has_lstm = model.architecture in _CLASSIFIERS, model.architecture == "pair-classifier"
    if classifies and model.num_classes < 2:
        raise ValueError(f"num_classes: expected at least 2 in a {model.architecture}, found {model.num_classes}")
    if not classifies and model.num_classes:
        raise ValueError(f"num_classes: expected 0 in a model that is no classifier, found {model.num_classes}")
    if has_lstm and model.family not in ("lstm", "r2d2"):
        raise ValueError(f"family: expected 'lstm' or 'r2d2' in a pair-classifier, found {model.family!r}")
    if not has_lstm and model.family == "lstm":
        raise ValueError(f"family = 'lstm': expected a pair-classifier, found {model.architecture!r}")
    if not has_lstm and model.lstm_linear != "dense":
        raise ValueError(f"lstm_linear: a {model.architecture} has no LSTM, found {model.lstm_linear!r}")
    if has_lstm:
        _check_widths("lstm_linear", lstm_linear(model), model.table_dim, model.embed_dim)


def _check_heads(key: str, heads: int, what: str, channels: int) -> None:
    if channels % heads:
        raise ValueError(f"{key}: expected a divisor of {what} ({channels}), found {heads}")


def _check_kernels(model: "ModelConfig", key: str, sizes: tuple[int, ...], layers: int) -> None:
    expected = layers if model.conv_dim else 0
    if len(sizes) != expected:
        raise ValueError(
            f"{key}: expected {expected} sizes for a {model.family} with {layers} layers, found {len(sizes)}"
        )
    for size in sizes:
        if size < 1:
            raise ValueError(f"{key}: expected sizes of at least 1, found {size}")


def _check_sharing(model: "ModelConfig") -> None:
    for key in ("sandwich_dim", "sandwich_ffn_dim"):
        if model.sharing != "sandwich" and getattr(model, key):
            raise ValueError(f"{key}: expected 0 without sharing = 'sandwich', found {getattr(model, key)}")
    needed = {"sandwich": 3, "all-but-last": 2}.get(model.sharing, 1)
    stacks = {"num_encoder_layers": model.has_encoder, "num_decoder_layers": model.has_decoder}
    for key in (key for key, present in stacks.items() if present):
        if getattr(model, key) < needed:
            raise ValueError(
                f"{key}: expected at least {needed} layers with sharing = {model.sharing!r}, "
                f"found {getattr(model, key)}"
            )


def _check_attention(model: "ModelConfig") -> None:
    for kind_key, size_key in (
        ("self_attention", "self_feature_size"),
        ("cross_attention", "cross_feature_size"),
    ):
        kind, size = getattr(model, kind_key), getattr(model, size_key)
        if kind in ("t2r", "random-features") and size < 1:
            raise ValueError(f"{size_key}: expected at least 1 with {kind_key} = {kind!r}, found {size}")
        if kind == "random-features" and size % 2:
            raise ValueError(f"{size_key}: expected an even number (sines and cosines), found {size}")
        if kind in ("softmax", "elu") and size:
            raise ValueError(f"{size_key}: expected 0 with {kind_key} = {kind!r}, found {size}")
    if model.attention_expansion != 1 and not (model.attention_dim or (model.has_encoder and model.has_decoder)):
        raise ValueError(
            f"attention_expansion: expected 1 in a {model.family} without cross-attention, which has no attention, "
            f"found {model.attention_expansion}"
        )
    if model.self_attention != "softmax" and not model.attention_dim:
        raise ValueError(f"self_attention: a {model.family} has none, found {model.self_attention!r}")
    if model.keep_softmax_every:
        if model.self_attention == model.cross_attention == "softmax":
            raise ValueError(
                f"keep_softmax_every: expected 0 where all attention is softmax, found {model.keep_softmax_every}"
            )
        if not 2 <= model.keep_softmax_every <= model.num_decoder_layers:
            raise ValueError(
                f"keep_softmax_every: expected 0 or 2 to num_decoder_layers ({model.num_decoder_layers}), "
                f"found {model.keep_softmax_every}"
            )


def _check_linear(model: "ModelConfig") -> None:
    kinds = {model.attention_linear, model.ffn_linear, model.conv_linear, model.lstm_linear}
    if model.linear_n != 1 and "r2d2" not in kinds:
        raise ValueError(f"linear_n: expected 1 without an r2d2 projection, found {model.linear_n}")
    if "low-rank" in kinds and model.linear_rank < 1:
        raise ValueError(f"linear_rank: expected at least 1 with a low-rank projection, found {model.linear_rank}")
    if "low-rank" not in kinds and model.linear_rank:
        raise ValueError(f"linear_rank: expected 0 without a low-rank projection, found {model.linear_rank}")
    if model.conv_linear != "dense" and not model.conv_dim:
        raise ValueError(f"conv_linear: a {model.family} has no convolution, found {model.conv_linear!r}")


def _check_widths(key: str, linear: LinearSpec, *widths: int) -> None:
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
