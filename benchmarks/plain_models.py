"""The models of ``training.py`` as a researcher writes them: ``torch.nn`` modules and nothing of this project's code.

Only sizes come from a configuration. Shape letters: B batch, S source tokens, T target tokens, D channels, V types.
"""

import math
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lite_nlp.config.kinds import LinearSpec
from lite_nlp.config.layers import LayerSpec, decoder_specs, derived_heads, encoder_specs
from lite_nlp.config.model import EncoderDecoderConfig, LanguageModelConfig, PairClassifierConfig

__all__ = ["PlainEncoderDecoder", "PlainLanguageModel", "PlainPairClassifier"]


class KroneckerLinear(nn.Module):
    """R2D2, equation 2.2: the weight is a sum of Kronecker products, built in each call."""

    def __init__(self, inputs: int, outputs: int, n: int) -> None:
        super().__init__()
        self.diffusion = nn.Parameter(torch.randn(n, n, n) / n)
        self.components = nn.Parameter(torch.randn(n, outputs // n, inputs // n) * (2 / (inputs + outputs)) ** 0.5)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor) -> Tensor:
        """Map the last dimension."""
        weight = sum(torch.kron(a, s) for a, s in zip(self.diffusion, self.components, strict=True))
        return F.linear(x, weight, self.bias)


def linear(inputs: int, outputs: int, spec: LinearSpec) -> nn.Module:
    """``nn.Linear`` or an R2D2 layer."""
    if spec.kind == "r2d2":
        return KroneckerLinear(inputs, outputs, spec.n)
    if spec.kind == "dense":
        return nn.Linear(inputs, outputs)
    raise ValueError(f"plain models: expected dense or r2d2 Linears, found {spec.kind}")


class Attention(nn.Module):
    """Multi-head attention on ``scaled_dot_product_attention``."""

    def __init__(self, width: int, heads: int, spec: LinearSpec, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.query, self.key, self.value, self.out = (linear(width, width, spec) for _ in range(4))

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor | None = None, *, causal: bool = False) -> Tensor:
        """Attend from ``x`` (B, T, D) to ``memory`` (B, S, D)."""
        query, key, value = (
            part.view(*part.shape[:2], self.heads, -1).transpose(1, 2)
            for part in (self.query(x), self.key(memory), self.value(memory))
        )
        dropout = self.dropout if self.training else 0.0
        out = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout, is_causal=causal)
        return self.out(out.transpose(1, 2).flatten(2))


class Convolution(nn.Module):
    """Lightweight convolution (Wu et al. 2019): depthwise, with softmax-normalised kernels that heads share."""

    def __init__(self, width: int, heads: int, taps: int, dropout: float, *, causal: bool) -> None:
        super().__init__()
        self.in_proj, self.out_proj = nn.Linear(width, width), nn.Linear(width, width)
        self.kernel = nn.Parameter(torch.empty(heads, 1, taps))
        nn.init.xavier_uniform_(self.kernel)
        self.drop = nn.Dropout(dropout)
        self.share = width // heads
        self.padding = (taps - 1, 0) if causal else (taps // 2, taps - 1 - taps // 2)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Convolve ``x`` (B, T, D)."""
        x = self.in_proj(x)
        if mask is not None:
            x = x * mask[:, :, None]
        kernel = self.drop(self.kernel.softmax(dim=-1)).repeat_interleave(self.share, dim=0)
        padded = F.pad(x.transpose(1, 2), self.padding)
        return self.out_proj(F.conv1d(padded, kernel.to(padded.dtype), groups=len(kernel)).transpose(1, 2))


class Layer(nn.Module):
    """Attention and convolution side by side, cross-attention, feed-forward."""

    def __init__(self, config: EncoderDecoderConfig | LanguageModelConfig, spec: LayerSpec, *, causal: bool) -> None:
        super().__init__()
        if spec.self_attention != "softmax" or spec.cross_attention != "softmax" or spec.input_dim != spec.embed_dim:
            raise ValueError("plain models: expected softmax attention and layers of one width")
        self.causal, self.pre_norm, self.split = causal, config.pre_norm, [spec.attention_dim, spec.conv_dim]
        self.attention = Attention(spec.attention_dim, spec.num_heads, spec.attention_linear, config.attention_dropout)
        self.convolution = None
        if spec.conv_dim:
            heads, dropout = config.conv_num_heads, config.conv_dropout
            self.convolution = Convolution(spec.conv_dim, heads, spec.kernel_size, dropout, causal=causal)
        self.cross = None
        if spec.memory_dim:
            self.cross = Attention(
                spec.memory_dim, spec.cross_num_heads, spec.attention_linear, config.attention_dropout
            )
        self.ffn = nn.Sequential(
            linear(spec.embed_dim, spec.ffn_dim, spec.ffn_linear),
            nn.ReLU(),
            nn.Dropout(config.ffn_dropout),
            linear(spec.ffn_dim, spec.embed_dim, spec.ffn_linear),
        )
        self.norms = nn.ModuleList(nn.LayerNorm(spec.embed_dim) for _ in range(3 if spec.memory_dim else 2))
        self.drop = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, mask: Tensor | None, memory: Tensor | None, memory_mask: Tensor | None) -> Tensor:
        """One layer; ``mask`` (B, T) of an encoder is True on tokens."""

        def mix(x: Tensor) -> Tensor:
            left, right = x.split(self.split, dim=-1)
            attention_mask = None if mask is None else mask[:, None, None, :]
            out = self.attention(left, left, attention_mask, causal=self.causal)
            return out if self.convolution is None else torch.cat([out, self.convolution(right, mask)], dim=-1)

        blocks: list[Callable[[Tensor], Tensor]] = [mix]
        if self.cross is not None:
            blocks.append(lambda x: self.cross(x, memory, memory_mask[:, None, None, :]))
        for block, norm in zip([*blocks, self.ffn], self.norms, strict=True):
            x = x + self.drop(block(norm(x))) if self.pre_norm else norm(x + self.drop(block(x)))
        return x


class Embed(nn.Module):
    """Scaled embeddings with sinusoidal positions; with SAFE (Subformer, section 3.2) a small layer follows."""

    def __init__(self, config: EncoderDecoderConfig | LanguageModelConfig, *, causal: bool) -> None:
        super().__init__()
        width, self.causal = config.table_dim, causal
        self.scale = width**0.5
        rates = torch.exp(torch.arange(0, width, 2) * (-math.log(10_000.0) / width))
        angles = torch.arange(1024)[:, None] * rates
        self.register_buffer("table", torch.cat([angles.sin(), angles.cos()], dim=1)[:, :width])
        self.drop = nn.Dropout(config.dropout)
        self.safe = config.embedding == "safe"
        if self.safe:
            self.attention = Attention(width, derived_heads(width), LinearSpec(kind="dense"), 0.0)
            self.norm = nn.LayerNorm(width)
            self.ffn = nn.Sequential(
                nn.Linear(width, width), nn.ReLU(), nn.Linear(width, config.embed_dim), nn.LayerNorm(config.embed_dim)
            )
        elif config.embedding != "table":
            raise ValueError(f"plain models: expected table or safe embeddings, found {config.embedding}")

    def forward(self, tokens: Tensor, table: nn.Embedding, mask: Tensor | None) -> Tensor:
        """Input (B, T, D) of the first layer."""
        x = self.drop(table(tokens) * self.scale + self.table[: tokens.shape[1]])
        if not self.safe:
            return x
        attention_mask = None if mask is None else mask[:, None, None, :]
        return self.ffn(self.norm(x + self.drop(self.attention(x, x, attention_mask, causal=self.causal))))


def stack(
    config: EncoderDecoderConfig | LanguageModelConfig, specs: Sequence[LayerSpec], *, causal: bool
) -> list[Layer]:
    """The layers of a stack; shared ones occur several times."""
    layers: list[Layer] = []
    for spec in specs:
        layers.append(Layer(config, spec, causal=causal) if spec.is_owner else layers[spec.owner])
    return layers


class PlainEncoderDecoder(nn.Module):
    """A Transformer, Lite Transformer, Subformer or R2D2 Transformer with one tied table."""

    def __init__(self, config: EncoderDecoderConfig) -> None:
        super().__init__()
        self.embedding = nn.Embedding(config.tgt_vocab_size, config.table_dim)
        nn.init.normal_(self.embedding.weight, std=config.embed_dim**-0.5)
        self.src_embed, self.tgt_embed = Embed(config, causal=False), Embed(config, causal=True)
        self.encoder = nn.ModuleList(stack(config, encoder_specs(config), causal=False))
        self.decoder = nn.ModuleList(stack(config, decoder_specs(config), causal=True))
        own = config.table_dim != config.embed_dim
        self.out_proj = nn.Linear(config.embed_dim, config.table_dim) if own else nn.Identity()

    def forward(self, src_tokens: Tensor, src_mask: Tensor, tgt_tokens: Tensor) -> Tensor:
        """Logits (B, T, V)."""
        memory = self.src_embed(src_tokens, self.embedding, src_mask)
        for layer in self.encoder:
            memory = layer(memory, src_mask, None, None)
        x = self.tgt_embed(tgt_tokens, self.embedding, None)
        for layer in self.decoder:
            x = layer(x, None, memory, src_mask)
        return F.linear(self.out_proj(x), self.embedding.weight)


class PlainLanguageModel(nn.Module):
    """A Transformer decoder with a tied table."""

    def __init__(self, config: LanguageModelConfig) -> None:
        super().__init__()
        self.embedding = nn.Embedding(config.tgt_vocab_size, config.table_dim)
        nn.init.normal_(self.embedding.weight, std=config.embed_dim**-0.5)
        self.embed = Embed(config, causal=True)
        self.layers = nn.ModuleList(stack(config, decoder_specs(config), causal=True))
        self.norm = nn.LayerNorm(config.embed_dim) if config.final_norm else nn.Identity()

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits (B, T, V)."""
        x = self.embed(tokens, self.embedding, None)
        for layer in self.layers:
            x = layer(x, None, None, None)
        return F.linear(self.norm(x), self.embedding.weight)


class PlainPairClassifier(nn.Module):
    """``nn.LSTM`` over both sentences, maximum and mean, and an MLP."""

    def __init__(self, config: PairClassifierConfig) -> None:
        super().__init__()
        self.embedding = nn.Embedding(config.src_vocab_size, config.embed_dim)
        width = config.embed_dim
        self.lstm = nn.LSTM(width, width, batch_first=True)
        self.drop = nn.Dropout(config.dropout)
        self.mlp = nn.Sequential(
            nn.Linear(4 * width, config.ffn_dim),
            nn.ReLU(),
            nn.Dropout(config.dropout),
            nn.Linear(config.ffn_dim, config.ffn_dim),
            nn.ReLU(),
            nn.Dropout(config.dropout),
            nn.Linear(config.ffn_dim, config.num_classes),
        )

    def _encode(self, tokens: Tensor, mask: Tensor) -> Tensor:
        states, _ = self.lstm(self.drop(self.embedding(tokens)))
        here = mask[:, :, None]
        highest = states.masked_fill(~here, float("-inf")).amax(dim=1)
        return torch.cat([highest, (states * here).sum(dim=1) / here.sum(dim=1)], dim=-1)

    def forward(self, first: Tensor, first_mask: Tensor, second: Tensor, second_mask: Tensor) -> Tensor:
        """Logits (B, C)."""
        return self.mlp(self.drop(torch.cat([self._encode(first, first_mask), self._encode(second, second_mask)], -1)))
