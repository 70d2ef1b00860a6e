"""``lite-nlp bench``: a model's load time, latency, speed and memory, by runtime and number of threads."""

import json
import re
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from lite_nlp.api.bench import NUM_SENTENCES, BenchReport, bench_model
from lite_nlp.cli.console import ProgressBars, out, print_json, warn
from lite_nlp.cli.options import BeamOption, ModelArgument
from lite_nlp.core.bounds import MAX_REPEATS, MAX_THREADS
from lite_nlp.core.files import write_text
from lite_nlp.core.outputs import check_output_file
from lite_nlp.core.version import SCHEMA_VERSION
from lite_nlp.export.runtime.registry import RUNTIMES

__all__ = ["bench"]

_FIGURES = ("load ms\ncold / warm", "first\ntoken\nms p50", "sentence ms\np50 / p90", "tokens\nper s", "GMAC\nper s")


def bench(
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
    repeats: Annotated[
        int, typer.Option("--repeats", min=1, max=MAX_REPEATS, help="Measured passes over the sentences.")
    ] = 3,
    warmup: Annotated[int, typer.Option("--warmup", min=0, max=MAX_REPEATS, help="Unmeasured passes before them.")] = 1,
    input_path: Annotated[
        Path | None,
        typer.Option(
            "--input",
            metavar="FILE",
            help=f"Sentences, one per line, .gz or not; else {NUM_SENTENCES} everyday ones.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Also write the JSON here.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite --out.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Measure a model: load time, first token, sentences, tokens and Mult-Adds per second, memory.

    Each row of the table is measured in its own process, one sentence at a time. A model that is no bundle is first
    exported into the cache.
    """
    counts = None if threads is None else _parse_threads(threads)
    if output is not None:
        check_output_file(output, force=force)
    with ProgressBars() as progress:
        report = bench_model(
            model,
            runtimes=runtime or None,
            threads=counts,
            beam=beam,
            repeats=repeats,
            warmup=warmup,
            input_path=input_path,
            warn=warn,
            progress=progress,
        )
    content = report.as_dict()
    if output is not None:
        whole = {"schema_version": SCHEMA_VERSION, **content}
        write_text(output, json.dumps(whole, ensure_ascii=False, indent=2) + "\n", force=force)
    if as_json:
        print_json(content)
    else:
        _print_table(report)


def _parse_threads(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch("[0-9]{1,9}", part) and 1 <= int(part) <= MAX_THREADS for part in parts):
        raise typer.BadParameter(
            f"--threads: expected numbers from 1 to {MAX_THREADS} such as 1,2,4, found {text[:40]!r}"
        )
    return list(map(int, parts))


def _print_table(report: BenchReport) -> None:
    title = f"{report.model['name']}, {report.settings['sentences']} sentences, beam {report.settings['beam']}"
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
    out.print(", ".join(versions), markup=False, soft_wrap=True)
    out.print(where, markup=False, soft_wrap=True)
    if not report.same_tokens:
        warn("expected the same tokens in all rows, found different ones")
    elif len(report.rows) > 1:
        out.print("The same tokens in all rows.")
