"""What the manifest says of a bundle's two graphs, and the check that the graphs say the same. Imports no torch.

Done when a runtime has loaded the graphs: a state tensor that is missing, renamed or of another shape is found then,
not as an error of the runtime in the middle of a translation.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lite_nlp.core.errors import BundleError
from lite_nlp.export.runtime.layout import Layout

__all__ = [
    "BEAM_INPUTS",
    "BEAM_OUTPUTS",
    "IN_PLACE",
    "IN_PLACE_SIGNATURES",
    "LOG_PROBS",
    "READ_IN_PLACE",
    "ROWS_IN_PLACE",
    "TOKENS",
    "Signature",
    "TensorForm",
    "beam_signature",
    "check_form",
    "check_names",
    "decode_step_signature",
    "encode_signature",
    "greedy_signature",
    "in_place_signature",
    "read_in_place_signature",
    "rows_in_place_signature",
]

#: Methods of an ExecuTorch program for a step of one row, and of several, whose state stays in the program.
IN_PLACE: Final = "decode_in_place"
ROWS_IN_PLACE: Final = "decode_rows_in_place"

#: That of a language model which reads one row, one token or several, whose state stays in the program.
READ_IN_PLACE: Final = "read_in_place"

#: Outputs of a whole search.
TOKENS: Final = "tokens"
LOG_PROBS: Final = "log_probs"

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


_HYPOTHESES: Final = ("batch", "beam")
_FINISHED: Final = ("batch", "kept")

#: Inputs of beam search before the state: what ``lite_nlp.decoding.beams.BeamCall`` describes.
BEAM_INPUTS: Final[Mapping[str, TensorForm]] = {
    "tokens": TensorForm("int64", _HYPOTHESES),
    "parents": TensorForm("int64", _HYPOTHESES),
    "live": TensorForm("float64", _HYPOTHESES),
    "best": TensorForm("float64", _FINISHED),
    "finished": TensorForm("int64", ("batch",)),
    "limits": TensorForm("int64", ("batch",)),
    "blocked": TensorForm("int64", ("hypotheses", "blocked")),
    "penalties": TensorForm("float64", ("lengths",)),
    "count": TensorForm("int64", (1,)),
    "step": TensorForm("int64", ()),
    "steps": TensorForm("int64", ()),
    "leave": TensorForm("int64", ()),
    "min_length": TensorForm("int64", ()),
}

#: Its outputs before the state, as of ``lite_nlp.decoding.beams.BeamSteps``: of each step, and after the last.
BEAM_OUTPUTS: Final[Mapping[str, TensorForm]] = {
    "made.tokens": TensorForm("int64", ("made", *_HYPOTHESES)),
    "made.parents": TensorForm("int64", ("made", *_HYPOTHESES)),
    "last.live": TensorForm("float64", _HYPOTHESES),
    "last.best": TensorForm("float64", _FINISHED),
    "last.origins": TensorForm("int64", _FINISHED),
    "last.finished": TensorForm("int64", ("batch",)),
    "last.done": TensorForm("bool", ("batch",)),
    "last.log_prob_sum": TensorForm("float32", ()),
}


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


def in_place_signature(layout: Layout) -> Signature:
    """What the manifest says of ``decode_in_place``, which takes one row."""
    state = {
        tensor.name: TensorForm(tensor.dtype, tuple(1 if size == "batch" else size for size in tensor.shape))
        for tensor in layout.given
    }
    token = TensorForm("int64", (1,))
    return Signature(
        inputs={"tokens": token, "position": token, **state},
        outputs={"logits": TensorForm("float32", (1, layout.tgt_size))},
    )


def rows_in_place_signature(layout: Layout) -> Signature:
    """What the manifest says of ``decode_rows_in_place``."""
    rows = TensorForm("int64", ("batch",))
    return Signature(
        inputs={
            "tokens": rows,
            "parents": rows,
            "ancestors": TensorForm("int64", ("batch", "capacity")),
            "place": TensorForm("int64", (1,)),
            **{tensor.name: TensorForm(tensor.dtype, tensor.shape) for tensor in layout.given},
        },
        outputs={"logits": TensorForm("float32", ("batch", layout.tgt_size))},
    )


def read_in_place_signature(tgt_size: int) -> Signature:
    """What ``read_in_place`` takes and gives, with as many types in the logits as there are in the vocabulary."""
    return Signature(
        inputs={"tokens": TensorForm("int64", (1, "source")), "position": TensorForm("int64", (1,))},
        outputs={"logits": TensorForm("float32", (1, tgt_size))},
    )


IN_PLACE_SIGNATURES: Final[Mapping[str, Callable[[Layout], Signature]]] = {
    IN_PLACE: in_place_signature,
    ROWS_IN_PLACE: rows_in_place_signature,
}


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


def beam_signature(layout: Layout, *, new_prefix: str) -> Signature:
    """What the manifest says of beam search; arguments as of ``decode_step_signature``.

    What changes has the form that suits the search, with a row for each hypothesis.
    """
    state = {
        tensor.name: TensorForm(tensor.dtype, _ANY_SHAPE if tensor.changes else tensor.shape) for tensor in layout.state
    }
    return Signature(
        inputs={**BEAM_INPUTS, **state},
        outputs={**BEAM_OUTPUTS, **{new_prefix + name: state[name] for name in layout.changing}},
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
