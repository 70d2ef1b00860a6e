"""Benchmark of a MODEL on this machine, behind ``lite-nlp bench``. A bundle needs no torch."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from numbers import Integral
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from lite_nlp.api.bench_examples import read_examples
from lite_nlp.api.bench_worker import Order, measure_in_process
from lite_nlp.artifacts.bundle_export import write_model_bundle
from lite_nlp.artifacts.bundles import open_any_bundle
from lite_nlp.artifacts.cache import cached_bundle
from lite_nlp.artifacts.models import LoadedModel, read_config, resolve_source
from lite_nlp.core.bounds import MAX_BEAM, MAX_REPEATS, MAX_THREADS, MAX_TOKENS, check_range
from lite_nlp.core.errors import BundleError, RuntimeUnavailableError, UsageError
from lite_nlp.core.progress import Progress, SilentProgress
from lite_nlp.core.suggestions import expected_one_of
from lite_nlp.core.version import __version__
from lite_nlp.decoding.lines import read_file_lines
from lite_nlp.export.runtime import open_stored
from lite_nlp.export.runtime.device import Device, describe_device, usable_cores
from lite_nlp.export.runtime.programs import TRANSLATION
from lite_nlp.export.runtime.registry import RUNTIMES
from lite_nlp.tasks.registry import task_of_architecture

if TYPE_CHECKING:
    from lite_nlp.export.runtime import Bundle

__all__ = ["MAX_NEW_TOKENS", "BenchReport", "bench_model"]

#: Tokens that a language model adds by default: more than the prompts have, so that reading them is the smaller part.
MAX_NEW_TOKENS: Final = 32


@dataclass(frozen=True, kw_only=True)
class BenchReport:
    """The figures of a model on a machine; ``assets/bench.schema.json`` describes the dictionaries.

    Attributes:
        created: Time of the measurement, UTC, in ISO 8601.
        device: The machine.
        model: Name, task, hash and sizes of the bundle.
        settings: Beam or tokens added, sentences, tokens and repeats.
        rows: One for each runtime and number of threads.
    """

    created: str
    device: Device
    model: dict[str, Any]
    settings: dict[str, int]
    rows: list[dict[str, Any]]

    @property
    def same_tokens(self) -> bool:
        """Whether all rows gave the same tokens or classes."""
        return len({row["tokens_sha256"] for row in self.rows}) <= 1

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON takes it."""
        return {
            "tool": "lite-nlp bench",
            "tool_version": __version__,
            "created": self.created,
            "device": self.device.to_json(),
            "model": self.model,
            "settings": self.settings,
            "rows": self.rows,
        }


def bench_model(
    model: str | Path | LoadedModel | None = None,
    *,
    runtimes: str | Sequence[str] | None = None,
    threads: int | Sequence[int] | None = None,
    beam: int = 1,
    max_tokens: int | None = None,
    repeats: int = 3,
    warmup: int = 1,
    input_path: str | Path | None = None,
    warn: Callable[[str], None] | None = None,
    progress: Progress | None = None,
) -> BenchReport:
    """Measure load time, first token, sentences, tokens and Mult-Adds per second, and memory.

    Each row is measured in a process of its own, one sentence at a time: a translator translates it, a language model
    continues it greedily, a classifier classifies it, or it and the next one if the model reads pairs.

    Args:
        model: A MODEL (path or shipped name); one that is no bundle is exported into the cache first. A loaded model
            is exported for this measurement alone. None is the default shipped model.
        runtimes: Names of runtimes, or one; None is all that the bundle has graphs for and that are installed.
        threads: Numbers of threads, or one, 1 to 512 each; None is 1 and one per core.
        beam: Hypotheses kept per sentence of a translator, 1 to 256.
        max_tokens: Most tokens that a language model continues a sentence by, at least 1; None is 32.
        repeats: Times that every sentence is measured, 1 to 10,000.
        warmup: Times that it is taken unmeasured before, 0 to 10,000.
        input_path: Sentences, one per line, ``.gz`` or not, the two of a pair separated by a tab; None is 32 everyday
            ones.
        warn: Receives a warning for each runtime that is left out; None logs them.
        progress: Receives the progress, sentence by sentence.

    Returns:
        The figures, a row for each runtime and number of threads; ``docs/bench-schema.md`` lists the keys and units.

    Raises:
        UsageError: If a runtime does not run bundles, a number is too small or too large, or an option is another
            task's.
        RuntimeUnavailableError: If a named runtime, or without names every runtime, is not installed.
        DataError: If the input is missing, empty, or has a line that is too long for the bundle.
        BundleError: If the bundle is missing or damaged, has no graphs, or the measuring process dies.
    """
    if isinstance(runtimes, str):
        runtimes = [runtimes]
    asked = [threads] if isinstance(threads, int | Integral) else threads
    counts = sorted({1, usable_cores()}) if asked is None else list(dict.fromkeys(asked))
    if not counts or not all(isinstance(count, Integral) and 1 <= count <= MAX_THREADS for count in counts):
        raise UsageError(f"--threads: expected numbers from 1 to {MAX_THREADS}, found {counts}")
    for option, number, least, most in (
        ("--beam", beam, 1, MAX_BEAM), ("--max-tokens", max_tokens, 1, MAX_TOKENS),
        ("--repeats", repeats, 1, MAX_REPEATS), ("--warmup", warmup, 0, MAX_REPEATS),
    ):  # fmt: skip
        check_range(option, number, least, most)
    # The measuring process is told by JSON, which takes no integers of NumPy.
    counts, beam, repeats, warmup = list(map(int, counts)), int(beam), int(repeats), int(warmup)
    max_tokens = None if max_tokens is None else int(max_tokens)
    for name in runtimes or ():
        if name not in RUNTIMES:
            raise UsageError(f"--runtime: {expected_one_of(RUNTIMES, name)}")
    progress = progress or SilentProgress()
    # Before an export, which takes a minute.
    _check_options(_task_of(model), beam=beam, max_tokens=max_tokens)
    lines = None if input_path is None else read_file_lines(Path(input_path))
    with _bundle_of(model, runtimes, progress) as path:
        bundle = open_any_bundle(path)
        examples = read_examples(bundle, lines, name=str(input_path))
        orders = [
            Order(
                bundle=str(path),
                runtime=runtime,
                threads=count,
                beam=beam,
                max_tokens=max_tokens or MAX_NEW_TOKENS,
                examples=examples,
                warmup=warmup,
                repeats=repeats,
                work=bundle.manifest.graphs.get(runtime),
                precision=bundle.manifest.precision,
            )
            for runtime in _choose_runtimes(bundle, runtimes)
            for count in counts
        ]
        found = _measure_all(orders, progress, needed=runtimes is not None, warn=warn)
        described = _describe_model(bundle)
        for measured in found:
            row = measured["row"]
            row["opening"]["weights_bytes"] = _weights_bytes(bundle, row["runtime"])
    settings = {
        "beam": beam,
        **({"max_tokens": orders[0].max_tokens} if described["task"] == "language-modelling" else {}),
        "sentences": len(examples),
        "src_tokens": sum(len(sentence) for example in examples for sentence in example),
        "tgt_tokens": found[0]["tgt_tokens"],
        "warmup": warmup,
        "repeats": repeats,
    }
    return BenchReport(
        created=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        device=describe_device(),
        model=described,
        settings=settings,
        rows=[measured["row"] for measured in found],
    )


