"""Size of the state that decoding carries from step to step, in closed form. Imports no torch."""

from lite_nlp.config.blocks import DecoderConfig
from lite_nlp.config.kinds import AttentionKind
from lite_nlp.config.layers import decoder_specs
from lite_nlp.config.model import ModelConfig

__all__ = ["count_state"]


def count_state(model: ModelConfig, *, src_len: int = 30, tgt_len: int = 30) -> dict[str, int]:
    """Size of the decoding state of one hypothesis per part, in numbers, as which keys and values are stored.

    Softmax attention keeps keys and values of the whole length, linear attention a state and a normalizer of constant
    size (T2R, section 2.2), a convolution its last inputs. The position and the source mask are left out.

    Args:
        model: The architecture.
        src_len: Source tokens.
        tgt_len: Steps that the caches have room for.

    Returns:
        Parts in the order of the computation, with as many numbers as all layers keep; none that keep nothing.
    """
    sizes: dict[str, int] = {}

    def add(part: str, numbers: int) -> None:
        if numbers:
            sizes[part] = sizes.get(part, 0) + numbers

    if isinstance(model, DecoderConfig) and model.embedding == "safe":
        add("embeddings.target_input", _attention("softmax", model.table_dim, 1, 0, tgt_len))
    for spec in decoder_specs(model):
        times = spec.attention_expansion
        if spec.attention_dim:
            kind, size = spec.self_attention, spec.self_feature_size
            add("decoder.attention", _attention(kind, times * spec.attention_dim, spec.num_heads, size, tgt_len))
        add("decoder.convolution", max(spec.kernel_size - 1, 0) * spec.conv_dim)
        kind, size = spec.cross_attention, spec.cross_feature_size
        inner = times * spec.memory_dim
        add("decoder.cross_attention", _attention(kind, inner, spec.cross_num_heads, size, src_len))
    return sizes


def _attention(kind: AttentionKind, width: int, num_heads: int, feature_size: int, length: int) -> int:
    if kind == "softmax":
        return 2 * width * length
    features = width // num_heads if kind == "elu" else feature_size
    return features * width + num_heads * features
