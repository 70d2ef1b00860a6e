"""A bundle's graphs in ONNX Runtime. Imports no torch."""

from collections.abc import Callable
from functools import cached_property
from typing import Annotated, Any, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from lite_nlp.decoding.step_models import BeamCall, BeamSteps
from lite_nlp.export.runtime.interface import Runtime, RuntimeEntry, State
from lite_nlp.export.runtime.layout import Layout
from lite_nlp.export.runtime.limits import MAX_OPERATORS, Text, at_most
from lite_nlp.export.runtime.onnx_beams import BeamTensors, OnnxBeams
from lite_nlp.export.runtime.onnx_session import OnnxGraph, check_version, load_library
from lite_nlp.export.runtime.signatures import (
    LOG_PROBS,
    TOKENS,
    Signature,
    beam_signature,
    decode_step_signature,
    encode_signature,
    greedy_signature,
)

__all__ = ["ONNX", "OnnxEntry", "OnnxRunner", "Release"]

#: A version as ``major.minor``.
Release = Annotated[str, Field(pattern=r"^[0-9]{1,4}\.[0-9]{1,4}$")]


class OnnxEntry(RuntimeEntry):
    """The ONNX graphs. Inputs and outputs are bound by name.

    Attributes:
        encode: File of the encoder: ``src_tokens``, ``src_mask`` to the state tensors of origin ``encode``.
        decode_step: File of the decoder step: ``tokens`` and every state tensor to ``logits`` and the changing ones.
        greedy: File of a whole greedy search: ``src_tokens``, ``src_mask``, ``limits`` and ``min_length`` to
            ``TOKENS`` and ``LOG_PROBS``.
        beam: File of steps of beam search: ``BEAM_INPUTS`` and the state to ``BEAM_OUTPUTS`` and the changing state.
        weights: File with the weights of all, their external data under this very name.
        new_prefix: What precedes a changing state tensor's name among the outputs of ``decode_step`` and ``beam``.
        operators: Those of the graphs that are not of the ONNX standard, ``domain::name``, sorted.
        oldest_runtime: The oldest version of ONNX Runtime, ``major.minor``, that runs the graphs.
    """

    encode: str
    decode_step: str
    greedy: str
    beam: str
    weights: str
    new_prefix: Text
    operators: Annotated[tuple[Text, ...], at_most(MAX_OPERATORS)]
    oldest_runtime: Release

    @property
    def members(self) -> tuple[str, ...]:
        """The graphs and the weights."""
        return self.encode, self.decode_step, self.greedy, self.beam, self.weights

    def open_runner(self, read: Callable[[str], bytes], layout: Layout, *, threads: int) -> "OnnxRunner":
        """Load the graph that is used most; see :class:`~lite_nlp.export.runtime.interface.RuntimeEntry`."""
        check_version(self.oldest_runtime)
        runner = OnnxRunner(self, read, layout, threads=threads)
        runner.load_greedy()
        return runner


class OnnxRunner:
    """Runs the graphs on the CPU, each loaded when it is first needed: two searches' graphs hold the weights twice.

    Args:
        entry: Names in the bundle's manifest.
        read: Gives the content of a member by its name.
        layout: Of the graphs.
        threads: Threads of one operator.

    Raises:
        MissingExtraError: By every method, if ONNX Runtime is not installed.
        BundleError: By every method, if it does not accept a graph, or the graph is not what the manifest says.
    """

    def __init__(self, entry: OnnxEntry, read: Callable[[str], bytes], layout: Layout, *, threads: int) -> None:
        self._entry = entry
        self._read = read
        self._layout = layout
        self._threads = threads

    def load_greedy(self) -> None:
        """Load the graph of the greedy search."""
        _ = self._greedy

    def decode_greedily(
        self, src_tokens: NDArray[np.int64], src_mask: NDArray[np.bool_], limits: NDArray[np.int64], min_length: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Decode sources, both (B, S), within ``limits`` (B,) steps; returns tokens and log-probabilities."""
        given = {"limits": limits, "min_length": np.array(min_length, np.int64)}
        found = self._greedy.run({"src_tokens": src_tokens, "src_mask": src_mask, **given})
        return found[TOKENS], found[LOG_PROBS]

    def greedy_slots(self, tokens: NDArray[np.int64], limits: NDArray[np.int64]) -> list[int]:
        """Slots of the caches in each step of each row that gave ``tokens`` (T, B): those of the tokens so far."""
        return list(range(1, len(tokens) + 1)) * len(limits)

    def encode(self, src_tokens: NDArray[np.int64], src_mask: NDArray[np.bool_]) -> dict[str, NDArray[Any]]:
        """Encode sources, both (B, S); returns the state tensors of origin ``encode``."""
        return self._encode.run({"src_tokens": src_tokens, "src_mask": src_mask})

    def decode_step(
        self, tokens: NDArray[np.int64], state: dict[str, NDArray[Any]]
    ) -> tuple[NDArray[np.float32], dict[str, NDArray[Any]]]:
        """Feed tokens (B,); returns logits (B, V) and the new values of the changing state tensors."""
        results = self._decode_step.run({"tokens": tokens, **state})
        logits = results.pop("logits")
        return logits, {name.removeprefix(self._entry.new_prefix): value for name, value in results.items()}

    def begin_beams(self, state: State, *, capacity: int) -> BeamTensors:
        """The state of a beam search before its first step, from that of ``decode_step``."""
        return self._beam.begin(state, capacity=capacity)

    def search_beams(self, call: BeamCall, state: BeamTensors) -> tuple[BeamSteps, BeamTensors]:
        """Take steps of a beam search."""
        return self._beam.search(call, state)

    @cached_property
    def _beam(self) -> OnnxBeams:
        signature = beam_signature(self._layout, new_prefix=self._entry.new_prefix)
        graph = self._load("beam", self._entry.beam, signature)
        return OnnxBeams(graph, self._layout, new_prefix=self._entry.new_prefix)

    @cached_property
    def _greedy(self) -> OnnxGraph:
        return self._load("greedy", self._entry.greedy, greedy_signature())

    @cached_property
    def _encode(self) -> OnnxGraph:
        return self._load("encode", self._entry.encode, encode_signature(self._layout))

    @cached_property
    def _decode_step(self) -> OnnxGraph:
        signature = decode_step_signature(self._layout, new_prefix=self._entry.new_prefix)
        return self._load("decode_step", self._entry.decode_step, signature)

    def _load(self, name: str, member: str, signature: Signature) -> OnnxGraph:
        weights = self._entry.weights
        return OnnxGraph(
            name,
            self._read(member),
            weights=(weights, self._read(weights)),
            signature=signature,
            threads=self._threads,
        )


ONNX: Final = Runtime(
    name="onnx", package="onnxruntime", graphs="ONNX graphs", entry=OnnxEntry, load_library=load_library
)