@contextmanager
def _bundle_of(
    model: str | Path | LoadedModel | None, runtimes: Sequence[str] | None, progress: Progress
) -> Iterator[Path]:
    """The bundle of a model, exported for these runtimes, or all (None), if it is none."""
    if isinstance(model, LoadedModel):
        with TemporaryDirectory() as folder:
            path = Path(folder) / "model.zip"
            write_model_bundle(path, model, runtimes=runtimes, progress=progress)
            yield path
        return
    source = resolve_source(model)
    only = runtimes[0] if runtimes is not None and len(runtimes) == 1 else None
    yield source.path if source.kind == "bundle" else cached_bundle(source, runtime=only, progress=progress)


def _choose_runtimes(bundle: "Bundle", asked: Sequence[str] | None) -> list[str]:
    manifest = bundle.manifest
    there = [name for name in RUNTIMES if name in manifest.entries]
    chosen = list(dict.fromkeys(asked)) if asked else there
    if not chosen:
        raise BundleError(f"{bundle.path}: expected graphs for {' or '.join(RUNTIMES)}, found none")
    return chosen


def _task_of(model: str | Path | LoadedModel | None) -> str:
    """What the model's bundle is for, in its manifest or to be."""
    if isinstance(model, LoadedModel):
        architecture = model.config.model.architecture
    else:
        source = resolve_source(model)
        if source.kind == "bundle":
            return open_stored(source.path).manifest.task
        architecture = read_config(source).model.architecture
    return task_of_architecture(architecture).name


def _check_options(task: str, *, beam: int, max_tokens: int | None) -> None:
    """Refuse options that have no effect on a bundle's task."""
    if beam > 1 and task != TRANSLATION:
        raise UsageError(f"--beam: expected 1 with a bundle for {task}, found {beam}")
    if max_tokens is not None and task != "language-modelling":
        raise UsageError(f"--max-tokens: expected a bundle for language-modelling, found one for {task}")


def _measure_all(
    orders: Sequence[Order], progress: Progress, *, needed: bool, warn: Callable[[str], None] | None
) -> list[dict[str, Any]]:
    """Execute the orders one after the other.

    Args:
        orders: At least one.
        progress: Receives the examples taken.
        needed: Whether a runtime that is not installed is an error; else it is left out with a warning.
        warn: Receives the warnings.
    """
    found: list[dict[str, Any]] = []
    missing: dict[str, RuntimeUnavailableError] = {}
    for order in orders:
        if order.runtime in missing:
            continue
        taken = len(order.examples) * (order.warmup + order.repeats)
        progress.start(f"{order.runtime}, threads {order.threads}", taken)
        try:
            found.append(measure_in_process(order, progress.advance))
        except RuntimeUnavailableError as error:
            if needed:
                raise
            missing[order.runtime] = error
    if not found:
        raise next(iter(missing.values()))
    for name, problem in missing.items():
        (warn or logging.getLogger("lite_nlp").warning)(f"{name} is left out: {problem}")
    return found


def _weights_bytes(bundle: "Bundle", runtime: str) -> int:
    """Bytes of the files that a runtime takes from the bundle, made ones included."""
    manifest = bundle.manifest
    sizes = {name: entry.size_bytes for name, entry in manifest.files.items()}
    if manifest.packed is not None:
        sizes |= {name: member.size_bytes for name, member in manifest.packed.members.items()}
    return sum(sizes[name] for name in manifest.entries[runtime].members)


def _describe_model(bundle: "Bundle") -> dict[str, Any]:
    manifest = bundle.manifest
    return {
        "name": manifest.name,
        "task": manifest.task,
        "manifest_sha256": bundle.manifest_sha256,
        "size_bytes": sum(entry.size_bytes for entry in manifest.files.values()),
        "params": manifest.recorded_count("params", "total"),
        "macs": manifest.recorded_count("macs", "executed"),
    }
