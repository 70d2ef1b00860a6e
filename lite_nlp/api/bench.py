"""Benchmark of a MODEL on this machine, behind ``lite-nlp bench``. A bundle needs no torch."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from lite_nlp.api.bench_worker import Order, measure_in_process
from lite_nlp.artifacts.bundle_export import write_model_bundle
from lite_nlp.artifacts.bundles import open_any_bundle
from lite_nlp.artifacts.cache import cached_bundle
from lite_nlp.artifacts.models import LoadedModel, resolve_source
from lite_nlp.core.bounds import MAX_BEAM, MAX_REPEATS, MAX_THREADS, check_range
from lite_nlp.core.errors import BundleError, DataError, ModelError, RuntimeUnavailableError, UsageError
from lite_nlp.core.progress import Progress, SilentProgress
from lite_nlp.core.version import __version__
from lite_nlp.export.runtime.device import Device, describe_device, usable_cores
from lite_nlp.export.runtime.programs import TRANSLATION
from lite_nlp.export.runtime.registry import RUNTIMES

if TYPE_CHECKING:
    from lite_nlp.export.runtime import Bundle

__all__ = ["NUM_SENTENCES", "BenchReport", "bench_model"]

#: Everyday sentences that are measured by default: enough for a p90, few enough for a minute.
NUM_SENTENCES: Final = 32


@dataclass(frozen=True, kw_only=True)
class BenchReport:
    """The figures of a model on a machine; ``assets/bench.schema.json`` describes the dictionaries.

    Attributes:
        created: Time of the measurement, UTC, in ISO 8601.
        device: The machine.
        model: Name, hash and sizes of the bundle.
        settings: Beam, sentences, tokens and repeats.
        rows: One for each runtime and number of threads.
    """

    created: str
    device: Device
    model: dict[str, Any]
    settings: dict[str, int]
    rows: list[dict[str, Any]]

    @property
    def same_tokens(self) -> bool:
        """Whether all rows gave the same translations."""
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
    runtimes: Sequence[str] | None = None,
    threads: Sequence[int] | None = None,
    beam: int = 1,
    repeats: int = 3,
    warmup: int = 1,
    input_path: str | Path | None = None,
    warn: Callable[[str], None] | None = None,
    progress: Progress | None = None,
) -> BenchReport:
    """Measure load time, first token, sentences, tokens and Mult-Adds per second, and memory.

    Each row is measured in a process of its own, one sentence at a time.

    Args:
        model: A MODEL (path or shipped name); one that is no bundle is exported into the cache first. A loaded model
            is exported for this measurement alone. None is the default shipped model.
        runtimes: Names of runtimes; None is all that the bundle has graphs for and that are installed.
        threads: Numbers of threads; None is 1 and one per core.
        beam: Hypotheses kept per sentence, 1 to 256.
        repeats: Times that every sentence is measured, at least 1.
        warmup: Times that it is translated unmeasured before.
        input_path: Sentences, one per line, ``.gz`` or not; None is 32 everyday ones.
        warn: Receives a warning for each runtime that is left out; None logs them.
        progress: Receives the progress, sentence by sentence.

    Raises:
        UsageError: If a runtime does not run bundles, or a number is too small or too large.
        RuntimeUnavailableError: If a named runtime, or without names every runtime, is not installed.
        DataError: If the input is missing, empty, or has a line that is too long for the bundle.
        BundleError: If the bundle is missing or damaged, has no graphs, or the measuring process dies.
    """
    counts = sorted({1, usable_cores()}) if threads is None else list(dict.fromkeys(threads))
    if not counts or not 1 <= min(counts) <= max(counts) <= MAX_THREADS:
        raise UsageError(f"--threads: expected numbers from 1 to {MAX_THREADS}, found {counts}")
    for option, number, least, most in (
        ("--beam", beam, 1, MAX_BEAM), ("--repeats", repeats, 1, MAX_REPEATS), ("--warmup", warmup, 0, MAX_REPEATS)
    ):  # fmt: skip
        check_range(option, number, least, most)
    unknown = [name for name in runtimes or () if name not in RUNTIMES]
    if unknown:
        raise UsageError(f"--runtime: expected {' or '.join(RUNTIMES)}, which run bundles, found {unknown[0]}")
    progress = progress or SilentProgress()
    with _bundle_of(model, progress) as path:
        bundle = open_any_bundle(path)
        if bundle.manifest.task != TRANSLATION:
            raise ModelError(f"{path}: expected a bundle of an encoder-decoder, found one for {bundle.manifest.task}")
        sources = _read_sources(bundle, None if input_path is None else Path(input_path))
        orders = [
            Order(
                bundle=str(path),
                runtime=runtime,
                threads=count,
                beam=beam,
                sources=sources,
                warmup=warmup,
                repeats=repeats,
                capacity=bundle.manifest.bounds.capacity,
                work=bundle.manifest.graphs.get(runtime),
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
        "sentences": len(sources),
        "src_tokens": sum(map(len, sources)),
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
def _bundle_of(model: str | Path | LoadedModel | None, progress: Progress) -> Iterator[Path]:
    """The bundle of a model, exported if it is none."""
    if isinstance(model, LoadedModel):
        with TemporaryDirectory() as folder:
            path = Path(folder) / "model.zip"
            write_model_bundle(path, model, progress=progress)
            yield path
        return
    source = resolve_source(model)
    yield source.path if source.kind == "bundle" else cached_bundle(source, progress=progress)


def _choose_runtimes(bundle: "Bundle", asked: Sequence[str] | None) -> list[str]:
    chosen = list(dict.fromkeys(asked)) if asked else [name for name in RUNTIMES if name in bundle.manifest.runtimes]
    if not chosen:
        raise BundleError(f"{bundle.path}: expected graphs for {' or '.join(RUNTIMES)}, found none")
    return chosen


def _read_sources(bundle: "Bundle", path: Path | None) -> list[list[int]]:
    """Token ids of the sentences; blank lines are left out."""
    from lite_nlp.data.pairs.everyday import EVERYDAY_FILE, read_everyday_pairs
    from lite_nlp.data.tokenizer import Tokenizer
    from lite_nlp.decoding.lines import read_file_lines

    everyday = [english for english, _ in read_everyday_pairs()[:NUM_SENTENCES]]
    lines = everyday if path is None else read_file_lines(path)
    tokenizer = Tokenizer.from_json(bundle.tokenizer_json)
    longest = bundle.manifest.bounds.source - 1  # the end mark takes a place
    sources = []
    for number, line in enumerate(lines, start=1):
        tokens = tokenizer.encode(line) if line.strip() else []
        if len(tokens) > longest:
            raise DataError(
                f"{path or EVERYDAY_FILE}: line {number}: expected at most {longest} tokens, which the bundle takes "
                f"at once, found {len(tokens)}"
            )
        if tokens:
            sources.append(tokens)
    if not sources:
        raise DataError(f"{path}: expected at least one line that is not blank, found none")
    return sources


def _measure_all(
    orders: Sequence[Order], progress: Progress, *, needed: bool, warn: Callable[[str], None] | None
) -> list[dict[str, Any]]:
    """Execute the orders one after the other.

    Args:
        orders: At least one.
        progress: Receives the sentences translated.
        needed: Whether a runtime that is not installed is an error; else it is left out with a warning.
        warn: Receives the warnings.
    """
    found: list[dict[str, Any]] = []
    missing: dict[str, RuntimeUnavailableError] = {}
    for order in orders:
        if order.runtime in missing:
            continue
        translations = len(order.sources) * (order.warmup + order.repeats)
        progress.start(f"{order.runtime}, threads {order.threads}", translations)
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
    return sum(sizes[name] for name in manifest.runtimes[runtime].members)


def _describe_model(bundle: "Bundle") -> dict[str, Any]:
    manifest = bundle.manifest
    return {
        "name": manifest.name,
        "manifest_sha256": bundle.manifest_sha256,
        "size_bytes": sum(entry.size_bytes for entry in manifest.files.values()),
        "params": manifest.recorded_count("params", "total"),
        "macs": manifest.recorded_count("macs", "executed"),
    }
