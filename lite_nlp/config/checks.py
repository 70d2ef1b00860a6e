"""Checks of what must hold between the keys of a model's configuration. Imports no torch.

Every function raises ``ValueError`` with the key, what was expected and what was found.
"""

import itertools

from lite_nlp.config.blocks import (
    BaseModelConfig,
    ClassifierConfig,
    CrossAttentionConfig,
    DecoderConfig,
    EncoderConfig,
    LayeredConfig,
)
from lite_nlp.config.kinds import ATTENTION_KINDS, LINEAR_KINDS, AttentionKind, LinearKind, LinearSpec
from lite_nlp.config.layers import LayerSpec, decoder_specs, encoder_specs, linear_spec

__all__ = ["check_adaptive_tables", "check_layers", "check_lstm", "check_shared_vocabulary"]


def check_layers(model: LayeredConfig) -> None:
    """Check a model that consists of stacks of layers."""
    _check_embedding_dim(model)
    for key, width in (("embed_dim", model.embed_dim), ("sandwich_dim", model.sandwich_dim)):
        if model.family == "lite-transformer" and width % 2:
            raise ValueError(f"{key}: a lite-transformer splits it in halves, expected an even number, found {width}")
    _check_family(model)
    _check_all_heads(model)
    if isinstance(model, EncoderConfig):
        _check_kernels(model, "kernel_sizes", model.kernel_sizes, model.num_encoder_layers)
        for size in model.kernel_sizes:
            if size % 2 == 0:
                raise ValueError(f"kernel_sizes: expected odd sizes (centred in the encoder), found {size}")
    if isinstance(model, DecoderConfig):
        _check_kernels(model, "decoder_kernel_sizes", model.decoder_kernel_sizes, model.num_decoder_layers)
    _check_sharing(model)
    _check_attention(model)
    kinds = {model.attention_linear, model.ffn_linear, model.conv_linear}
    _check_linear_sizes(model, kinds)
    if not model.conv_dim:
        _check_no_convolution(model)
    for stack, specs in (("encoder", encoder_specs(model)), ("decoder", decoder_specs(model))):
        for spec in specs:
            _check_layer(model, spec)
            _check_same_blocks(stack, specs[spec.owner], spec)


def check_lstm(model: ClassifierConfig, kind: LinearKind) -> None:
    """Check an LSTM whose gates are of ``kind``."""
    if model.family == "r2d2" and kind == "dense":
        raise ValueError("family = 'r2d2': expected one of these to be set, found lstm_linear = 'dense'")
    _check_linear_sizes(model, {kind})
    _check_widths("lstm_linear", linear_spec(model, kind), model.table_dim, model.embed_dim)


def check_shared_vocabulary(tie_embeddings: str, *, src_types: int, tgt_types: int) -> None:
    """Check that one table for source and target stands for one vocabulary."""
    if tie_embeddings == "all" and src_types != tgt_types:
        raise ValueError(
            "tie_embeddings = 'all' needs one vocabulary: expected src_vocab_size = tgt_vocab_size, "
            f"found {src_types} and {tgt_types}"
        )


def check_adaptive_tables(model: DecoderConfig, *, cutoffs: tuple[int, ...], factor: int, default_factor: int) -> None:
    """Check adaptive embeddings, or that the keys that describe them are left alone without them."""
    if model.embedding != "adaptive":
        if cutoffs:
            raise ValueError(f"adaptive_cutoffs: expected none without embedding = 'adaptive', found {list(cutoffs)}")
        if factor != default_factor:
            raise ValueError(
                f"adaptive_factor: expected {default_factor} without embedding = 'adaptive', found {factor}"
            )
        return
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


def _check_embedding_dim(model: LayeredConfig) -> None:
    if model.embedding in ("table", "adaptive") and model.table_dim != model.embed_dim:
        raise ValueError(
            f"embedding_dim: expected embed_dim ({model.embed_dim}) or 0 with embedding = {model.embedding!r}, "
            f"found {model.embedding_dim}"
        )
    if model.safe_dropout and model.embedding != "safe":
        raise ValueError(f"safe_dropout: expected false with embedding = {model.embedding!r}, found true")


