"""A bundle's graphs behind the search's step interface, whatever runtime runs them. Imports no torch."""

import numpy as np
from numpy.typing import NDArray

from lite_nlp.core.errors import BundleError, RuntimeUnavailableError
from lite_nlp.export.runtime.bundle import Bundle
from lite_nlp.export.runtime.interface import Array, GraphRunner, State
from lite_nlp.export.runtime.layout import StateTensor
from lite_nlp.export.runtime.manifest import Manifest
from lite_nlp.export.runtime.registry import find_runtime

__all__ = ["Engine", "create_engine"]


class Engine:
    """A bundle in a runtime: a ``lite_nlp.decoding.search.StepModel``.

    Args:
        manifest: Of the bundle.
        runner: Calls its graphs.

    Attributes:
        max_source_tokens: Longest source, end mark included.
        max_steps: Largest capacity.
    """

    def __init__(self, manifest: Manifest, runner: GraphRunner) -> None:
        self._manifest = manifest
        self._runner = runner
        self.max_source_tokens = manifest.bounds.source
        self.max_steps = manifest.bounds.capacity

    def start(self, src_tokens: NDArray[np.int64], src_mask: NDArray[np.bool_], capacity: int) -> State:
        """Encode the sources, both (B, S), and make the state for ``capacity`` steps.

        Raises:
            BundleError: If the sources or the capacity exceed the bundle's bounds, or a token its vocabulary.
        """
        self._check(src_tokens, src_mask, capacity)
        encoded = self._runner.encode(src_tokens, src_mask)
        sizes = {"batch": src_tokens.shape[0], "source": src_tokens.shape[1], "capacity": capacity}
        state: State = {}
        for tensor in self._manifest.state:
            if tensor.origin == "encode":
                state[tensor.name] = encoded[tensor.name]
            elif tensor.origin == "src_mask":
                state[tensor.name] = src_mask
            else:
                state[tensor.name] = _zeros(tensor, sizes)
        return state

    def step(self, tokens: NDArray[np.int64], state: State) -> tuple[NDArray[np.float32], State]:
        """Feed one token per row, (B,); return logits (B, V) and the new state."""
        logits, changed = self._runner.decode_step(np.ascontiguousarray(tokens, np.int64), state)
        return logits, {**state, **changed}

    def reorder(self, state: State, rows: NDArray[np.int64]) -> State:
        """Gather rows of every tensor of the state."""
        return {name: value[rows] for name, value in state.items()}

    def _check(self, src_tokens: NDArray[np.int64], src_mask: NDArray[np.bool_], capacity: int) -> None:
        if src_tokens.ndim != 2 or src_tokens.shape != src_mask.shape or 0 in src_tokens.shape:
            raise BundleError(
                "source: expected tokens and mask of one shape (rows, tokens), found "
                f"{src_tokens.shape} and {src_mask.shape}"
            )
        if src_tokens.shape[1] > self.max_source_tokens:
            raise BundleError(
                f"source: the bundle was exported for at most {self.max_source_tokens} tokens, end mark included, "
                f"found {src_tokens.shape[1]}; expected a shorter source or an export with a larger --max-src-tokens"
            )
        if not 1 <= capacity <= self.max_steps:
            raise BundleError(
                f"capacity: the bundle was exported for 1 to {self.max_steps} decoder steps, found {capacity}; "
                "expected fewer or an export with a larger --max-tgt-tokens"
            )
        size = self._manifest.vocabulary.src_size
        if src_tokens.min() < 0 or src_tokens.max() >= size:
            raise BundleError(
                f"source: expected token ids 0 to {size - 1}, found {src_tokens.min()} to {src_tokens.max()}"
            )


def create_engine(bundle: Bundle, *, runtime: str, threads: int) -> Engine:
    """Load a bundle's graphs into a runtime.

    Args:
        bundle: From ``open_bundle``.
        runtime: Name of one of ``lite_nlp.export.runtime.registry.RUNTIMES``.
        threads: Threads of one operator. ExecuTorch has one pool for the whole process: the last call counts.

    Raises:
        RuntimeUnavailableError: If the runtime is unknown, not installed or not in the bundle.
        BundleError: If the runtime does not accept the graphs.
    """
    row, manifest = find_runtime(runtime), bundle.manifest
    entry = manifest.runtimes.get(runtime)
    if entry is None:
        raise RuntimeUnavailableError(f"{bundle.path}: expected {row.graphs} for --runtime {runtime}, found none")
    return Engine(manifest, entry.open_runner(bundle.read, manifest.layout, threads=threads))


def _zeros(tensor: StateTensor, sizes: dict[str, int]) -> Array:
    shape = [sizes[size] if isinstance(size, str) else size for size in tensor.shape]
    return np.zeros(shape, tensor.dtype)
