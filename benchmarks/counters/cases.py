"""The modules of the comparison, each with its true Mult-Adds, derived by hand.

Shapes: one sentence of T = 30 tokens, C = 128 channels, H = 4 heads, K = 7 taps, V = 1000 words. Linears count
T x inputs x outputs; attention counts T x T x C twice. Layer norms, biases and softmax are no Mult-Adds here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["CASES", "Case"]

TOKENS, CHANNELS, HEADS, TAPS, WORDS, FFN = 30, 128, 4, 7, 1000, 256

_LINEAR = TOKENS * CHANNELS * CHANNELS
_ATTENTION = 2 * TOKENS * TOKENS * CHANNELS
_TAPS = TOKENS * CHANNELS * TAPS
_HEAD = TOKENS * CHANNELS * WORDS


@dataclass(frozen=True, kw_only=True)
class Case:
    """One module and its inputs.

    Attributes:
        name: Its name in the table.
        build: Makes the module, in evaluation mode, and the inputs of its ``forward``.
        macs: Its true Mult-Adds.
    """

    name: str
    build: Callable[[], tuple[nn.Module, tuple[Any, ...]]]
    macs: int


def _heads(x: Tensor) -> Tensor:
    return x.view(x.shape[0], x.shape[1], HEADS, -1).transpose(1, 2)


class FusedAttention(nn.Module):
    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(_heads(query), _heads(key), _heads(value))


class OperatorAttention(nn.Module):
    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return (_heads(query) @ _heads(key).transpose(-2, -1)).softmax(dim=-1) @ _heads(value)


class EinsumAttention(nn.Module):
    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        scores = torch.einsum("bhtd,bhsd->bhts", _heads(query), _heads(key))
        return torch.einsum("bhts,bhsd->bhtd", scores.softmax(dim=-1), _heads(value))


class MatmulAttention(nn.Module):
    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        scores = torch.matmul(_heads(query), _heads(key).transpose(-2, -1))
        return torch.matmul(scores.softmax(dim=-1), _heads(value))


class _LightConv(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.kernel = nn.Parameter(torch.randn(HEADS, TAPS))

    def windows(self, x: Tensor) -> Tensor:
        """(B, T, H, C / H, K)."""
        unfolded = F.pad(x, (0, 0, TAPS // 2, TAPS // 2)).unfold(1, TAPS, 1)
        return unfolded.reshape(x.shape[0], x.shape[1], HEADS, -1, TAPS)


class EinsumLightConv(_LightConv):
    def forward(self, x: Tensor) -> Tensor:
        return torch.einsum("bthck,hk->bthc", self.windows(x), self.kernel.softmax(dim=-1))


class ProductLightConv(_LightConv):
    def forward(self, x: Tensor) -> Tensor:
        return (self.windows(x) * self.kernel.softmax(dim=-1)[:, None, :]).sum(dim=-1)


class DepthwiseLightConv(_LightConv):
    def forward(self, x: Tensor) -> Tensor:
        weight = self.kernel.softmax(dim=-1).repeat_interleave(CHANNELS // HEADS, dim=0)[:, None, :]
        return F.conv1d(x.transpose(1, 2), weight, padding=TAPS // 2, groups=CHANNELS).transpose(1, 2)


class DynamicConv(_LightConv):
    def __init__(self) -> None:
        super().__init__()
        self.generator = nn.Linear(CHANNELS, HEADS * TAPS, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        kernels = self.generator(x).view(x.shape[0], x.shape[1], HEADS, TAPS).softmax(dim=-1)
        return torch.einsum("bthck,bthk->bthc", self.windows(x), kernels)


class TorchAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(CHANNELS, HEADS, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x, x, x)[0]


class _Holder(nn.Module):
    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.linear = linear


class ThreeParents(nn.Module):
    """One Linear with three parents, of which only the first uses it."""

    def __init__(self) -> None:
        super().__init__()
        linear = nn.Linear(CHANNELS, CHANNELS)
        self.first, self.second, self.third = _Holder(linear), _Holder(linear), _Holder(linear)

    def forward(self, x: Tensor) -> Tensor:
        return self.first.linear(x)


class CalledInALoop(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(CHANNELS, CHANNELS)

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(3):
            x = self.linear(x)
        return x


class TiedByFunction(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, CHANNELS)

    def forward(self, tokens: Tensor) -> Tensor:
        return F.linear(self.embedding(tokens), self.embedding.weight)


class TiedByModule(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, CHANNELS)
        self.head = nn.Linear(CHANNELS, WORDS, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.embedding(tokens))


class CachedDecode(nn.Module):
    """Encodes a source once and decodes as many tokens, each of which attends to itself and those before.

    Linears are called as functions, as code that shares its weights between training and decoding does.
    """

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, CHANNELS)
        self.encoder = nn.Linear(CHANNELS, CHANNELS)
        self.in_weight = nn.Parameter(torch.randn(3 * CHANNELS, CHANNELS) / CHANNELS)
        self.out_weight = nn.Parameter(torch.randn(CHANNELS, CHANNELS) / CHANNELS)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.encoder(self.embedding(tokens)).mean(dim=1, keepdim=True)
        keys = values = x[:, :0]
        for _ in range(tokens.shape[1]):
            query, key, value = F.linear(x, self.in_weight).chunk(3, dim=-1)
            keys, values = torch.cat([keys, key], dim=1), torch.cat([values, value], dim=1)
            weights = (_heads(query) @ _heads(keys).transpose(-2, -1)).softmax(dim=-1)
            mixed = (weights @ _heads(values)).transpose(1, 2).flatten(2)
            logits = F.linear(F.linear(mixed, self.out_weight), self.embedding.weight)
            x = self.embedding(logits.argmax(dim=-1))
        return x


def _states() -> Tensor:
    return torch.randn(1, TOKENS, CHANNELS)


def _with_states(make: Callable[[], nn.Module], inputs: int = 1) -> Callable[[], tuple[nn.Module, tuple[Any, ...]]]:
    return lambda: (make().eval(), tuple(_states() for _ in range(inputs)))


def _with_tokens(make: Callable[[], nn.Module]) -> Callable[[], tuple[nn.Module, tuple[Any, ...]]]:
    return lambda: (make().eval(), (torch.arange(TOKENS)[None],))


def _torch_layer() -> nn.Module:
    return nn.TransformerEncoderLayer(CHANNELS, HEADS, FFN, batch_first=True)


#: The fifteen cases.
CASES: tuple[Case, ...] = (
    Case(name="F.scaled_dot_product_attention", build=_with_states(FusedAttention, 3), macs=_ATTENTION),
    Case(name="attention with @", build=_with_states(OperatorAttention, 3), macs=_ATTENTION),
    Case(name="attention with einsum", build=_with_states(EinsumAttention, 3), macs=_ATTENTION),
    Case(name="attention with torch.matmul", build=_with_states(MatmulAttention, 3), macs=_ATTENTION),
    Case(name="LightConv: unfold, einsum", build=_with_states(EinsumLightConv), macs=_TAPS),
    Case(name="LightConv: unfold, multiply, sum", build=_with_states(ProductLightConv), macs=_TAPS),
    Case(name="LightConv: depthwise F.conv1d", build=_with_states(DepthwiseLightConv), macs=_TAPS),
    Case(
        name="DynamicConv with einsum",
        build=_with_states(DynamicConv),
        macs=TOKENS * CHANNELS * HEADS * TAPS + _TAPS,
    ),
    Case(name="nn.MultiheadAttention", build=_with_states(TorchAttention), macs=4 * _LINEAR + _ATTENTION),
    Case(
        name="nn.TransformerEncoderLayer",
        build=_with_states(_torch_layer),
        macs=4 * _LINEAR + _ATTENTION + 2 * TOKENS * CHANNELS * FFN,
    ),
    Case(name="Linear with 3 parents, called once", build=_with_states(ThreeParents), macs=_LINEAR),
    Case(name="Linear called 3 times in a loop", build=_with_states(CalledInALoop), macs=3 * _LINEAR),
    Case(name="tied output head through F.linear", build=_with_tokens(TiedByFunction), macs=_HEAD),
    Case(name="tied output head as a module", build=_with_tokens(TiedByModule), macs=_HEAD),
    Case(
        name="encoder and cached decode loop",
        build=_with_tokens(CachedDecode),
        # Encoder, four projections and the output per step, and attention of step t over t tokens.
        macs=_LINEAR + 4 * _LINEAR + _HEAD + 2 * CHANNELS * TOKENS * (TOKENS + 1) // 2,
    ),
)