def _check_family(model: LayeredConfig) -> None:
    """A family that names an option must use that option."""
    shown = {
        "subformer": ("sharing", "embedding"),
        "r2d2": ("attention_linear", "ffn_linear", "conv_linear"),
        "t2r": ("self_attention", "cross_attention"),
    }.get(model.family, ())
    fields = type(model).model_fields
    plain = {key: fields[key].default for key in shown if key in fields}
    if plain and all(getattr(model, key) == value for key, value in plain.items()):
        found = ", ".join(f"{key} = {value!r}" for key, value in plain.items())
        raise ValueError(f"family = {model.family!r}: expected one of these to be set, found {found}")


def _check_no_convolution(model: LayeredConfig) -> None:
    """What a convolution would be is left alone where there is none, so that nobody believes that there is one."""
    for key in ("conv_type", "conv_glu", "conv_linear"):
        plain, found = type(model).model_fields[key].default, getattr(model, key)
        if found != plain:
            wanted, other = (str(value).lower() if isinstance(value, bool) else repr(value) for value in (plain, found))
            raise ValueError(f"{key}: expected {wanted} in a {model.family}, which has no convolution, found {other}")


def _check_all_heads(model: LayeredConfig) -> None:
    times = model.attention_expansion
    if not model.head_dim:
        _check_heads("num_heads", model.num_heads, "the attention channels", times * model.attention_dim)
    for key, width, part in (
        ("head_dim", model.attention_dim, "self-attention"),
        ("conv_head_dim", model.conv_dim, "convolution"),
    ):
        found = getattr(model, key)
        if found and not width:
            raise ValueError(f"{key}: expected 0 in a {model.family}, which has no {part}, found {found}")
    if isinstance(model, CrossAttentionConfig) and not model.cross_head_dim:
        what = "embed_dim" if times == 1 else "attention_expansion * embed_dim"
        _check_heads("cross_num_heads", model.cross_num_heads, what, times * model.embed_dim)


def _check_heads(key: str, heads: int, what: str, channels: int) -> None:
    if channels % heads:
        raise ValueError(f"{key}: expected a divisor of {what} ({channels}), found {heads}")


def _check_kernels(model: LayeredConfig, key: str, sizes: tuple[int, ...], layers: int) -> None:
    expected = layers if model.conv_dim else 0
    if len(sizes) != expected:
        raise ValueError(
            f"{key}: expected {expected} sizes for a {model.family} with {layers} layers, found {len(sizes)}"
        )
    for size in sizes:
        if size < 1:
            raise ValueError(f"{key}: expected sizes of at least 1, found {size}")


def _check_sharing(model: LayeredConfig) -> None:
    for key, width in (("sandwich_dim", model.sandwich_dim), ("sandwich_ffn_dim", model.sandwich_ffn_dim)):
        if model.sharing != "sandwich" and width:
            raise ValueError(f"{key}: expected 0 without sharing = 'sandwich', found {width}")
    if model.sharing != "sandwich" and model.sandwich_heads != "configured":
        raise ValueError(
            f"sandwich_heads: expected 'configured' without sharing = 'sandwich', found {model.sandwich_heads!r}"
        )
    needed = {"sandwich": 3, "all-but-last": 2}.get(model.sharing, 1)
    stacks = {}
    if isinstance(model, EncoderConfig):
        stacks["num_encoder_layers"] = model.num_encoder_layers
    if isinstance(model, DecoderConfig):
        stacks["num_decoder_layers"] = model.num_decoder_layers
    for key, layers in stacks.items():
        if layers < needed:
            raise ValueError(
                f"{key}: expected at least {needed} layers with sharing = {model.sharing!r}, found {layers}"
            )


