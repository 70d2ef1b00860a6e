"""Size of the state that decoding carries from step to step, in closed form. Imports no torch."""

from lite_nlp.budget.closed_form.attention import AttentionBlock, cross_attention_block, self_attention_block
from lite_nlp.config.blocks import DecoderConfig
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
        block = AttentionBlock(part="embeddings.target_input", width=model.table_dim, num_heads=1)
        add(block.part, block.state_numbers(tgt_len))
    for spec in decoder_specs(model):
        if spec.attention_dim:
            add("decoder.attention", self_attention_block("decoder.attention", spec).state_numbers(tgt_len))
        add("decoder.convolution", max(spec.kernel_size - 1, 0) * spec.conv_inner_dim)
        if spec.memory_dim:
            add(
                "decoder.cross_attention", cross_attention_block("decoder.cross_attention", spec).state_numbers(src_len)
            )
    return sizes
