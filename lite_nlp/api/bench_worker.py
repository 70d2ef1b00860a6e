"""The process that ``bench_model`` starts for each row: ``python -m lite_nlp.api.bench_worker``.

A fresh process makes the first opening cold and separates the memory of the runtimes. The order comes on standard input
as one JSON object; results go to standard output, one event with its content per line: ``progress`` after each
example, then one ``row`` or ``error``.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, TextIO

from lite_nlp.artifacts.bundles import open_any_bundle
from lite_nlp.budget.traced.graphs import GraphWork, Work, work_from_json
from lite_nlp.core import errors
from lite_nlp.core.signals import undisturbed
from lite_nlp.decoding.continuation import GenerationOptions
from lite_nlp.decoding.search import SearchOptions
from lite_nlp.export.runtime import Bundle, create_engine
from lite_nlp.export.runtime.latency import LatencyPlan, Meter, measure_latency
from lite_nlp.export.runtime.meters import TranslationMeter
from lite_nlp.export.runtime.registry import find_runtime
from lite_nlp.export.runtime.task_engines import create_classifier_engine, create_text_engine
from lite_nlp.export.runtime.task_meters import ClassificationMeter, ContinuationMeter

__all__ = ["Order", "main", "measure_in_process"]


@dataclass(frozen=True, kw_only=True)
class Order:
    """The measurement of one process: a bundle in one runtime, with one number of threads.

    Attributes:
        bundle: Path of the bundle.
        runtime: Name of the runtime.
        threads: Threads of the runtime.
        beam: Hypotheses kept per sentence of a translator.
        max_tokens: Most tokens that a language model continues a text by.
        examples: Of each example the token ids of its sentences, without special ids: two for a classifier of pairs,
            else one.
        warmup: Times that every example is taken unmeasured.
        repeats: Times that it is measured.
        work: Of the bundle's graphs, as the manifest records it; None if it does not.
        precision: Of the weights in those graphs.
    """

    bundle: str
    runtime: str
    threads: int
    beam: int
    max_tokens: int
    examples: list[list[list[int]]]
    warmup: int
    repeats: int
    work: dict[str, Any] | None
    precision: str


def measure_in_process(order: Order, advance: Callable[[], None]) -> dict[str, Any]:
    """Measure one row in a fresh process.

    Args:
        order: The measurement.
        advance: Called after each example.

    Returns:
        ``tgt_tokens`` of one repeat, and the ``row`` for the report.

    Raises:
        LiteNlpError: If the process reports an error.
        BundleError: If the process dies.
    """
    # -P: the working directory holds none of our modules, but may hold others of the same names.
    command = [sys.executable, "-P", "-m", "lite_nlp.api.bench_worker"]
    with ExitStack() as stack:
        # A signal in the middle of the start would leave a process behind that nobody ends.
        with undisturbed(), _interrupts_blocked():
            process = stack.enter_context(
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")
            )
            stack.callback(_end, process)
        for event, content in _events(process, order):
            if event == "progress":
                advance()
            elif event == "error":
                raise _rebuild_error(*content)
            else:
                row: dict[str, Any] = content
                return row
        code = process.wait()
    raise errors.BundleError(
        f"{order.bundle}: {order.runtime}, threads {order.threads}: expected the measuring process to finish, found "
        f"that it ended with code {code}"
    )


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Context in which SIGINT waits; a process started here has it blocked until it asks for it.

    A Ctrl-C reaches both processes, and the new one would answer it with a traceback while it imports its modules.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end(process: "subprocess.Popen[str]") -> None:
    if process.poll() is None:
        process.kill()


def _events(process: "subprocess.Popen[str]", order: Order) -> Iterator[tuple[str, Any]]:
    if process.stdin is None or process.stdout is None:
        raise ValueError("process: expected pipes to it and from it, found none")
    # A process that dies at once does not read its order; its exit code is more informative.
    with suppress(BrokenPipeError), process.stdin as stream:
        json.dump(asdict(order), stream)
    for line in process.stdout:
        event, content = json.loads(line)
        yield event, content


def _rebuild_error(name: str, message: str) -> errors.LiteNlpError:
    """The error that the process reported."""
    kind: type[errors.LiteNlpError] = getattr(errors, name)
    return kind(message)


def main() -> None:
    """Execute the order on standard input."""
    # An interrupt of the command stops the parent process, which ends this one.
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


def _claim_stdout() -> TextIO:
    """Reserve standard output for this module and redirect the prints of native code to stderr."""
    sys.stdout.flush()
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return channel


def _measure(order: Order, progress: Callable[[], None]) -> dict[str, Any]:
    runtime = find_runtime(order.runtime)
    row = measure_latency(
        lambda: open_any_bundle(Path(order.bundle), runtime=order.runtime),
        lambda bundle: _open_meter(bundle, order),
        LatencyPlan(examples=len(order.examples), warmup=order.warmup, repeats=order.repeats),
        load_library=runtime.load_library,
        progress=progress,
    )
    return {
        "tgt_tokens": row.tgt_tokens,
        "row": {
            "runtime": order.runtime,
            "version": version(runtime.package),
            "threads": order.threads,
            "precision": order.precision,
            **row.to_json(),
        },
    }


def _open_meter(bundle: Bundle, order: Order) -> Meter:
    """The engine of the bundle's task, and what it is measured on."""
    manifest, threads = bundle.manifest, order.threads
    work: Work | None = None if order.work is None else work_from_json(order.work, task=manifest.task)
    graphs, task_work = (work, None) if isinstance(work, GraphWork) else (None, work)
    if manifest.task == "classification":
        classifier = create_classifier_engine(bundle, runtime=order.runtime, threads=threads)
        return ClassificationMeter(classifier, order.examples, work=task_work)
    sources = [example[0] for example in order.examples]
    if manifest.task == "language-modelling":
        text = create_text_engine(bundle, runtime=order.runtime, threads=threads)
        options = GenerationOptions(max_tokens=order.max_tokens)
        return ContinuationMeter(text, sources, options, max_positions=text.max_steps, work=task_work)
    engine = create_engine(bundle, runtime=order.runtime, threads=threads)
    search = SearchOptions.of(manifest.decoding, beam=order.beam, max_steps=manifest.bounds.capacity)
    return TranslationMeter(engine, sources, search, work=graphs)


if __name__ == "__main__":
    main()
