"""Functions of torch that the counter must see as a whole, before they are taken apart into operators.

Recurrent layers look at the devices of their weights and at the lengths of packed sequences; normalisation by the root
of the mean square reaches the dispatcher only as squares, means and products.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

from lite_nlp.budget.traced.work import WorkKind

__all__ = ["FunctionWatcher", "TensorRecorder", "fake_packed"]

_LIBRARY: Final[Any] = torch._VF
_RECURRENT: Final = frozenset({_LIBRARY.lstm, _LIBRARY.gru, _LIBRARY.rnn_tanh, _LIBRARY.rnn_relu})
_ROOT_MEAN_SQUARE: Final = frozenset({torch.rms_norm, nn.functional.rms_norm})


class TensorRecorder(Protocol):
    """What the watcher needs of the counter."""

    def to_fake(self, value: Any) -> Any:
        """A tensor without numbers for a tensor."""
        ...

    def keep(self, numbers: list[int] | Tensor) -> Tensor:
        """A tensor of integers that keeps its numbers."""
        ...

    def record(self, operator: str, kind: WorkKind, macs: int) -> None:
        """Note the work of one call."""
        ...


class FunctionWatcher(TorchFunctionMode):
    """Hands the functions above on in a form that can be counted, or counts them itself.

    A tensor that is packed counts with its padding, as any other: lengths are numbers, and only shapes decide. A
    ``PackedSequence`` among the example inputs has the shape of its tokens alone.
    """

    def __init__(self, recorder: TensorRecorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_function__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in _RECURRENT:
            # Weights may be on another device than the input: torch compares the two before the counter sees either.
            args, kwargs = tree_map(self._recorder.to_fake, (args, kwargs))
            return func(*args, **kwargs)
        if (replacement := self._REPLACEMENTS.get(func)) is not None:
            return replacement(self, *args, **kwargs)
        result = func(*args, **kwargs)
        if func in _ROOT_MEAN_SQUARE:
            self._recorder.record("aten.rms_norm", "layer_norm", result.numel())
        return result

    def _pack(self, padded: Tensor, lengths: Tensor, batch_first: bool = False) -> tuple[Tensor, Tensor]:
        """Pack sequences that are all as long as the longest: (T, B, ...) to (T x B, ...)."""
        tokens, rows = padded.shape[:2][:: -1 if batch_first else 1]
        return padded.reshape(tokens * rows, *padded.shape[2:]), self._recorder.keep([rows] * tokens)

    def _pad(
        self, data: Tensor, batch_sizes: Tensor, batch_first: bool, padding_value: float, total_length: int
    ) -> tuple[Tensor, Tensor]:
        """The inverse, for sequences of any length."""
        sizes: list[int] = batch_sizes.tolist()
        lengths = [sum(size > row for size in sizes) for row in range(sizes[0])]
        shape = max(total_length, len(sizes)), sizes[0]
        return data.new_zeros(*shape[:: -1 if batch_first else 1], *data.shape[1:]), self._recorder.keep(lengths)

    _REPLACEMENTS: Final[dict[Any, Callable[..., Any]]] = {
        _LIBRARY._pack_padded_sequence: _pack,
        _LIBRARY._pad_packed_sequence: _pad,
    }


def fake_packed(packed: PackedSequence, recorder: TensorRecorder) -> PackedSequence:
    """``packed`` without numbers but those of its lengths."""
    return PackedSequence(
        recorder.to_fake(packed.data),
        recorder.keep(packed.batch_sizes),
        recorder.to_fake(packed.sorted_indices),
        recorder.to_fake(packed.unsorted_indices),
    )
