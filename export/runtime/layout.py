"""Layout of a bundle's two graphs: largest sizes, and the state between them. Imports no torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from lite_nlp.export.runtime.limits import MAX_BATCH, MAX_RANK, MAX_STATE_BYTES, MAX_TOKENS, Text, at_most

__all__ = ["DEFAULT_BOUNDS", "Bounds", "Layout", "ManifestSection", "Precision", "StateTensor", "Symbol"]

_ITEM_BYTES: Final = {"float32": 4, "int64": 8, "bool": 1}

#: Tokens that each of several texts always has place for, where the only one has.
_ROW_TOKENS: Final = 256

#: Of the weights of Linear layers and tables; mixed is for each matrix fp32, 8 or 4 bits.
Precision = Literal["fp32", "int8", "mixed"]

#: Symbols that stand for a size in a state tensor's shape.
Symbol = Literal["batch", "source", "capacity"]


class ManifestSection(BaseModel):
    """Base of the manifest's sections. Unknown keys are ignored: a later writer of the same schema may add some."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)


class Bounds(ManifestSection):
    """Largest sizes that the graphs accept.

    Attributes:
        source: Source tokens of a sentence, end mark included.
        capacity: Decoder steps, which is the size of the caches.
        executorch_batch: Rows of one call of the ExecuTorch methods; the engine splits larger batches. ONNX has no
            such bound.
        executorch_sources: The same of ``encode``, which plans memory for all pairs of tokens of its sources. Two take
            no longer, each, than eight.
    """

    source: int = Field(ge=1, le=MAX_TOKENS)
    capacity: int = Field(ge=1, le=MAX_TOKENS)
    executorch_batch: int = Field(ge=1, le=MAX_BATCH)
    executorch_sources: int = Field(default=2, ge=1, le=MAX_BATCH)

    @property
    def row_tokens(self) -> int:
        """Most tokens of each of several texts whose state an ExecuTorch program keeps.

        Together no more than the only text may have, or a few hundred each.
        """
        return min(self.capacity, max(_ROW_TOKENS, self.capacity // self.executorch_batch))

    @property
    def of_rows(self) -> "Bounds":
        """The same for several texts, each of ``row_tokens``."""
        return self.model_copy(update={"capacity": self.row_tokens})

    @property
    def largest(self) -> dict[str, int]:
        """The largest size of each symbol in a method's steps."""
        return {"batch": self.executorch_batch, "source": self.source, "capacity": self.capacity}


#: For sentences: translation cuts longer lines first, and lets an output become twice as long as its source. ExecuTorch
#: plans its memory for these sizes.
DEFAULT_BOUNDS: Final = Bounds(source=256, capacity=512, executorch_batch=8)


class StateTensor(ManifestSection):
    """One tensor of the decoder's state.

    Attributes:
        name: Its key; also the name of ``encode``'s output and of ``decode_step``'s input.
        dtype: Element type.
        shape: Sizes, where a string is the symbol of a size known at run time. The batch is first.
        origin: Its value before the first step: all zeros, an output of ``encode``, or ``encode``'s input
            ``src_mask``.
        changes: Whether ``decode_step`` returns a new value; else the same tensor is passed at every step.
    """

    name: Text = Field(min_length=1)
    dtype: Literal["float32", "int64", "bool"]
    shape: Annotated[tuple[Annotated[int, Field(ge=0, le=MAX_STATE_BYTES)] | Symbol, ...], at_most(MAX_RANK)]
    origin: Literal["zeros", "encode", "src_mask"]
    changes: bool

    @model_validator(mode="after")
    def _form(self) -> Self:
        if self.shape[:1] != ("batch",) or "batch" in self.shape[1:]:
            raise ValueError("shape: expected the batch as first dimension alone")
        if self.origin == "src_mask" and (self.dtype, self.shape) != ("bool", ("batch", "source")):
            raise ValueError("expected the mask as a bool tensor of batch and source")
        if self.origin == "zeros" and not self.changes:
            raise ValueError("expected that a tensor which begins as zeros changes")
        return self

    def row_bytes(self, bounds: Bounds) -> int:
        """Bytes of one row at the largest sizes."""
        sizes: dict[str, int] = {"source": bounds.source, "capacity": bounds.capacity}
        return _ITEM_BYTES[self.dtype] * prod(size if isinstance(size, int) else sizes[size] for size in self.shape[1:])


@dataclass(frozen=True)
class Layout:
    """Bounds, state and logits of the graphs, by which a runtime calls them.

    Attributes:
        state: The decoder's state tensors, in the order of ``decode_step``'s arguments.
        bounds: Largest sizes.
        tgt_size: Types of the target vocabulary, the last dimension of the logits.
    """

    state: Sequence[StateTensor]
    bounds: Bounds
    tgt_size: int

    @property
    def names(self) -> list[str]:
        """Names of the state tensors, in the order of ``decode_step``'s arguments."""
        return [tensor.name for tensor in self.state]

    @property
    def encoded(self) -> list[str]:
        """Names of the state tensors that ``encode`` returns, in its order."""
        return [tensor.name for tensor in self.state if tensor.origin == "encode"]

    @property
    def changing(self) -> list[str]:
        """Names of the state tensors that ``decode_step`` returns, in its order."""
        return [tensor.name for tensor in self.state if tensor.changes]

    @property
    def given(self) -> list[StateTensor]:
        """The state tensors that do not change, in the order of ``decode_step``'s arguments."""
        return [tensor for tensor in self.state if not tensor.changes]
