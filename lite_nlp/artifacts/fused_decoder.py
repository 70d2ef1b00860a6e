"""A decoder step in the form that runtimes run fastest: attention in their own operators, and few changes of shape.

The blocks keep their weights and what they compute. A block without such a form keeps its own, and
``FusedDecoder.plain_blocks`` names it. The token that a step feeds is a sequence of one for ONNX Runtime, whose
attention takes sequences, and a vector where ExecuTorch writes caches in place: XNNPACK's products are faster then.

Shape letters: B rows, S source tokens, D channels, H heads, K taps, d channels of a head, P tokens so far; (B, *, D)
is (B, 1, D) or (B, D).
"""

import copy
from typing import Final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lite_nlp.export.contrib import attend_source, attend_with_cache, writes_in_place
from lite_nlp.models.attention.softmax import CrossAttention, SelfAttention
from lite_nlp.models.convolution import Convolution
from lite_nlp.models.layers import EncodedSource
from lite_nlp.models.transformer import EncoderDecoder

__all__ = ["FusedDecoder"]


class FusedDecoder(nn.Module):
    """An encoder-decoder whose ``decode_step`` is written for the runtimes' operators.

    Steps may feed several hypotheses of each sentence, side by side: what depends on the source is given once for a
    sentence. Its state has the names of the model's. Caches of keys and values are as long as the output so far,
    (B, H, P, d), instead of having a capacity, and the window of a convolution is kept head by head, (B, H, K - 1, d).

    Args:
        model: In evaluation mode; not changed.

    Attributes:
        plain_blocks: Names of the blocks that have no other form than the model's own.
    """

    #: For :mod:`lite_nlp.export.searches.beam_step`.
    shares_source: Final = True
    #: For :mod:`lite_nlp.export.searches.in_place_step`: no cache grows but by ``attend_with_cache``.
    writes_in_place: bool = True

    def __init__(self, model: EncoderDecoder) -> None:
        super().__init__()
        self.model = model
        # Copies: the encoder may share blocks with them, which there keep their form.
        self.decoder, self.tgt_input = copy.deepcopy((model.decoder, model.tgt_input))
        self.plain_blocks: list[str] = []
        for root in ("decoder", "tgt_input"):
            for path, parent in list(getattr(self, root).named_modules()):
                for name in sorted(_BLOCKS & dict(parent.named_children()).keys()):
                    setattr(parent, name, self._fused(".".join(filter(None, (root, path, name))), parent, name))

    def encode(self, src_tokens: Tensor, src_mask: Tensor) -> Tensor:
        """The model's own."""
        return self.model.encode(src_tokens, src_mask)

    def init_state(self, memory: Tensor, src_mask: Tensor, capacity: int) -> dict[str, Tensor]:
        """The state before the first token; arguments as of the model."""
        source = EncodedSource(memory=memory, mask=src_mask)
        return self.decoder.init_state(self.tgt_input, memory, capacity, source)

    def decode_step(self, tokens: Tensor, state: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Feed ``tokens`` (B,); returns logits (B, V) and the new state."""
        embedded, positions = self.model.embed_target(tokens), self.model.positions.at(state["position"])
        if not writes_in_place():
            embedded, positions = embedded[:, None], positions[:, None]
        x, new_state = self.decoder.step(self.tgt_input, embedded, positions, state)
        return F.linear(self.model.to_table(x.flatten(0, -2)), self.model.output_table), new_state

    def _fused(self, path: str, parent: nn.Module, name: str) -> nn.Module:
        block = getattr(parent, name)
        if isinstance(block, SelfAttention):
            return _FusedSelfAttention(block)
        if isinstance(block, CrossAttention):
            return _FusedCrossAttention(block)
        if isinstance(block, Convolution):
            return _FusedConvolution(block)
        self.plain_blocks.append(path)
        return _PlainCross(block) if name == "cross" else _PlainMixer(block)


#: Names of the blocks that see more than one token, in whatever module has them.
_BLOCKS: Final = frozenset({"attention", "convolution", "cross"})


class _FusedSelfAttention(nn.Module):
    """Self-attention of one token (B, *, D)."""

    def __init__(self, block: SelfAttention) -> None:
        super().__init__()
        self.block = block

    def init_state(self, like: Tensor, capacity: int) -> dict[str, Tensor]:
        """Keys and values of no tokens, whatever the capacity."""
        return self.block.init_state(like, 0)

    def step(self, x: Tensor, state: dict[str, Tensor], position: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """One token; returns the output (B, *, D) and caches that are one token longer."""
        projected = self.block.in_proj(x)
        out, keys, values = attend_with_cache(projected, state["self_key"], state["self_value"], position)
        return self.block.out_proj(out), {"self_key": keys, "self_value": values}


class _FusedCrossAttention(nn.Module):
    """Attention of one token (B, *, D) to the source."""

    def __init__(self, block: CrossAttention) -> None:
        super().__init__()
        self.block = block

    def project_memory(self, memory: Tensor, src_mask: Tensor) -> dict[str, Tensor]:
        """Keys and values of the source."""
        return self.block.project_memory(memory, src_mask)

    def forward(self, x: Tensor, state: dict[str, Tensor], src_mask: Tensor) -> Tensor:
        """The output (B, *, D)."""
        query = self.block.query_proj(x)
        attended = attend_source(query, state["cross_key"], state["cross_value"], src_mask)
        projected: Tensor = self.block.out_proj(attended)
        return projected


class _FusedConvolution(nn.Module):
    """Convolution that ends at one token (B, *, D): its window needs no transposition if it is kept by heads."""

    def __init__(self, block: Convolution) -> None:
        super().__init__()
        self.block = block

    def init_state(self, like: Tensor) -> dict[str, Tensor]:
        """The window before the first token, all zero."""
        block = self.block
        shape = like.shape[0], block.num_heads, block.kernel_size - 1, block.inner_channels // block.num_heads
        return {"conv": like.new_zeros(shape)}

    def step(self, x: Tensor, state: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """One token; returns the output (B, *, D) and the shifted window."""
        block = self.block
        gated = block.gate(x)
        latest = gated.reshape(gated.shape[0], block.num_heads, 1, -1)
        window = torch.cat([state["conv"], latest], dim=2)  # (B, H, K, d)
        if block.kernel_proj is None:
            taps = block.kernel[None, :, None, :]  # type: ignore[index]
        else:
            taps = block.kernel_proj(gated).reshape(gated.shape[0], block.num_heads, 1, -1)
        mixed = torch.matmul(taps.softmax(dim=-1), window)  # (B, H, 1, d)
        return block.out_proj(mixed.reshape(gated.shape)), {"conv": window[:, :, 1:]}


class _PlainMixer(nn.Module):
    """A self-attention of its own form, which takes a token as a sequence of one."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.block = block

    def init_state(self, like: Tensor, capacity: int) -> dict[str, Tensor]:
        """The block's own."""
        state: dict[str, Tensor] = self.block.init_state(like, capacity)  # type: ignore[operator]
        return state

    def step(self, x: Tensor, state: dict[str, Tensor], position: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """One token (B, *, D)."""
        out, changed = self.block.step(x.view(x.shape[0], 1, -1), state, position)  # type: ignore[operator]
        return out.view(x.shape), changed


class _PlainCross(nn.Module):
    """A cross-attention of its own form, for which a sentence's hypotheses are tokens of one sequence."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.block = block

    def project_memory(self, memory: Tensor, src_mask: Tensor) -> dict[str, Tensor]:
        """The block's own."""
        state: dict[str, Tensor] = self.block.project_memory(memory, src_mask)  # type: ignore[operator]
        return state

    def forward(self, x: Tensor, state: dict[str, Tensor], src_mask: Tensor) -> Tensor:
        """One token of each hypothesis (B, *, D), of which a sentence has some, side by side."""
        out: Tensor = self.block(x.view(src_mask.shape[0], -1, x.shape[-1]), state, src_mask)
        return out.reshape(x.shape)
