"""A bundle's program in the ExecuTorch runtime, whose Python package needs torch for its tensors."""

import importlib.util
import math
from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path
from threading import RLock
from typing import Annotated, Any, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from lite_nlp.core.errors import BundleError
from lite_nlp.core.extras import needs_extra
from lite_nlp.core.special_tokens import EOS_ID
from lite_nlp.export.runtime.executorch_greedy import KeptRows, PassedRows, RowSteps, decode_row, decode_rows
from lite_nlp.export.runtime.executorch_rows import ResidentRows, RowsState, as_tensor
from lite_nlp.export.runtime.interface import Runtime, RuntimeEntry, State
from lite_nlp.export.runtime.layout import Layout, ManifestSection
from lite_nlp.export.runtime.limits import MAX_COUNT, Text
from lite_nlp.export.runtime.mapped_file import mapped_file
from lite_nlp.export.runtime.quiet import quiet_libraries, quiet_native_code
from lite_nlp.export.runtime.signatures import (
    IN_PLACE,
    ROWS_IN_PLACE,
    Signature,
    TensorForm,
    check_form,
    decode_step_signature,
    encode_signature,
    in_place_signature,
    rows_in_place_signature,
)
from lite_nlp.export.runtime.tensors import first_state

__all__ = [
    "EXECUTORCH",
    "ExecuTorchEntry",
    "ExecuTorchRunner",
    "MethodCalls",
    "load_operators",
    "start_runtime",
]

#: ExecuTorch's numbers of the types in the manifest's words.
_TYPES: Final = {6: "float32", 4: "int64", 11: "bool"}

#: From a file the runtime maps the program; content in memory it keeps beside the weights that it packs.
_PROGRAM_FILE: Final = "program.pte"


class MethodCalls(ManifestSection):
    """Calls that a method of a program makes in every run.

    Attributes:
        delegated: Of the backend, XNNPACK.
        kernels: Of ExecuTorch's own kernels, by name, the most frequent first.
    """

    delegated: int = Field(ge=0, le=MAX_COUNT)
    kernels: dict[Text, Annotated[int, Field(ge=0, le=MAX_COUNT)]]


class ExecuTorchEntry(RuntimeEntry):
    """The ExecuTorch program, with methods ``encode`` and ``decode_step``.

    Arguments and results are bound by position: those of ``encode`` are ``src_tokens``, ``src_mask`` and the state
    tensors of origin ``encode``; those of ``decode_step`` are ``tokens`` and all state tensors, ``logits`` and the
    changing state tensors; state tensors in the manifest's order.

    Attributes:
        program: The file.
        in_place: Whether there is a method ``decode_in_place`` too, a step of one row whose changing state stays in the
            program: from ``tokens``, ``position`` (from 0, where it begins anew) and the state tensors that do not
            change to ``logits``. It takes operators of ExecuTorch's library for language models.
        rows_in_place: Whether there is a method ``decode_rows_in_place`` too, such a step of several rows: from
            ``tokens``, ``parents``, ``ancestors``, ``place`` and the state tensors that do not change to ``logits``.
        calls: What each method calls, which tells what was left to ExecuTorch's own kernels. Empty in bundles made
            before it was recorded.
    """

    program: str
    in_place: bool = False
    rows_in_place: bool = False
    calls: dict[Text, MethodCalls] = Field(default_factory=dict)

    @property
    def members(self) -> tuple[str, ...]:
        """The program, which holds its weights."""
        return (self.program,)

    def open_runner(self, read: Callable[[str], bytes], layout: Layout, *, threads: int) -> "ExecuTorchRunner":
        """Load the program into ExecuTorch; see :class:`~lite_nlp.export.runtime.interface.RuntimeEntry`."""
        program = read(self.program)
        return ExecuTorchRunner(
            layout, program, threads=threads, in_place=self.in_place, rows_in_place=self.rows_in_place
        )


