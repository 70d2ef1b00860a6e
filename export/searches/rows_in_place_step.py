"""A step of several rows of a decoder, or a language model, whose changing state stays in the program, for ExecuTorch.

Rows come and go and extend one another, so they own no part of the state. Keys and values of every token fed lie in a
slot of their own, and each row names the slots of its tokens; no cache is moved when hypotheses change places or a
sentence leaves the batch. What has one size, such as the window of a convolution, is gathered by the row that it comes
from.

Shape letters: R rows, T tokens of each, the present one included, V types.
"""

from collections.abc import Collection, Sequence
from math import prod
from typing import Final, cast

import torch
from torch import Tensor, nn

from lite_nlp.decoding.torch_model import SteppedModel
from lite_nlp.export.contrib import IN_PLACE_LIBRARY, caches_in_place, load_in_place_library
from lite_nlp.export.runtime.layout import Bounds, StateTensor
from lite_nlp.export.tracing import TORCH_TYPES

__all__ = ["RowsInPlaceStep"]

#: What is no cache is kept as numbers of this type; counts of tokens and truth values are exact in it.
_KEPT_TYPE: Final = torch.float32


class RowsInPlaceStep(nn.Module):
    """One step of rows whose changing state is in buffers.

    Args:
        model: A ``SteppedModel`` or ``SteppedText`` whose caches grow by
            :func:`~lite_nlp.export.contrib.attend_with_cache` or ``attend_in_slots`` alone.
        layout: Of its state.
        growing: Names of the caches.
        bounds: Largest sizes: as many rows as ``executorch_batch``, and a slot for each of them in every step.
    """

    def __init__(
        self, model: nn.Module, layout: Sequence[StateTensor], growing: Collection[str], bounds: Bounds
    ) -> None:
        super().__init__()
        load_in_place_library()
        self.model = model
        self.layout = tuple(layout)
        self.most_rows = bounds.executorch_batch
        self.slots = bounds.capacity * self.most_rows
        self.caches: dict[str, str] = {}
        self.kept: list[tuple[StateTensor, str, str]] = []
        for place, tensor in enumerate(tensor for tensor in layout if tensor.changes):
            sizes = cast(tuple[int, ...], tensor.shape[1:])
            if tensor.name in growing:
                # (1, C, H, d), the slots before the heads.
                heads, _, channels = sizes
                self.caches[tensor.name] = f"slots_{place}"
                cache = torch.zeros(1, self.slots, heads, channels, dtype=TORCH_TYPES[tensor.dtype])
                self.register_buffer(f"slots_{place}", cache)
            else:
                # One row more than there can be, which stays the state before the first token.
                self.kept.append((tensor, f"rows_{place}", f"first_{place}"))
                size = prod(sizes)
                self.register_buffer(f"rows_{place}", torch.zeros(1, self.most_rows + 1, 1, size, dtype=_KEPT_TYPE))
                self.register_buffer(f"first_{place}", torch.zeros(1, 1, 1, size, dtype=_KEPT_TYPE))

    def forward(
        self, tokens: Tensor, parents: Tensor, ancestors: Tensor, place: Tensor, given: tuple[Tensor, ...]
    ) -> Tensor:
        """Feed a token of each row.

        Args:
            tokens: (R,) int64.
            parents: (R,) int64, the rows of the step before that they extend; ``most_rows`` for a row that begins.
            ancestors: (R, T) int64, slots of the tokens of each row. The present token of row r goes to ``place`` + r.
            place: (1,) int64, slots in use.
            given: The state that does not change, of R rows.

        Returns:
            Logits (R, V).
        """
        # A symbol while traced, which int() would ask for its number.
        slot = cast(int, place.item())
        torch._check(slot >= 0)  # type: ignore[no-untyped-call]
        torch._check(slot + self.most_rows <= self.slots)  # type: ignore[no-untyped-call]
        rows = tokens.shape[0]
        write = getattr(torch.ops, IN_PLACE_LIBRARY).update_cache
        state = dict(zip((tensor.name for tensor in self.layout if not tensor.changes), given, strict=True))
        state |= {name: getattr(self, buffer) for name, buffer in self.caches.items()}
        for tensor, buffer, first in self.kept:
            # Written, as a program's memory begins with whatever is there.
            write(getattr(self, first), getattr(self, buffer), self.most_rows)
            value = getattr(self, buffer).flatten(0, 1).index_select(0, parents)
            shape = cast(tuple[int, ...], tensor.shape[1:])
            state[tensor.name] = value.view(rows, *shape).to(TORCH_TYPES[tensor.dtype])
        with caches_in_place(slot, ancestors):
            logits, new_state = cast(SteppedModel, self.model).decode_step(
                tokens, {tensor.name: state[tensor.name] for tensor in self.layout}
            )
        for tensor, buffer, _ in self.kept:
            write(new_state[tensor.name].to(_KEPT_TYPE).reshape(1, rows, 1, -1), getattr(self, buffer), 0)
        return logits
