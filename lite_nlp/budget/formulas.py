"""Parameters and Mult-Adds of an encoder-decoder in closed form, from its config alone. Imports no torch.

One Mult-Add is one multiply-accumulate. Two conventions are counted side by side:

* ``paper``: what the published tables of Lite Transformer (Wu et al., 2020) count. A teacher-forced forward of one
  sentence: every weight matrix inside the layers once per token it is applied to, kernel generators, attention scores
  and sums as full rectangles, LayerNorm as one per element. The output projection and the taps of the convolutions
  are left out.
* ``executed``: what a device does to translate one sentence greedily with caches. The encoder over the source, then
  one decoder step per target token: causal attention over the tokens so far, cross-attention keys and values once
  over the source, the taps of every convolution, and the output projection at every step. LayerNorm counts as above.

Neither counts embedding look-ups, biases, residual sums, softmax, GLU, ReLU or scaling.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from lite_nlp.errors import ConfigError
from lite_nlp.models.config import ModelConfig

__all__ = ["Cost", "ModelCount", "Operation", "count_model"]

Operation = Literal["embedding", "linear", "kernel_generator", "attention", "layer_norm", "conv_taps", "output"]


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one operation of one part costs, all layers together.

    Attributes:
        part: Dotted name of the part, such as ``encoder.ffn``.
        operation: The kind of work.
        params: Parameters that belong to it; a shared table counts once, where it first occurs.
        paper: Mult-Adds in the ``paper`` convention.
        executed: Mult-Adds in the ``executed`` convention.
    """

    part: str
    operation: Operation
    params: int = 0
    paper: int = 0
    executed: int = 0


@dataclass(frozen=True, kw_only=True)
class ModelCount:
    """Parameters and Mult-Adds of one model at one pair of lengths; all figures are exact integers.

    Attributes:
        src_len: Source tokens, end mark included.
        tgt_len: Target tokens, which is the number of decoder steps.
        costs: Every operation of every part, in the order of the computation.
    """

    src_len: int
    tgt_len: int
    costs: tuple[Cost, ...]

    @property
    def params_total(self) -> int:
        """All parameters, shared tables once."""
        return sum(cost.params for cost in self.costs)

    @property
    def params_embeddings(self) -> int:
        """Parameters of the input look-up tables, whether or not the output projection shares one."""
        return sum(cost.params for cost in self.costs if cost.operation == "embedding")

    @property
    def params_paper(self) -> int:
        """Parameters as the paper's tables count them: without input look-up tables, with an untied output."""
        return self.params_total - self.params_embeddings

    @property
    def macs_paper(self) -> int:
        """Mult-Adds in the ``paper`` convention."""
        return sum(cost.paper for cost in self.costs)

    @property
    def macs_executed(self) -> int:
        """Mult-Adds in the ``executed`` convention."""
        return sum(cost.executed for cost in self.costs)

    def by_part(self) -> dict[str, Cost]:
        """Costs summed per part, in the order of the computation; ``operation`` is that of the part's first cost."""
        return _summed(self.costs, lambda cost: cost.part)

    def by_operation(self) -> dict[str, Cost]:
        """Costs summed per operation; ``part`` is that of the operation's first cost."""
        return _summed(self.costs, lambda cost: cost.operation)


def count_model(model: ModelConfig, *, src_len: int = 30, tgt_len: int = 30) -> ModelCount:
    """Count the parameters and Mult-Adds of ``model``.

    Args:
        model: The architecture.
        src_len: Source tokens, end mark included.
        tgt_len: Target tokens, end mark included: the number of decoder steps.

    Raises:
        ConfigError: If a length is below 1 or beyond the model's ``max_positions``.
    """
    for name, length in (("source", src_len), ("target", tgt_len)):
        if not 1 <= length <= model.max_positions:
            raise ConfigError(
                f"{name} length: expected 1 to {model.max_positions} tokens (model.max_positions), found {length}"
            )
    costs = (
        *_embeddings(model),
        *_encoder(model, src_len),
        *_decoder(model, src_len, tgt_len),
        _output(model, tgt_len),
    )
    return ModelCount(src_len=src_len, tgt_len=tgt_len, costs=costs)


def _summed(costs: Iterable[Cost], key: Callable[[Cost], str]) -> dict[str, Cost]:
    sums: dict[str, Cost] = {}
    for cost in costs:
        before = sums.get(key(cost), Cost(part=cost.part, operation=cost.operation))
        sums[key(cost)] = Cost(
            part=before.part,
            operation=before.operation,
            params=before.params + cost.params,
            paper=before.paper + cost.paper,
            executed=before.executed + cost.executed,
        )
    return sums


def _embeddings(model: ModelConfig) -> Iterator[Cost]:
    """Look-up tables; looking a row up multiplies nothing."""
    yield Cost(part="embeddings.source", operation="embedding", params=model.src_vocab_size * model.embed_dim)
    if model.tie_embeddings != "all":
        yield Cost(part="embeddings.target", operation="embedding", params=model.tgt_vocab_size * model.embed_dim)