class ExecuTorchRunner:
    """Runs the methods of a program, and greedy search over them; threads that use it at once take turns.

    Args:
        layout: Order of the state tensors, and the largest batch of a call.
        program: The ``.pte`` file.
        threads: Threads of the process-wide pools, ExecuTorch's and torch's.
        in_place: Whether the program has ``decode_in_place``, by which one row alone is decoded.
        rows_in_place: Whether it has ``decode_rows_in_place``, for beams and batches.

    Attributes:
        keeps_rows: Whether there are steps whose state stays in the program.

    Raises:
        MissingExtraError: If ExecuTorch is not installed.
        BundleError: If the runtime does not accept the program.
    """

    def __init__(
        self, layout: Layout, program: bytes, *, threads: int, in_place: bool = False, rows_in_place: bool = False
    ) -> None:
        self._layout = layout
        self._names = layout.names
        self._encoded = layout.encoded
        self._changing = layout.changing
        self._max_batch = layout.bounds.executorch_batch
        # The methods share the program's memory, and some keep a search's state there: of several threads one runs, for
        # a whole greedy search or a step of another. No generator holds it between its steps.
        self._lock = RLock()
        runtime = start_runtime(threads=threads)
        try:
            with mapped_file(_PROGRAM_FILE, program) as path, quiet_native_code():
                # Kept: the methods are views of the program.
                self._program = runtime.load_program(path)
        except BundleError:
            raise
        # Bindings of native code: what they raise depends on where in the program the damage is.
        except Exception as error:
            raise BundleError(f"ExecuTorch does not accept the bundle's program: {error}") from error
        self._encode = self._load("encode", encode_signature(layout))
        self._decode_step = self._load("decode_step", decode_step_signature(layout))
        able = (in_place or rows_in_place) and load_operators()
        self._in_place = self._load(IN_PLACE, in_place_signature(layout)) if in_place and able else None
        self.keeps_rows = rows_in_place and able
        self._rows = ResidentRows(self._execute_rows, layout)

    def begin_rows(self, state: State) -> RowsState:
        """Rows before their first step, from the state tensors that do not change; see ``ResidentRows``."""
        return self._rows.begin(state)

    def step_rows(self, tokens: NDArray[np.int64], state: RowsState) -> tuple[NDArray[np.float32], RowsState]:
        """Feed a token of each row, (R,); returns logits (R, V) and the new state."""
        with self._lock:
            logits, state = self._rows.step(tokens, state)
        return logits.numpy(), state

    def reorder_rows(self, state: RowsState, rows: NDArray[np.int64], *, within: bool) -> RowsState:
        """The state whose row ``i`` is the present row ``rows[i]``; see ``ResidentRows``."""
        return self._rows.reorder(state, rows, within=within)

    def encode(self, src_tokens: NDArray[np.int64], src_mask: NDArray[np.bool_]) -> dict[str, NDArray[Any]]:
        """Encode sources, both (B, S); returns the state tensors of origin ``encode``."""
        outputs = self._run_split(self._encode, [src_tokens, src_mask])
        return dict(zip(self._encoded, outputs, strict=True))

    def decode_step(
        self, tokens: NDArray[np.int64], state: dict[str, NDArray[Any]]
    ) -> tuple[NDArray[np.float32], dict[str, NDArray[Any]]]:
        """Feed tokens (B,); returns logits (B, V) and the new values of the changing state tensors."""
        outputs = self._run_split(self._decode_step, [tokens, *(state[name] for name in self._names)])
        return outputs[0], dict(zip(self._changing, outputs[1:], strict=True))

    def decode_greedily(
        self, src_tokens: NDArray[np.int64], src_mask: NDArray[np.bool_], limits: NDArray[np.int64], min_length: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Decode sources, both (B, S), within ``limits`` (B,) steps; returns tokens and log-probabilities."""
        if self._in_place is not None and len(limits) == 1:
            return self._decode_alone(src_tokens, src_mask, int(limits[0]), min_length)
        found: list[list[int]] = []
        log_probs: list[float] = []
        for start in range(0, len(src_tokens), self._max_batch):
            part = slice(start, start + self._max_batch)
            with self._lock:
                steps = self._begin(src_tokens[part], src_mask[part], limits[part])
                output = decode_rows(steps, limits[part], min_length)
            found += output.tokens
            log_probs += output.log_probs
        tokens = np.full((max(map(len, found)), len(found)), EOS_ID, np.int64)
        for row, made in enumerate(found):
            tokens[: len(made), row] = made
        return tokens, np.array(log_probs, np.float32)

    @cached_property
    def _rows_method(self) -> Any:
        """Loaded for the first beam or batch: one sentence after the other, decoded greedily, does without."""
        return self._load(ROWS_IN_PLACE, rows_in_place_signature(self._layout))

    def _load(self, name: str, signature: Signature) -> Any:
        """A method of the program, which takes and gives what the manifest says."""
        try:
            with quiet_native_code():
                method = self._program.load_method(name)
        # As where the program is opened: native code, and any damage.
        except Exception as error:
            raise BundleError(f"ExecuTorch does not accept the bundle's program: {name}: {error}") from error
        _check_method(name, method, signature, self._layout)
        return method

    def _execute_rows(self, tensors: list[Any]) -> list[Any]:
        return _execute(self._rows_method, tensors)

    def _begin(self, src_tokens: NDArray[np.int64], src_mask: NDArray[np.bool_], limits: NDArray[np.int64]) -> RowSteps:
        """Rows of a greedy search, at most ``executorch_batch``."""
        encoded, capacity = self.encode(src_tokens, src_mask), int(limits.max())
        if self.keeps_rows:
            return KeptRows(self._rows, first_state(self._layout.given, encoded, src_mask, capacity))
        state = first_state(self._layout.state, encoded, src_mask, capacity)
        return PassedRows(partial(_execute, self._decode_step), self._layout, state)

    def _decode_alone(
        self, src_tokens: NDArray[np.int64], src_mask: NDArray[np.bool_], limit: int, min_length: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """``decode_greedily`` of one row (1, S)."""
        with self._lock:
            given = first_state(self._layout.given, self.encode(src_tokens, src_mask), src_mask, limit)
            for _ in range(2):
                tokens, log_prob = decode_row(partial(_execute, self._in_place), self._layout, given, limit, min_length)
                if math.isfinite(log_prob):
                    break
                # The state begins as what was there times 0: what is no number stays, be it this sentence's or that of
                # a method with which the memory is shared.
                self._in_place = self._load(IN_PLACE, in_place_signature(self._layout))
        return np.array(tokens, np.int64)[:, None], np.array([log_prob], np.float32)

    def greedy_slots(self, tokens: NDArray[np.int64], limits: NDArray[np.int64]) -> list[int]:
        """Slots that attention has in each step of each row that gave ``tokens`` (T, B), until the row ends.

        Where the state stays in the program, as many as tokens so far; else all that the caches have.
        """
        steps = (tokens == EOS_ID).argmax(axis=0) + 1
        if self.keeps_rows or (self._in_place is not None and len(limits) == 1):
            return [slot for taken in steps.tolist() for slot in range(1, taken + 1)]
        slots: list[int] = []
        for start in range(0, len(limits), self._max_batch):
            part = slice(start, start + self._max_batch)
            slots += [int(limits[part].max())] * int(steps[part].sum())
        return slots

    def _run_split(self, method: Any, arguments: list[NDArray[Any]]) -> list[NDArray[Any]]:
        """Run a method on at most ``executorch_batch`` rows at a time."""
        rows = len(arguments[0])
        with self._lock:
            self._rows.forget()
            if rows <= self._max_batch:
                return _run(method, arguments)
            parts = [
                _run(method, [argument[start : start + self._max_batch] for argument in arguments])
                for start in range(0, rows, self._max_batch)
            ]
        return [np.concatenate(pieces) for pieces in zip(*parts, strict=True)]


def _check_method(name: str, method: Any, signature: Signature, layout: Layout) -> None:
    """Check arguments and results by position; of sizes known at run time the method states the largest."""
    largest = {
        "batch": layout.bounds.executorch_batch,
        "source": layout.bounds.source,
        "capacity": layout.bounds.capacity,
    }
    facts = method.metadata
    for what, forms, count, describe in (
        ("arguments", signature.inputs, facts.num_inputs(), facts.input_tensor_meta),
        ("results", signature.outputs, facts.num_outputs(), facts.output_tensor_meta),
    ):
        if count != len(forms):
            raise BundleError(
                f"{what} of {name}: expected {len(forms)} as the manifest says, found {count} in the program"
            )
        for place, (key, form) in enumerate(forms.items()):
            sizes = tuple(largest[size] if isinstance(size, str) else size for size in form.shape)
            try:
                tensor = describe(place)
            except Exception as error:
                raise BundleError(f"{what} of {name}: {key}: expected a tensor, found: {error}") from error
            found = TensorForm(_TYPES.get(tensor.dtype(), f"type {tensor.dtype()}"), tuple(tensor.sizes()))
            check_form(f"{what} of {name}: {key}", TensorForm(form.dtype, sizes), found)


def _run(method: Any, arguments: list[NDArray[Any]]) -> list[NDArray[Any]]:
    return [output.numpy() for output in _execute(method, list(map(as_tensor, arguments)))]


def _execute(method: Any, tensors: list[Any]) -> list[Any]:
    try:
        outputs: list[Any] = method.execute(tensors)
    except Exception as error:
        shapes = [tuple(tensor.shape) for tensor in tensors]
        raise BundleError(f"ExecuTorch failed on arguments of shapes {shapes}: {error}") from error
    return outputs


def start_runtime(*, threads: int) -> Any:
    """The process's ExecuTorch runtime, its pool set to ``threads``, and torch's too.

    Products that XNNPACK does not have run in torch's libraries, which also copy what a method returns: both would
    start threads of their own, which wait for the next call without sleeping.

    Raises:
        MissingExtraError: If ExecuTorch is not installed.
    """
    reset_pool, runtime = _load_library()
    import torch

    torch.set_num_threads(threads)
    with quiet_libraries(), quiet_native_code():
        reset_pool(threads)
        return runtime.get()


def load_operators() -> bool:
    """Register the kernels of ExecuTorch's library for language models; returns whether there is such a library."""
    import torch

    package = importlib.util.find_spec("executorch.extension.llm.custom_ops")
    folders = [] if package is None else package.submodule_search_locations or []
    libraries = [file for folder in folders for file in Path(folder).glob("*custom_ops_aot_lib.*")]
    for library in libraries:
        torch.ops.load_library(library)  # type: ignore[no-untyped-call]
    return bool(libraries)


def _load_library() -> tuple[Callable[[int], object], Any]:
    with needs_extra("--runtime executorch", "export", whole=False), quiet_libraries(), quiet_native_code():
        from executorch.extension.pybindings.portable_lib import _unsafe_reset_threadpool
        from executorch.runtime import Runtime
    return _unsafe_reset_threadpool, Runtime


EXECUTORCH: Final = Runtime(
    name="executorch",
    package="executorch",
    graphs="an ExecuTorch program",
    entry=ExecuTorchEntry,
    load_library=_load_library,
)
