"""Run the experiments of ``docs/results.md`` and print its tables; can be stopped at any time and resumed.

    python benchmarks/results.py [--only multi30k] [--row NAME] [--corpora DIR] [--runs DIR] [--collect]

All trainings together take a day on one core. Measurements are written to ``RUNS/results`` and collected in
``RUNS/results.json``, with the command, commit and machine of every stage that was run, and the seed; a stage with a
result is not run again, so delete a result to measure it again. ``--collect``
runs nothing and shows the existing results. The tables are written into ``docs/results.md``, or the page of ``--page``;
rows that are not measured under ``RUNS`` stay as they are. ``--no-page`` writes none. ``--max-steps 2`` tries all
stages in minutes; it needs a separate ``--runs``, and a ``--page`` if there is to be one.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from cells import MISSING, score_cell, table_head, table_line
from compression import shipped_table, tasks_table
from experiments import EXPERIMENTS, figures
from families import families_table
from initialisation import initialisation_table
from provenance import BEGINNING, source_line
from rows import Place
from shipped import shipped_models_table
from stages import Failed, Measure, Train, UnderWay, run_stage
from students import sizes_table
from text_tasks import accuracy_table, rouge_table

from lite_nlp.core.files import write_text

PAGE = Path(__file__).parents[1] / "docs" / "results.md"

BEGIN, END = "<!-- table: {name} -->", "<!-- end of table -->"


def run(name: str, place: Place, only: list[str] | None) -> list[str]:
    """Run the rows of an experiment, or only the named ones; return the problems that prevented measurements."""
    problems: list[str] = []
    given_up: set[Path] = set()
    for row in EXPERIMENTS[name](place):
        if only and row.name not in only:
            continue
        for stage in row.stages:
            if stage.out in given_up:
                break
            try:
                run_stage(stage)
            except (Failed, UnderWay) as problem:
                print(problem, file=sys.stderr)
                problems.append(str(problem))
                given_up.add(stage.out)
                break
    return problems


def show_commands(name: str, place: Place, only: list[str] | None) -> None:
    """Print every command of an experiment, or of the named rows, once, as typed in a shell."""
    shown: dict[Path, str] = {}
    for row in EXPERIMENTS[name](place):
        if only and row.name not in only:
            continue
        for stage in row.stages:
            words = [Path(word).name if word in stage.program else word for word in stage.command()]
            if isinstance(stage, Train):
                words.pop()
            shown[stage.out] = " ".join([*words, ">", str(stage.out)] if isinstance(stage, Measure) else words)
    print("\n".join(shown.values()))


def translation_table(rows: list[dict[str, Any]], first: str) -> str:
    """Sizes, perplexity on the validation split and scores on the test split."""
    tokenized = any("tokenized_bleu" in row for row in rows)
    heads = [first, "parameters", "without tables", "Mult-Adds, paper", "executed", "validation perplexity"]
    heads += ["BLEU, 95 % interval", "chrF, 95 % interval", *(["BLEU of the tokens"] if tokenized else [])]
    lines = table_head(heads)
    for row in rows:
        budget, training, evaluation = row["budget"], row["training"], row["evaluation"]
        sizes = [MISSING] * 4
        if budget is not None:
            params, macs = budget["params"], budget["macs"]
            sizes = [f"{number:,}" for number in (params["total"], params["paper"], macs["paper"], macs["executed"])]
        done = training is not None and training["ended_by"] is not None
        scores = [MISSING] * 2
        if evaluation is not None:
            found = evaluation["scores"]
            scores = [score_cell(found, metric) for metric in ("bleu", "chrf")]
        perplexity = f"{training['valid']['perplexity']:.2f}" if done else MISSING
        if tokenized:
            scores.append(MISSING if row["tokenized_bleu"] is None else f"{row['tokenized_bleu']:.2f}")
        lines.append(table_line([row["name"], *sizes, perplexity, *scores]))
    return "\n".join(lines)


def perplexity_table(rows: list[dict[str, Any]]) -> str:
    """Perplexities of the language models on the test split."""
    heads = ["attention", "parameters", "perplexity per token, 95 % interval", "per word", "bits per character"]
    lines = table_head(heads)
    for row in rows:
        params = MISSING if row["budget"] is None else f"{row['budget']['params']['total']:,}"
        scores = [MISSING] * 3
        if row["evaluation"] is not None:
            found = row["evaluation"]["scores"]
            word, character = f"{found['word_perplexity']:.1f}", f"{found['bits_per_character']:.3f}"
            # A text of one window has no interval.
            bounded = found.get("perplexity_low") is not None
            scores = [score_cell(found, "perplexity") if bounded else f"{found['perplexity']:.2f}", word, character]
        lines.append(table_line([row["name"], params, *scores]))
    return "\n".join(lines)


def scaling_table(rows: list[dict[str, Any]]) -> str:
    """Milliseconds per token and bytes of state, by kind of attention and length."""
    parts = []
    for row in rows:
        measured = row["evaluation"]
        if measured is None:
            parts.append(f"{row['name']}: {MISSING}")
            continue
        cells = {(cell["attention"], cell["length"]): cell for cell in measured["rows"]}
        lengths = sorted({length for _, length in cells})
        kinds = list(dict.fromkeys(cell["attention"] for cell in measured["rows"]))
        heads = [f"{length:,} tokens" for length in lengths]
        for caption, key, form in (
            ("Milliseconds per step", "ms_per_token", ".2f"),
            ("Bytes of state", "state_bytes", ","),
        ):
            lines = [f"{caption}, {row['name']}:", "", *table_head(["attention", *heads])]
            lines += [
                table_line([kind, *(format(cells[kind, length][key], form) for length in lengths)]) for kind in kinds
            ]
            parts.append("\n".join(lines))
    return "\n\n".join(parts)


TABLES = {
    "initialisation": initialisation_table,
    "families": families_table,
    "multi30k": lambda rows: translation_table(rows, "preset"),
    "r2d2": lambda rows: translation_table(rows, "R2D2"),
    "t2r": perplexity_table,
    "t2r-scaling": scaling_table,
    "language-models": perplexity_table,
    "summaries": rouge_table,
    "inference": accuracy_table,
    "sentiment": accuracy_table,
    "sentiment-lstm": accuracy_table,
    "shipped-models": shipped_models_table,
    "compression": shipped_table,
    "compression-tasks": tasks_table,
    "compression-sizes": sizes_table,
}


def _with_sources(name: str, rows: list[dict[str, Any]]) -> str:
    """The table of an experiment with what is recorded of its machines and commits below it."""
    machines = {run["machine"] for row in rows for stage in row["stages"] for run in stage["runs"]}
    if len(machines) > 1:
        print(f"{name}: expected rows of one machine, found {'; '.join(sorted(machines))}", file=sys.stderr)
    line = source_line(rows)
    return TABLES[name](rows) + (f"\n\n{line}" if line else "")


def keep_measured(table: str, before: str) -> str:
    """The new table, with the old lines where the new one has no measurement.

    What the page has on the sources of the old lines stays if nothing is known on those of the new ones.
    """
    if MISSING not in table:
        return table
    lines = {line.split("|")[1]: line for line in before.splitlines() if line.startswith("|")}
    kept = []
    for line in table.splitlines():
        if MISSING not in line:
            kept.append(line)
        elif line.startswith("|"):
            kept.append(lines.get(line.split("|")[1], line))
        else:
            # A whole table of the scaling experiment.
            return before.strip()
    sources = [line for line in before.splitlines() if line.startswith(BEGINNING)]
    if sources and not any(line.startswith(BEGINNING) for line in kept):
        kept += ["", *sources]
    return "\n".join(kept)


def write_page(page: Path, tables: dict[str, str]) -> None:
    """Write the tables between their marks in a page; rows without a measurement stay as they are."""
    text = page.read_text(encoding="utf-8")
    for name, table in tables.items():
        mark = BEGIN.format(name=name)
        before, found, rest = text.partition(mark)
        old, ended, after = rest.partition(END)
        if not found or not ended:
            raise SystemExit(f"{page}: expected {mark} and then {END}, found none")
        text = f"{before}{mark}\n\n{keep_measured(table, old)}\n\n{END}{after}"
    write_text(page, text)


def main() -> None:
    parser = argparse.ArgumentParser(description="Run the experiments of docs/results.md and print its tables.")
    parser.add_argument("--only", action="append", choices=list(EXPERIMENTS), help="this experiment; repeatable")
    parser.add_argument("--row", action="append", metavar="NAME", help="only this row of a table; repeatable")
    parser.add_argument("--corpora", type=Path, default=Path("../shared/data"), help="copies of the corpora")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="data directories, models and results")
    parser.add_argument("--max-steps", type=int, default=0, help="bound on the steps of every training, for a trial")
    parser.add_argument("--collect", action="store_true", help="run nothing, show the existing results")
    parser.add_argument("--commands", action="store_true", help="run nothing, show the commands")
    pages = parser.add_mutually_exclusive_group()
    pages.add_argument(
        "--page", type=Path, help="the page that the tables are written into, docs/results.md if not given"
    )
    pages.add_argument("--no-page", action="store_true", help="print the tables alone")
    options = parser.parse_args()
    if options.max_steps < 0:
        parser.error(f"--max-steps: expected at least 0, found {options.max_steps}")
    if options.max_steps and options.runs == parser.get_default("runs"):
        parser.error("--max-steps is for a trial: expected a --runs of its own")
    place = Place(corpora=options.corpora, runs=options.runs, max_steps=options.max_steps)
    names = options.only or list(EXPERIMENTS)
    known = [row.name for name in names for row in EXPERIMENTS[name](place)]
    if unknown := sorted(set(options.row or []) - set(known)):
        parser.error(f"--row: expected one of {', '.join(known)}, found {', '.join(unknown)}")
    if options.commands:
        for name in names:
            show_commands(name, place, options.row)
        return
    if not (options.collect or options.corpora.is_dir()):
        parser.error(f"--corpora: expected a directory with copies of the corpora, found none: {options.corpora}")
    problems = [] if options.collect else [problem for name in names for problem in run(name, place, options.row)]
    # All existing results are collected, not only those of the experiments run now.
    results = {name: [figures(place, row) for row in rows(place)] for name, rows in EXPERIMENTS.items()}
    write_text(place.runs / "results.json", json.dumps({"schema_version": 1, **results}, indent=1) + "\n")
    tables = {name: _with_sources(name, results[name]) for name in names}
    print("\n\n".join(f"## {name}\n\n{table}" for name, table in tables.items()))
    # The figures of a trial are nobody's results.
    page = options.page or (None if options.no_page or options.max_steps else PAGE)
    if page is not None:
        write_page(page, tables)
    if problems:
        raise SystemExit("\n".join(problems))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        print("stopped; the same command resumes from here", file=sys.stderr)
        sys.exit(130)
