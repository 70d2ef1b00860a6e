"""Layout of a bundle's two graphs: largest sizes, and the state between them. Imports no torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

__all__ = ["DEFAULT_BOUNDS", "Bounds", "Layout", "ManifestSection", "StateTensor", "Symbol"]

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
    """

    source: int = Field(ge=1)
    capacity: int = Field(ge=1)
    executorch_batch: int = Field(ge=1)


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

    name: str
    dtype: Literal["float32", "int64", "bool"]
    shape: tuple[int | Symbol, ...]
    origin: Literal["zeros", "encode", "src_mask"]
    changes: bool

    @model_validator(mode="before")
    @classmethod
    def _list_to_tuple(cls, values: Any) -> Any:
        if isinstance(values, dict) and isinstance(values.get("shape"), list):
            return {**values, "shape": tuple(values["shape"])}
        return values


@dataclass(frozen=True)
class Layout:
    """Bounds and state of the graphs, by which a runtime calls them.

    Attributes:
        state: The decoder's state tensors, in the order of ``decode_step``'s arguments.
        bounds: Largest sizes.
    """

    state: Sequence[StateTensor]
    bounds: Bounds

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
