"""What the manifest says of a bundle's two graphs, and the check that the graphs say the same. Imports no torch.

Done when a runtime has loaded the graphs: a state tensor that is missing, renamed or of another shape is found then,
not as an error of the runtime in the middle of a translation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lite_nlp.core.errors import BundleError
from lite_nlp.export.runtime.layout import Layout

__all__ = [
    "CANDIDATES",
    "COUNT",
    "END_LOG_PROBS",
    "LOG_PROBS",
    "TOKENS",
    "Signature",
    "TensorForm",
    "beam_step_signature",
    "check_form",
    "check_names",
    "decode_step_signature",
    "encode_signature",
    "greedy_signature",
]

#: Outputs of a whole search.
TOKENS: Final = "tokens"
LOG_PROBS: Final = "log_probs"

#: Further input of a step of beam search, and its outputs besides ``LOG_PROBS``.
COUNT: Final = "count"
CANDIDATES: Final = "candidates"
END_LOG_PROBS: Final = "end_log_probs"

#: A size: a number, a symbol of the manifest, another expression, or None where a graph does not say.
Size = int | str | None

#: Shape of a tensor that the manifest says nothing of.
_ANY_SHAPE: Final = ("...",)

_SYMBOLS: Final = ("batch", "source", "capacity")


@dataclass(frozen=True)
class TensorForm:
    """Element type, in the manifest's words, and shape of a tensor."""

    dtype: str
    shape: tuple[Size, ...]

    def __str__(self) -> str:
        if self.shape == _ANY_SHAPE:
            return f"{self.dtype} of any shape"
        return f"{self.dtype} ({', '.join(str(size) for size in self.shape)})"


@dataclass(frozen=True)
class Signature:
    """Inputs and outputs of a graph by name, in order."""

    inputs: Mapping[str, TensorForm]
    outputs: Mapping[str, TensorForm]


def encode_signature(layout: Layout) -> Signature:
    """What the manifest says of ``encode``."""
    state = {tensor.name: TensorForm(tensor.dtype, tensor.shape) for tensor in layout.state}
    return Signature(
        inputs={
            "src_tokens": TensorForm("int64", ("batch", "source")),
            "src_mask": TensorForm("bool", ("batch", "source")),
        },
        outputs={name: state[name] for name in layout.encoded},
    )


def decode_step_signature(layout: Layout, *, new_prefix: str = "") -> Signature:
    """What the manifest says of ``decode_step``.

    Args:
        layout: Of the graphs.
        new_prefix: What precedes the names of the state that its outputs become.
    """
    state = {tensor.name: TensorForm(tensor.dtype, tensor.shape) for tensor in layout.state}
    return Signature(
        inputs={"tokens": TensorForm("int64", ("batch",)), **state},
        outputs={
            "logits": TensorForm("float32", ("batch", layout.tgt_size)),
            **{new_prefix + name: state[name] for name in layout.changing},
        },
    )


def greedy_signature() -> Signature:
    """What every graph of a whole greedy search takes and gives: the tokens of all steps first, then all rows."""
    rows = ("batch",)
    return Signature(
        inputs={
            "src_tokens": TensorForm("int64", ("batch", "source")),
            "src_mask": TensorForm("bool", ("batch", "source")),
            "limits": TensorForm("int64", rows),
            "min_length": TensorForm("int64", ()),
        },
        outputs={TOKENS: TensorForm("int64", ("steps", "batch")), LOG_PROBS: TensorForm("float32", rows)},
    )


def beam_step_signature(layout: Layout, *, new_prefix: str) -> Signature:
    """What the manifest says of a step of beam search; arguments as of ``decode_step_signature``.

    What changes has the form that suits the search, with a row for each hypothesis.
    """
    hypotheses = TensorForm("int64", ("batch", "beam"))
    state = {
        tensor.name: TensorForm(tensor.dtype, _ANY_SHAPE if tensor.changes else tensor.shape) for tensor in layout.state
    }
    return Signature(
        inputs={"tokens": hypotheses, "parents": hypotheses, **state, COUNT: TensorForm("int64", (1,))},
        outputs={
            CANDIDATES: TensorForm("int64", (None, "candidates")),
            LOG_PROBS: TensorForm("float32", (None, "candidates")),
            END_LOG_PROBS: TensorForm("float32", (None,)),
            **{new_prefix + name: state[name] for name in layout.changing},
        },
    )


def check_names(where: str, expected: Sequence[str], found: Sequence[str], *, all_of_them: bool) -> None:
    """Check names of inputs or outputs.

    Args:
        where: Stands for them in the message.
        expected: By the manifest.
        found: In the graph.
        all_of_them: Whether none may be missing; an input that a graph has no use for may.

    Raises:
        BundleError: If a name is unknown, there twice, or missing.
    """
    unknown = [name for name in found if name not in expected]
    missing = [name for name in expected if name not in found] if all_of_them else []
    if unknown or missing or len(set(found)) != len(found):
        raise BundleError(
            f"{where}: expected {', '.join(expected) or 'none'} as the manifest says, found a graph with "
            f"{', '.join(found) or 'none'}"
        )


def check_form(where: str, expected: TensorForm, found: TensorForm) -> None:
    """Check a tensor of a graph: type, rank, fixed sizes, and symbols where the graph names one of the manifest's.

    Raises:
        BundleError: If it is not what the manifest says.
    """
    fitting = expected.shape == _ANY_SHAPE or (
        len(found.shape) == len(expected.shape) and all(map(_fits, expected.shape, found.shape))
    )
    if found.dtype != expected.dtype or not fitting:
        raise BundleError(f"{where}: expected {expected} as the manifest says, found a graph with {found}")


def _fits(expected: Size, found: Size) -> bool:
    if expected is None:
        return True
    # Where the graph leaves a size open, or writes it as an expression, the tensors themselves are checked.
    return found == expected or not (isinstance(found, int) or found in _SYMBOLS)
