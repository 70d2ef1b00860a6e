"""The process that ``lite-nlp bench`` starts for each row: ``python -m lite_nlp.cli.bench_worker``.

A fresh process makes the cold opening cold, and keeps one runtime's memory apart from another's. The order comes on
standard input as one JSON object; what is found goes to standard output, an event and its content a line: ``progress``
after each sentence, then one ``row`` or ``error``.
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, TextIO

from lite_nlp.artifacts.bundles import open_any_bundle
from lite_nlp.core import errors
from lite_nlp.decoding.search import SearchOptions
from lite_nlp.export.runtime.latency import LatencyPlan, measure_latency

__all__ = ["Order", "main", "rebuild_error"]

_PACKAGES: Final = {"onnx": "onnxruntime", "executorch": "executorch"}


@dataclass(frozen=True, kw_only=True)
class Order:
    """What one process measures: a bundle in one runtime, with one number of threads."""

    bundle: str
    runtime: str
    threads: int
    beam: int
    sources: list[list[int]]
    warmup: int
    repeats: int


def main() -> None:
    """Carry out the order on standard input."""
    # Whoever stops the command stops the process that started this one, which ends it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel = _claim_stdout()

    def tell(event: str, content: Any) -> None:
        json.dump([event, content], channel)
        channel.write("\n")
        channel.flush()

    try:
        row = _measure(Order(**json.load(sys.stdin)), lambda: tell("progress", None))
    except errors.LiteNlpError as error:
        tell("error", [type(error).__name__, str(error)])
    else:
        tell("row", row)


def rebuild_error(name: str, message: str) -> errors.LiteNlpError:
    """The error that another process told of."""
    kind: type[errors.LiteNlpError] = getattr(errors, name)
    return kind(message)


def _claim_stdout() -> TextIO:
    """Standard output for this module alone: what native code prints there goes to stderr from now on."""
    sys.stdout.flush()
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return channel


def _measure(order: Order, progress: Callable[[], None]) -> dict[str, Any]:
    from lite_nlp.budget.traced.graphs import GraphWork
    from lite_nlp.export.runtime.engine import create_engine

    bundle = open_any_bundle(Path(order.bundle))
    manifest = bundle.manifest
    recorded = manifest.graphs.get(order.runtime)
    plan = LatencyPlan(
        sources=order.sources,
        options=SearchOptions(beam_size=order.beam, max_steps=manifest.bounds.capacity),
        warmup=order.warmup,
        repeats=order.repeats,
    )
    row = measure_latency(
        lambda: create_engine(bundle, runtime=order.runtime, threads=order.threads),
        plan,
        work=None if recorded is None else GraphWork.from_json(recorded),
        progress=progress,
    )
    return {
        "tgt_tokens": row.tgt_tokens,
        "row": {
            "runtime": order.runtime,
            "version": version(_PACKAGES[order.runtime]),
            "threads": order.threads,
            **row.to_json(),
        },
    }


if __name__ == "__main__":
    main()
