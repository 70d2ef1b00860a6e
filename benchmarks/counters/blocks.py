"""Blocks of this project's four families, counted after the cases; see ``cases`` for the shapes.

T = 30 tokens and C = 128 channels throughout.
"""

from typing import Any

import torch
import torch.nn.functional as F
from cases import Case
from torch import Tensor, nn

from lite_nlp.config.preset import parse_model
from lite_nlp.models.attention.feature_maps import FEATURE_MAPS
from lite_nlp.models.attention.linear_attention import LinearSelfAttention
from lite_nlp.models.attention.registry import AttentionSpec
from lite_nlp.models.build import build_model
from lite_nlp.models.linear import R2D2Linear

__all__ = ["BLOCKS"]

TOKENS, CHANNELS = 30, 128


class Encoder(nn.Module):
    """The encoder of a model as a separate module."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        sizes = {"src_vocab_size": 1000, "tgt_vocab_size": 1000, "embed_dim": CHANNELS, "num_decoder_layers": 4}
        self.model = build_model(parse_model({**sizes, **options}))

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        return self.model.encode(tokens, mask)


class RecurrentAttention(nn.Module):
    """T2R's causal attention of 4 heads and 8 features, one token after the other."""

    def __init__(self) -> None:
        super().__init__()
        spec = AttentionSpec(embed_dim=CHANNELS, num_heads=4, feature_size=8)
        self.attention = LinearSelfAttention(spec, FEATURE_MAPS["t2r"](spec))

    def forward(self, x: Tensor) -> Tensor:
        state = self.attention.init_state(x, x.shape[1])
        outputs = []
        for step in range(x.shape[1]):
            position = torch.full((x.shape[0],), step)
            out, state = self.attention.step(x[:, step : step + 1], state, position)
            outputs.append(out)
        return torch.cat(outputs, dim=1)


class BuiltProjection(nn.Module):
    """An R2D2 layer of four factors that builds its weight in the call, as it does in training."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = R2D2Linear(CHANNELS, CHANNELS, n=4)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.linear.build_weight(), self.linear.bias)


def _lsra() -> tuple[nn.Module, tuple[Any, ...]]:
    kernels = {"kernel_sizes": (7,), "decoder_kernel_sizes": (7, 7, 7, 7)}
    convolution = {"conv_type": "dynamic", "conv_glu": True}
    encoder = Encoder(family="lite-transformer", ffn_dim=CHANNELS, num_encoder_layers=1, **kernels, **convolution)
    return encoder.eval(), _sentence()


def _subformer() -> tuple[nn.Module, tuple[Any, ...]]:
    sandwich = {"sharing": "sandwich", "sandwich_dim": 192, "sandwich_ffn_dim": 384}
    embedding = {"embedding": "safe", "embedding_dim": 64}
    return Encoder(family="subformer", ffn_dim=256, num_encoder_layers=4, **sandwich, **embedding).eval(), _sentence()


def _sentence() -> tuple[Tensor, Tensor]:
    return torch.arange(TOKENS)[None], torch.ones(1, TOKENS, dtype=torch.bool)


def _states() -> tuple[Tensor]:
    return (torch.randn(1, TOKENS, CHANNELS),)


#: In order: LSRA, Subformer, T2R, R2D2.
BLOCKS: tuple[Case, ...] = (
    Case(
        name="LSRA encoder layer",
        build=_lsra,
        macs=sum(
            (
                # Half of the channels: four projections, scores and sums.
                4 * 30 * 64 * 64 + 2 * 30 * 30 * 64,
                # The other half: in (doubled for GLU), kernel generator, taps as a (T, T) band matrix, out.
                30 * 64 * 128 + 30 * 64 * 4 * 7 + 30 * 30 * 64 + 30 * 64 * 64,
                # Feed-forward.
                2 * 30 * 128 * 128,
            )
        ),
    ),
    Case(
        name="Subformer encoder, SAFE and sandwich",
        build=_subformer,
        macs=sum(
            (
                # SAFE: attention on 64 channels, then 64 to 64 to 128.
                4 * 30 * 64 * 64 + 2 * 30 * 30 * 64 + 30 * (64 * 64 + 64 * 128),
                # First and last layer.
                2 * (4 * 30 * 128 * 128 + 2 * 30 * 30 * 128 + 2 * 30 * 128 * 256),
                # The shared layer, applied twice, and the way up and down.
                2 * (4 * 30 * 192 * 192 + 2 * 30 * 30 * 192 + 2 * 30 * 192 * 384),
                2 * 30 * 128 * 192,
            )
        ),
    ),
    Case(
        name="T2R attention, token by token",
        build=lambda: (RecurrentAttention().eval(), _states()),
        # Per token: queries and keys straight to 4 x 8 features each, values, out; update and reading of the state
        # (4 heads x 8 x 32), normaliser.
        macs=30 * (128 * (32 + 32 + 128) + 128 * 128 + 2 * 4 * 8 * 32 + 4 * 8),
    ),
    Case(
        name="R2D2 Linear, weight built in the call",
        build=lambda: (BuiltProjection().eval(), _states()),
        # n x k x d for the weight, then as dense.
        macs=4 * 128 * 128 + 30 * 128 * 128,
    ),
)
