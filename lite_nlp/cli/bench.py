"""``lite-nlp bench``: a bundle's load time, latency, speed and memory, by runtime and number of threads."""

import json
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from lite_nlp import __version__
from lite_nlp.artifacts.models import Source, resolve_source
from lite_nlp.cli.bench_worker import Order, rebuild_error
from lite_nlp.cli.console import SCHEMA_VERSION, out, print_json, progress_bar, warn
from lite_nlp.cli.options import BeamOption, ModelArgument, Runtime
from lite_nlp.core.errors import BundleError, DataError, RuntimeUnavailableError
from lite_nlp.core.files import check_output, sha256_bytes, write_text
from lite_nlp.export.runtime.device import describe_device, usable_cores

if TYPE_CHECKING:
    from lite_nlp.export.runtime import Bundle

__all__ = ["bench"]

_EVERYDAY: Final = Path(__file__).parent.parent / "assets" / "everyday.en-de.tsv"

#: Of the shipped sentences, so many from the beginning: enough for a p90, few enough for a minute.
_NUM_SENTENCES: Final = 32


def bench(
    model: ModelArgument = None,
    runtime: Annotated[
        list[Runtime] | None,
        typer.Option("--runtime", help="onnx or executorch, repeatable; else all that are there.", show_default=False),
    ] = None,
    threads: Annotated[
        str | None,
        typer.Option(
            "--threads",
            metavar="N,N,...",
            help="Numbers of threads to try; else 1 and one per core.",
            show_default=False,
        ),
    ] = None,
    beam: BeamOption = 1,
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="Times that every sentence is measured.")] = 3,
    warmup: Annotated[int, typer.Option("--warmup", min=0, help="Times that it is translated before.")] = 1,
    input_path: Annotated[
        Path | None,
        typer.Option(
            "--input",
            metavar="FILE",
            help=f"Sentences, one per line, .gz or not; else {_NUM_SENTENCES} everyday ones.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Keep the JSON object here.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite --out.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Measure a bundle: load time, first token, sentences, tokens and Mult-Adds per second, memory.

    Each row of the table is measured in a process of its own, one sentence at a time.
    """
    counts = _parse_threads(threads)
    if output is not None:
        check_output(output, force=force)
    source = _bundle_source(resolve_source(model))
    from lite_nlp.artifacts.bundles import open_any_bundle

    bundle = open_any_bundle(source.path)
    sources = _read_sources(bundle, input_path)
    orders = [
        Order(
            bundle=str(source.path),
            runtime=str(chosen),
            threads=count,
            beam=beam,
            sources=sources,
            warmup=warmup,
            repeats=repeats,
        )
        for chosen in _runtimes(bundle, runtime)
        for count in counts
    ]
    found = _measure_all(orders, needed=runtime is not None)
    content = {
        "tool": "lite-nlp bench",
        "tool_version": __version__,
        "created": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "device": describe_device().to_json(),
        "model": _describe_model(bundle),
        "settings": {
            "beam": beam,
            "sentences": len(sources),
            "src_tokens": sum(map(len, sources)),
            "tgt_tokens": found[0]["tgt_tokens"],
            "warmup": warmup,
            "repeats": repeats,
        },
        "rows": [measured["row"] for measured in found],
    }
    if output is not None:
        whole = {"schema_version": SCHEMA_VERSION, **content}
        write_text(output, json.dumps(whole, ensure_ascii=False, indent=2) + "\n")
    if as_json:
        print_json(content)
    else:
        _print_table(content)


def _parse_threads(text: str | None) -> list[int]:
    if text is None:
        return sorted({1, usable_cores()})
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and int(part) > 0 for part in parts):
        raise typer.BadParameter(f"--threads: expected numbers of at least 1 such as 1,2,4, found {text!r}")
    return list(dict.fromkeys(map(int, parts)))


def _bundle_source(source: Source) -> Source:
    if source.kind != "bundle":
        raise RuntimeUnavailableError(
            f"{source.name}: bench measures what a device runs: expected a bundle .zip made by `lite-nlp export "
            f"{source.name} --out {source.name}.zip`, found a model {source.kind}"
        )
    return source


def _runtimes(bundle: "Bundle", asked: list[Runtime] | None) -> list[Runtime]:
    if asked and Runtime.TORCH in asked:
        raise typer.BadParameter("--runtime: expected onnx or executorch, which run bundles, found torch")
    there = {Runtime.ONNX: bundle.manifest.onnx, Runtime.EXECUTORCH: bundle.manifest.executorch}
    chosen = list(dict.fromkeys(asked)) if asked else [name for name, entry in there.items() if entry is not None]
    if not chosen:
        raise BundleError(f"{bundle.path}: expected graphs for onnx or executorch, found none")
    return chosen


def _read_sources(bundle: "Bundle", path: Path | None) -> list[list[int]]:
    """Token ids of the sentences; blank lines are left out."""
    from lite_nlp.data.tokenizer import Tokenizer
    from lite_nlp.decoding.lines import read_file_lines

    lines = read_file_lines(path or _EVERYDAY)
    if path is None:
        lines = [line.split("\t")[0] for line in lines[:_NUM_SENTENCES]]
    tokenizer = Tokenizer.from_json(bundle.tokenizer_json)
    longest = bundle.manifest.bounds.source - 1  # the end mark takes a place
    sources = []
    for number, line in enumerate(lines, start=1):
        tokens = tokenizer.encode(line) if line.strip() else []
        if len(tokens) > longest:
            raise DataError(
                f"{path or _EVERYDAY.name}: line {number}: expected at most {longest} tokens, which the bundle "
                f"takes at once, found {len(tokens)}"
            )
        if tokens:
            sources.append(tokens)
    if not sources:
        raise DataError(f"{path}: expected at least one line that is not blank, found none")
    return sources


def _measure_all(orders: list[Order], *, needed: bool) -> list[dict[str, Any]]:
    """Carry out orders one after the other.

    Args:
        orders: At least one.
        needed: Whether a runtime that is not installed is an error; else it is left out with a warning.
    """
    found: list[dict[str, Any]] = []
    missing: dict[str, RuntimeUnavailableError] = {}
    with progress_bar() as progress:
        each = len(orders[0].sources) * (orders[0].warmup + orders[0].repeats)
        task = progress.add_task("starting", total=each * len(orders))
        for index, order in enumerate(orders):
            if order.runtime not in missing:
                progress.update(task, description=f"{order.runtime}, threads {order.threads}")
                try:
                    found.append(_carry_out(order, lambda: progress.advance(task)))
                except RuntimeUnavailableError as error:
                    if needed:
                        raise
                    missing[order.runtime] = error
            progress.update(task, completed=each * (index + 1))
    if not found:
        raise next(iter(missing.values()))
    for name, problem in missing.items():
        warn(f"{name} is left out: {problem}")
    return found


def _carry_out(order: Order, advance: Callable[[], None]) -> dict[str, Any]:
    """Have a fresh process measure one row.

    Raises:
        LiteNlpError: Whatever the process tells of.
        BundleError: If the process dies.
    """
    # -P: the directory that the user is in holds no modules of ours, and may hold ones of the same names.
    command = [sys.executable, "-P", "-m", "lite_nlp.cli.bench_worker"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    ) as process:
        try:
            for event, content in _events(process, order):
                if event == "progress":
                    advance()
                elif event == "error":
                    raise rebuild_error(*content)
                else:
                    row: dict[str, Any] = content
                    return row
            code = process.wait()
        finally:
            if process.poll() is None:
                process.kill()
    raise BundleError(
        f"{order.bundle}: {order.runtime}, threads {order.threads}: expected the measuring process to finish, found "
        f"that it ended with code {code}"
    )


def _events(process: "subprocess.Popen[str]", order: Order) -> Iterator[tuple[str, Any]]:
    if process.stdin is None or process.stdout is None:
        raise ValueError("process: expected pipes to it and from it, found none")
    # One that dies at once does not read its order; how it ended says more than that.
    with suppress(BrokenPipeError), process.stdin as stream:
        json.dump(asdict(order), stream)
    for line in process.stdout:
        event, content = json.loads(line)
        yield event, content


def _describe_model(bundle: "Bundle") -> dict[str, Any]:
    manifest = bundle.manifest
    with zipfile.ZipFile(bundle.path) as archive:
        content = archive.read("manifest.json")
    return {
        "name": manifest.name,
        "manifest_sha256": sha256_bytes(content),
        "size_bytes": sum(entry.size_bytes for entry in manifest.files.values()),
        "params": manifest.budget.get("params", {}).get("total", 0),
        "macs": manifest.budget.get("macs", {}).get("executed", 0),
    }


def _print_table(content: dict[str, Any]) -> None:
    settings, device = content["settings"], content["device"]
    table = Table(
        title=f"{content['model']['name']}, {settings['sentences']} sentences, beam {settings['beam']}",
        box=SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )
    table.add_column("runtime")
    for name in (
        "threads",
        "load ms\ncold / warm",
        "first\ntoken\nms p50",
        "sentence ms\np50 / p90",
        "tokens\nper s",
        "GMAC\nper s",
        "memory MB\nloaded\n/ peak",
    ):
        table.add_column(name, justify="right")
    for row in content["rows"]:
        memory, sentence = row["memory_bytes"], row["sentence_ms"]
        loaded, peak = (round((memory[key] - memory["before"]) / 1e6) for key in ("loaded", "peak"))
        table.add_row(
            row["runtime"],
            str(row["threads"]),
            f"{row['load_cold_ms']:,.0f} / {row['load_warm_ms']:,.0f}",
            f"{row['first_token_ms']['p50']:.1f}",
            f"{sentence['p50']:.1f} / {sentence['p90']:.1f}",
            f"{row['tokens_per_s']:,.0f}",
            f"{row['gmacs_per_s']:.2f}",
            f"{loaded} / {peak}",
        )
    out.print(table)
    where = ", ".join(filter(None, (device["name"], device["cpu"], f"{device['cores']} cores", device["os"])))
    versions = dict.fromkeys(f"{row['runtime']} {row['version']}" for row in content["rows"])
    out.print(", ".join(versions), markup=False, soft_wrap=True)
    out.print(where, markup=False, soft_wrap=True)
    if len({row["tokens_sha256"] for row in content["rows"]}) > 1:
        warn("expected the same tokens in all rows, found different ones")
    elif len(content["rows"]) > 1:
        out.print("The same tokens in all rows.")