def _check_attention(model: LayeredConfig) -> None:
    kinds = {}
    if isinstance(model, DecoderConfig):
        kinds["self"] = model.self_attention, model.self_feature_size
    if isinstance(model, CrossAttentionConfig):
        kinds["cross"] = model.cross_attention, model.cross_feature_size
    for part, (kind, size) in kinds.items():
        _check_feature_size(part, kind, size)
    if model.attention_expansion != 1 and not model.attention_dim and "cross" not in kinds:
        raise ValueError(
            f"attention_expansion: expected 1 in a {model.family} without cross-attention, which has no attention, "
            f"found {model.attention_expansion}"
        )
    if isinstance(model, DecoderConfig):
        if model.self_attention != "softmax" and not model.attention_dim:
            raise ValueError(f"self_attention: a {model.family} has none, found {model.self_attention!r}")
        _check_kept_softmax(model, {kind for kind, _ in kinds.values()})


def _check_feature_size(part: str, kind: AttentionKind, size: int) -> None:
    """``part`` is ``self`` or ``cross``."""
    facts, key = ATTENTION_KINDS[kind], f"{part}_feature_size"
    if not facts.has_feature_size:
        if size:
            raise ValueError(f"{key}: expected 0 with {part}_attention = {kind!r}, found {size}")
        return
    if size < 1:
        raise ValueError(f"{key}: expected at least 1 with {part}_attention = {kind!r}, found {size}")
    if size % facts.feature_multiple:
        expected = "an even number" if facts.feature_multiple == 2 else f"a multiple of {facts.feature_multiple}"
        raise ValueError(f"{key}: expected {expected} with {part}_attention = {kind!r}, found {size}")


def _check_kept_softmax(model: DecoderConfig, kinds: set[AttentionKind]) -> None:
    every = model.keep_softmax_every
    if not every:
        return
    if kinds == {"softmax"}:
        raise ValueError(f"keep_softmax_every: expected 0 where all attention is softmax, found {every}")
    if not 2 <= every <= model.num_decoder_layers:
        raise ValueError(
            f"keep_softmax_every: expected 0 or 2 to num_decoder_layers ({model.num_decoder_layers}), found {every}"
        )


def _check_linear_sizes(model: BaseModelConfig, kinds: set[LinearKind]) -> None:
    """The sizes of factorized projections are set where there are such projections, and nowhere else."""
    facts = [LINEAR_KINDS[kind] for kind in kinds]
    if model.linear_n != 1 and not any(kind.has_factors for kind in facts):
        raise ValueError(f"linear_n: expected 1 without an r2d2 projection, found {model.linear_n}")
    has_rank = any(kind.has_rank for kind in facts)
    if has_rank and model.linear_rank < 1:
        raise ValueError(f"linear_rank: expected at least 1 with a low-rank projection, found {model.linear_rank}")
    if not has_rank and model.linear_rank:
        raise ValueError(f"linear_rank: expected 0 without a low-rank projection, found {model.linear_rank}")


def _check_layer(model: LayeredConfig, spec: LayerSpec) -> None:
    if not model.conv_head_dim:
        _check_heads("conv_num_heads", model.conv_num_heads, "the convolution channels", spec.conv_dim)
    attention = (spec.attention_dim, spec.inner_dim, spec.memory_dim, spec.cross_inner_dim)
    _check_widths("attention_linear", spec.attention_linear, *attention)
    _check_widths("ffn_linear", spec.ffn_linear, spec.embed_dim, spec.ffn_dim)
    _check_widths("conv_linear", spec.conv_linear, spec.conv_dim, spec.conv_inner_dim)


def _check_widths(key: str, linear: LinearSpec, *widths: int) -> None:
    """The widths that a block's projections map between must divide as their kind needs it."""
    facts = LINEAR_KINDS[linear.kind]
    for width in widths:
        if width % facts.width_multiple:
            raise ValueError(
                f"{key} = {linear.kind!r}: expected widths that are a multiple of {facts.width_multiple}, found {width}"
            )
        if width % linear.n:
            raise ValueError(
                f"{key} = {linear.kind!r}: expected widths that are a multiple of linear_n = {linear.n}, found {width}"
            )
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