def _encoder(model: ModelConfig, tokens: int) -> Iterator[Cost]:
    layers = model.num_encoder_layers
    if model.attention_dim:
        yield from _attention(
            "encoder.attention",
            layers,
            width=model.attention_dim,
            query_tokens=tokens,
            key_tokens=tokens,
            pairs_executed=tokens * tokens,
        )
    if model.conv_dim:
        yield from _convolution("encoder", model, model.kernel_sizes, tokens)
    yield _ffn("encoder.ffn", model, layers, tokens)
    yield _layer_norm("encoder.norm", model, 2 * layers, tokens)


def _decoder(model: ModelConfig, src_len: int, tgt_len: int) -> Iterator[Cost]:
    layers = model.num_decoder_layers
    if model.attention_dim:
        yield from _attention(
            "decoder.attention",
            layers,
            width=model.attention_dim,
            query_tokens=tgt_len,
            key_tokens=tgt_len,
            # Step t attends to t tokens.
            pairs_executed=tgt_len * (tgt_len + 1) // 2,
        )
    if model.conv_dim:
        yield from _convolution("decoder", model, model.decoder_kernel_sizes, tgt_len)
    yield from _attention(
        "decoder.cross_attention",
        layers,
        width=model.embed_dim,
        query_tokens=tgt_len,
        key_tokens=src_len,
        pairs_executed=tgt_len * src_len,
    )
    yield _ffn("decoder.ffn", model, layers, tgt_len)
    yield _layer_norm("decoder.norm", model, 3 * layers, tgt_len)


def _output(model: ModelConfig, tokens: int) -> Cost:
    """The projection to the target vocabulary: no part of the paper's Mult-Adds, a large one of the device's."""
    weights = model.tgt_vocab_size * model.embed_dim
    params = weights if model.tie_embeddings == "none" else 0
    return Cost(part="output", operation="output", params=params, executed=weights * tokens)


def _attention(
    part: str, layers: int, *, width: int, query_tokens: int, key_tokens: int, pairs_executed: int
) -> Iterator[Cost]:
    """Four square projections with biases; scores and weighted sums take ``width`` Mult-Adds per pair each."""
    linear = layers * (2 * query_tokens + 2 * key_tokens) * width * width
    yield Cost(
        part=part,
        operation="linear",
        params=layers * 4 * _linear_params(width, width),
        paper=linear,
        executed=linear,
    )
    yield Cost(
        part=part,
        operation="attention",
        paper=layers * 2 * width * query_tokens * key_tokens,
        executed=layers * 2 * width * pairs_executed,
    )


def _convolution(stack: str, model: ModelConfig, kernel_sizes: tuple[int, ...], tokens: int) -> Iterator[Cost]:
    """In-linear (doubled for GLU), kernels (learned or generated per token), taps, out-linear."""
    layers, width = len(kernel_sizes), model.conv_dim
    in_width = 2 * width if model.conv_glu else width
    kernel_weights = model.conv_num_heads * sum(kernel_sizes)
    in_macs, out_macs = layers * width * in_width * tokens, layers * width * width * tokens
    yield Cost(
        part=f"{stack}.conv_in",
        operation="linear",
        params=layers * _linear_params(width, in_width),
        paper=in_macs,
        executed=in_macs,
    )
    if model.conv_type == "dynamic":
        generator = width * kernel_weights
        yield Cost(
            part=f"{stack}.conv_kernel",
            operation="kernel_generator",
            params=generator,
            paper=generator * tokens,
            executed=generator * tokens,
        )
    # Every tap is multiplied, also those that fall on zeros beyond the edges.
    yield Cost(
        part=f"{stack}.conv_kernel",
        operation="conv_taps",
        params=kernel_weights if model.conv_type == "lightweight" else 0,
        executed=width * sum(kernel_sizes) * tokens,
    )
    yield Cost(
        part=f"{stack}.conv_out",
        operation="linear",
        params=layers * _linear_params(width, width),
        paper=out_macs,
        executed=out_macs,
    )


def _ffn(part: str, model: ModelConfig, layers: int, tokens: int) -> Cost:
    width, inner = model.embed_dim, model.ffn_dim
    macs = layers * 2 * width * inner * tokens
    params = layers * (_linear_params(width, inner) + _linear_params(inner, width))
    return Cost(part=part, operation="linear", params=params, paper=macs, executed=macs)


def _layer_norm(part: str, model: ModelConfig, count: int, tokens: int) -> Cost:
    """``count`` norms in the layers of a stack, and the one after it if the model has it."""
    width, norms = model.embed_dim, count + int(model.final_norm)
    macs = norms * width * tokens
    return Cost(part=part, operation="layer_norm", params=norms * 2 * width, paper=macs, executed=macs)


def _linear_params(inputs: int, outputs: int) -> int:
    """Weights and biases of a dense layer."""
    return inputs * outputs + outputs
