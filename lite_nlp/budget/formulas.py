"""Parameters and Mult-Adds of an encoder-decoder in closed form, from its config alone. Imports no torch.

One Mult-Add is one multiply-accumulate. Two conventions are counted side by side:

* ``paper``: what the published tables of Lite Transformer (Wu et al., 2020) count. A teacher-forced forward of one
  sentence: every weight matrix inside the layers once per token it is applied to, kernel generators, attention scores
  and sums as full rectangles, LayerNorm as one per element. The output projection and the taps of the convolutions
  are left out.
* ``executed``: what a device does to translate one sentence with caches. The encoder over the source, the keys and
  values of cross-attention once over the source, then one decoder step per target token and hypothesis of the beam:
  causal attention over the tokens so far, the taps of every convolution, and the output projection at every step.
  LayerNorm counts as above.

A beam multiplies every step, the first too, though a search may start from a single hypothesis there: encoder and the
projections of the encoded source are shared by the beam, all else in the decoder and the output is not.

Neither counts embedding look-ups, biases, residual sums, softmax, GLU, ReLU or scaling.
"""

from collections.abc import Iterator
from dataclasses import replace

from lite_nlp.budget.blocks import Rows, attention, convolution, feed_forward, layer_norm, linear
from lite_nlp.budget.counts import Cost, ModelCount, Operation, sum_costs
from lite_nlp.errors import ConfigError
from lite_nlp.models.config import ModelConfig

__all__ = ["Cost", "ModelCount", "Operation", "count_model"]


def count_model(model: ModelConfig, *, src_len: int = 30, tgt_len: int = 30, beam: int = 1) -> ModelCount:
    """Count the parameters and Mult-Adds of ``model``.

    Args:
        model: The architecture.
        src_len: Source tokens, end mark included.
        tgt_len: Target tokens, end mark included: the number of decoder steps.
        beam: Hypotheses that every step extends; the ``paper`` convention knows no beam and stays as it is.

    Raises:
        ConfigError: If a length is below 1 or beyond the model's ``max_positions``, or the beam is below 1.
    """
    if beam < 1:
        raise ConfigError(f"beam: expected at least 1 hypothesis, found {beam}")
    for name, length in (("source", src_len), ("target", tgt_len)):
        if not 1 <= length <= model.max_positions:
            raise ConfigError(
                f"{name} length: expected 1 to {model.max_positions} tokens (model.max_positions), found {length}"
            )
    source = Rows(paper=src_len, executed=src_len)
    target = Rows(paper=tgt_len, executed=tgt_len * beam)
    costs = (
        *_embeddings(model),
        *_encoder(model, source),
        *_decoder(model, source, target, beam),
        _output(model, target),
    )
    return ModelCount(src_len=src_len, tgt_len=tgt_len, beam=beam, costs=sum_costs(costs))


def _embeddings(model: ModelConfig) -> Iterator[Cost]:
    """Look-up tables; looking a row up multiplies nothing."""
    yield Cost(part="embeddings.source", operation="embedding", params=model.src_vocab_size * model.embed_dim)
    if model.tie_embeddings != "all":
        yield Cost(part="embeddings.target", operation="embedding", params=model.tgt_vocab_size * model.embed_dim)


def _encoder(model: ModelConfig, source: Rows) -> Iterator[Cost]:
    pairs = Rows(paper=source.paper**2, executed=source.executed**2)
    for layer in range(model.num_encoder_layers):
        yield from _mixer("encoder", model, source, pairs, model.kernel_sizes[layer : layer + 1])
        yield from feed_forward("encoder.ffn", model.embed_dim, model.ffn_dim, source)
        yield from (layer_norm("encoder.norm", model.embed_dim, source) for _ in range(2))
    if model.final_norm:
        yield layer_norm("encoder.norm", model.embed_dim, source)


def _decoder(model: ModelConfig, source: Rows, target: Rows, beam: int) -> Iterator[Cost]:
    # Step t of the device attends to t tokens.
    pairs = Rows(paper=target.paper**2, executed=beam * (target.paper * (target.paper + 1) // 2))
    cross_pairs = Rows(paper=target.paper * source.paper, executed=target.executed * source.executed)
    for layer in range(model.num_decoder_layers):
        yield from _mixer("decoder", model, target, pairs, model.decoder_kernel_sizes[layer : layer + 1])
        yield from attention("decoder.cross_attention", model.embed_dim, queries=target, keys=source, pairs=cross_pairs)
        yield from feed_forward("decoder.ffn", model.embed_dim, model.ffn_dim, target)
        yield from (layer_norm("decoder.norm", model.embed_dim, target) for _ in range(3))
    if model.final_norm:
        yield layer_norm("decoder.norm", model.embed_dim, target)


def _mixer(stack: str, model: ModelConfig, tokens: Rows, pairs: Rows, kernel_size: tuple[int, ...]) -> Iterator[Cost]:
    """Self-attention and convolution of one layer, whichever the family has; one kernel size or none."""
    if model.attention_dim:
        yield from attention(f"{stack}.attention", model.attention_dim, queries=tokens, keys=tokens, pairs=pairs)
    for size in kernel_size:
        yield from convolution(
            stack,
            model.conv_dim,
            tokens,
            kernel_size=size,
            num_heads=model.conv_num_heads,
            dynamic=model.conv_type == "dynamic",
            glu=model.conv_glu,
        )


def _output(model: ModelConfig, target: Rows) -> Cost:
    """The projection to the target vocabulary: no part of the paper's Mult-Adds, a large one of the device's."""
    projection = linear("output", model.embed_dim, model.tgt_vocab_size, target, bias=False, operation="output")
    return replace(projection, params=projection.params if model.tie_embeddings == "none" else 0, paper=0)
