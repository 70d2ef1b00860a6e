"""The engines of ``translate.py`` that run this project's models: bundles, PyTorch, and a plain ``torch.onnx.export``.

Each runs in a process of its own under the search of ``lite_nlp.decoding``, so that what one sets for its process
(threads, memory) does not reach the others.
"""

import tempfile
import time
from contextlib import suppress
from importlib.metadata import version
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from lite_nlp.core.errors import LiteNlpError
from lite_nlp.decoding.search import SearchOptions, StepModel, search
from lite_nlp.export.runtime.registry import RUNTIMES

__all__ = ["PLAIN_EXPORT", "TORCH", "OwnTask", "PlainExport", "serve"]

#: Engines that run the weights in PyTorch, and its export without any change to the model.
TORCH, PLAIN_EXPORT = "torch", "torch.onnx.export"


class OwnTask(TypedDict):
    """What an engine is told.

    Attributes:
        engine: ``torch``, ``torch.onnx.export`` or a runtime of bundles.
        source: The bundle, or for the first two the MODEL; None is the default shipped one.
        threads: Threads of an operator.
        beam: Hypotheses of a sentence.
        batches: Source ids of each sentence of each batch, without special ids.
        steps: Decoder steps of every sentence, its end mark included; None lets the model end.
    """

    engine: str
    source: str | None
    threads: int
    beam: int
    batches: list[list[list[int]]]
    steps: int | None


def serve(connection: Connection, task: OwnTask) -> None:
    """The process of one engine: takes a turn at every request until it is sent 0, and answers with its times."""
    try:
        model, max_steps, released = open_model(task)
    except LiteNlpError as error:
        connection.send(("missing", str(error), ""))
        return
    forced, options = task["steps"], SearchOptions(beam_size=task["beam"], max_steps=max_steps)
    if forced is not None:
        options = SearchOptions(
            beam_size=task["beam"], max_length_ratio=0, max_length_extra=forced, min_length=forced - 1
        )

    def turn() -> list[list[int]]:
        """Translate all batches; the steps of each sentence, its end mark included."""
        return [[len(found.tokens) + 1 for found in search(model, batch, options)] for batch in task["batches"]]

    connection.send(("ready", turn(), released))
    # The benchmark may also just end.
    with suppress(EOFError, BrokenPipeError):
        while connection.recv():
            wall, cpu = time.perf_counter(), time.process_time()
            turn()
            connection.send((time.perf_counter() - wall, time.process_time() - cpu))


def open_model(task: OwnTask) -> tuple[StepModel, int, str]:
    """The engine's model, the most steps that it takes, and the version of its runtime."""
    if task["engine"] in RUNTIMES:
        from lite_nlp.artifacts.bundles import open_any_bundle
        from lite_nlp.export.runtime import create_engine

        bundle = open_any_bundle(Path(task["source"] or ""))
        engine = create_engine(bundle, runtime=task["engine"], threads=task["threads"])
        return engine, engine.max_steps, version(RUNTIMES[task["engine"]].package)
    import torch

    from lite_nlp.artifacts.models import load_model
    from lite_nlp.decoding.torch_model import TorchStepModel

    torch.set_num_threads(task["threads"])
    loaded = load_model(task["source"])
    model, positions = loaded.encoder_decoder.eval(), loaded.config.model.max_positions
    if task["engine"] == TORCH:
        return TorchStepModel(model), positions, torch.__version__
    return PlainExport(model, threads=task["threads"]), positions, version("onnxruntime")


class PlainExport:
    """A model as ``torch.onnx.export`` leaves it, in ONNX Runtime: a ``lite_nlp.decoding.search.StepModel``.

    The encoder with the first state, and the decoder step with the whole state, caches included, as inputs and
    outputs; the exporter and the runtime have their default settings, but for the threads.

    Args:
        model: A ``lite_nlp.decoding.torch_model.SteppedModel`` in evaluation mode.
        threads: Threads of an operator.
    """

    def __init__(self, model: Any, *, threads: int) -> None:
        import onnxruntime
        import torch

        from lite_nlp.export.runtime.layout import DEFAULT_BOUNDS
        from lite_nlp.export.runtime.quiet import quiet_libraries
        from lite_nlp.export.tracing import trace_model

        traced = trace_model(model, DEFAULT_BOUNDS)
        self._state = traced.state
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        self._sessions = []
        with tempfile.TemporaryDirectory() as directory, quiet_libraries(), torch.no_grad():
            for program in (traced.encode, traced.decode_step):
                path = Path(directory) / "graph.onnx"
                converted = torch.onnx.export(program, (), dynamo=True, verbose=False)
                converted.save(path)
                self._sessions.append(onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"]))

    def start(
        self, src_tokens: NDArray[np.int64], src_mask: NDArray[np.bool_], capacity: int
    ) -> dict[str, NDArray[Any]]:
        """Encode the sources, both (B, S), and make the state for ``capacity`` steps."""
        encoded = iter(self._run(0, [src_tokens, src_mask]))
        sizes = {"batch": len(src_tokens), "source": src_tokens.shape[1], "capacity": capacity}
        state: dict[str, NDArray[Any]] = {}
        for tensor in self._state:
            shape = [sizes[size] if isinstance(size, str) else size for size in tensor.shape]
            if tensor.origin == "encode":
                state[tensor.name] = next(encoded)
            else:
                state[tensor.name] = src_mask if tensor.origin == "src_mask" else np.zeros(shape, tensor.dtype)
        return state

    def step(
        self, tokens: NDArray[np.int64], state: dict[str, NDArray[Any]]
    ) -> tuple[NDArray[np.float32], dict[str, NDArray[Any]]]:
        """Feed one token per row, (B,); return logits (B, V) and the new state."""
        logits, *changed = self._run(1, [tokens, *state.values()])
        names = [tensor.name for tensor in self._state if tensor.changes]
        return logits, {**state, **dict(zip(names, changed, strict=True))}

    def reorder(self, state: dict[str, NDArray[Any]], rows: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """Gather rows of every tensor of the state."""
        return {name: value[rows] for name, value in state.items()}

    def _run(self, graph: int, arguments: list[NDArray[Any]]) -> list[NDArray[Any]]:
        """Run a graph; inputs are bound by position, those that it has no use for keep their place."""
        session = self._sessions[graph]
        named = zip((one.name for one in session.get_inputs()), arguments, strict=True)
        outputs: list[NDArray[Any]] = session.run(None, dict(named))
        return outputs
