"""``lite-nlp bench``: a model's load time, latency, speed and memory, by runtime and number of threads."""

import json
import re
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from lite_nlp.api.bench import MAX_NEW_TOKENS, BenchReport, bench_model
from lite_nlp.api.bench_examples import NUM_SENTENCES
from lite_nlp.api.estimate import SpeedEstimate, estimate_speed
from lite_nlp.budget.closed_form.roofline import PROCESSORS
from lite_nlp.budget.reporting.speed import describe_search
from lite_nlp.cli.console import ProgressBars, out, print_json, warn
from lite_nlp.cli.options import BeamOption, ModelArgument, given_parameters
from lite_nlp.core.bounds import MAX_REPEATS, MAX_THREADS, MAX_TOKENS
from lite_nlp.core.errors import UsageError
from lite_nlp.core.files import write_text
from lite_nlp.core.outputs import check_output_file
from lite_nlp.core.version import SCHEMA_VERSION
from lite_nlp.export.runtime.registry import RUNTIMES

__all__ = ["bench"]

#: The parameters that mean something to an estimate.
_ESTIMATED = ("model", "beam", "estimate", "output", "force", "as_json")

_FIGURES = ("load ms\ncold / warm", "first\ntoken\nms p50", "sentence ms\np50 / p90", "tokens\nper s", "GMAC\nper s")


def bench(
    context: typer.Context,
    model: ModelArgument = None,
    runtime: Annotated[
        list[str] | None,
        typer.Option(
            "--runtime",
            metavar="|".join(RUNTIMES),
            help="Runtime of the bundle; repeatable. Else all that are installed.",
            show_default=False,
        ),
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
    max_tokens: Annotated[
        int | None,
        typer.Option(
            "--max-tokens",
            min=1,
            max=MAX_TOKENS,
            help=f"Language models: most tokens that a sentence is continued by; else {MAX_NEW_TOKENS}.",
            show_default=False,
        ),
    ] = None,
    repeats: Annotated[
        int, typer.Option("--repeats", min=1, max=MAX_REPEATS, help="Measured passes over the sentences.")
    ] = 3,
    warmup: Annotated[int, typer.Option("--warmup", min=0, max=MAX_REPEATS, help="Unmeasured passes before them.")] = 1,
    input_path: Annotated[
        Path | None,
        typer.Option(
            "--input",
            metavar="FILE",
            help=f"Sentences, one per line, .gz or not, those of a pair separated by a tab; else {NUM_SENTENCES} "
            "everyday ones.",
            show_default=False,
        ),
    ] = None,
    estimate: Annotated[
        str | None,
        typer.Option(
            "--estimate",
            metavar="|".join(PROCESSORS),
            help="Measure nothing: estimate the least time on this processor from the counter.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Also write the JSON here.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite --out.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Measure a model: load time, first token, sentences, tokens and Mult-Adds per second, memory.

    With --estimate nothing is measured: the counter says what a processor would take at least.

    Each row of the table is measured in its own process, one sentence at a time. A language model continues the
    sentences, a classifier gives each its class. A model that is no bundle is first exported into the cache.
    """
    counts = None if threads is None else _parse_threads(threads)
    if output is not None:
        check_output_file(output, force=force)
    if estimate is not None:
        if excluded := given_parameters(context, but=_ESTIMATED):
            raise UsageError(f"{excluded[0]}: expected no --estimate with it, which runs nothing")
        estimated = estimate_speed(model, processor=estimate, beam=beam)
        _report(estimated.as_dict(), output, force=force, as_json=as_json)
        if not as_json:
            _print_estimate(estimated)
        return
    with ProgressBars() as progress:
        report = bench_model(
            model,
            runtimes=runtime or None,
            threads=counts,
            beam=beam,
            max_tokens=max_tokens,
            repeats=repeats,
            warmup=warmup,
            input_path=input_path,
            warn=warn,
            progress=progress,
        )
    _report(report.as_dict(), output, force=force, as_json=as_json)
    if not as_json:
        _print_table(report)
    if not report.same_tokens:
        warn("expected the same tokens in all rows, found different ones")


def _report(content: dict[str, Any], output: Path | None, *, force: bool, as_json: bool) -> None:
    """Write the JSON to a file and print it, each if it is asked for."""
    if output is not None:
        whole = {"schema_version": SCHEMA_VERSION, **content}
        write_text(output, json.dumps(whole, ensure_ascii=False, indent=2) + "\n", force=force)
    if as_json:
        print_json(content)


def _parse_threads(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch("[0-9]{1,9}", part) and 1 <= int(part) <= MAX_THREADS for part in parts):
        raise typer.BadParameter(
            f"--threads: expected numbers from 1 to {MAX_THREADS} such as 1,2,4, found {text[:40]!r}"
        )
    return list(map(int, parts))


def _print_table(report: BenchReport) -> None:
    settings = report.settings
    precision = report.rows[0]["precision"]
    title = ", ".join(
        [
            report.model["name"],
            f"{settings['sentences']} sentences",
            *describe_search(report.model["task"], settings),
            precision,
        ]
    )
    table = Table("runtime", title=title, box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for heading in ("threads", *_FIGURES, "memory MB\nloaded\n/ peak"):
        table.add_column(heading, justify="right")
    for row in report.rows:
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
    for row in report.rows:
        opening = row["opening"]
        taken, weights = opening["memory_bytes"], opening["weights_bytes"]
        out.print(
            f"{row['runtime']}, threads {row['threads']}: from the file to the first token {opening['ms'] / 1e3:.2f} s "
            f"and {taken / 1e6:.0f} MB, {taken / weights:.1f} times the weights",
            soft_wrap=True,
        )
    device = report.device
    where = ", ".join(filter(None, (device.name, device.cpu, f"{device.cores} cores", device.os)))
    versions = dict.fromkeys(f"{row['runtime']} {row['version']}" for row in report.rows)
    out.print(", ".join(versions), soft_wrap=True)
    out.print(where, soft_wrap=True)
    if report.same_tokens and len(report.rows) > 1:
        out.print("The same tokens in all rows.")


def _print_estimate(estimated: SpeedEstimate) -> None:
    lengths, processor = estimated.lengths, estimated.processor
    tokens = f"{lengths['src']} -> {lengths['tgt']}" if lengths["src"] else f"{lengths['tgt']}"
    title = f"Estimate, not measured: {estimated.model}, {tokens} tokens, beam {estimated.beam}"
    table = Table("weights", title=title, box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for heading in ("threads", "encoder ms", "token ms", "limit of a token", "sentence ms", "tokens per s"):
        table.add_column(heading, justify="right")
    for row in estimated.rows:
        table.add_row(
            row.precision,
            str(row.threads),
            f"{row.encode.ms:.2f}",
            f"{row.step.ms:.2f}",
            row.step.bound,
            f"{row.sentence_ms:.1f}",
            f"{row.tokens_per_s:,.0f}",
        )
    out.print(table)
    out.print(
        f"At best on {processor.title}: {processor.cores * processor.core_flops / 1e9:.0f} GFLOPS, "
        f"{processor.bytes_per_s / 1e9:.1f} GB/s; operator calls, activations and the search are left out.",
        soft_wrap=True,
    )
