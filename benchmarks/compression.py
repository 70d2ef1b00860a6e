"""The experiments on compression of ``docs/results.md``: the shipped model and other tasks."""

from collections.abc import Sequence
from typing import Any, Final

from cells import MISSING, score_cell, table_head, table_line
from corpora import CORPORA
from initialisation import CASES, short_training
from rows import Place, Row, compress_stage
from shipped import measure_both, shipped_training, tuning_data

__all__ = ["shipped", "shipped_table", "tasks", "tasks_table"]

#: Initialisation of the models of other tasks, by their data.
SCHEMES: Final = {"tinyshakespeare": "depth-scaled", "mnli": "normal"}


def shipped(place: Place) -> list[Row]:
    """The English-German model at several targets, greedy, on both of its test sets."""
    data, train, original = shipped_training(place, "en", "de")
    tuning, taught = tuning_data(place, "en", "de", data)
    cases: list[tuple[str, list[str]]] = [
        ("default", []),
        ("`--no-finetune`", ["--no-finetune"]),
        ("7.3x, quick", ["--target-ratio", "7.3"]),
        ("7.3x, no-finetune", ["--target-ratio", "7.3", "--no-finetune"]),
    ]
    for effort in ("normal", "thorough"):
        for ratio in ("10", "18.2", "30"):
            options = ["--data", str(tuning), "--effort", effort, "--target-ratio", ratio]
            cases.append((f"{ratio}x, {effort}", options))
    stem = original.name
    rows = [Row("as trained", [*train, *measure_both(place, stem, original, "en", "de")], original, stem)]
    for name, options in cases:
        stem = "shipped-" + name.strip("`-").replace(".", "-").replace("x, ", "x-")
        compress = compress_stage(place, stem, original, *options)
        measures = measure_both(place, stem, compress.out / "model.lnlp", "en", "de")
        rows.append(Row(name, [*train, *taught, compress, *measures], compress.out, stem))
    return rows


def tasks(place: Place) -> list[Row]:
    """A language model and a classifier of the experiment on initialisation, by default and at 18.2x."""
    rows = []
    for case in CASES:
        if case.task not in SCHEMES:
            continue
        data, _ = CORPORA[case.task](place)
        stages, model = short_training(place, case, SCHEMES[case.task], case.seeds[0])
        for name, options in (("default", []), ("18.2x", ["--target-ratio", "18.2"])):
            stem = f"compressed-{case.task}-{name.replace('.', '-')}"
            compress = compress_stage(place, stem, model, "--data", str(data), *options)
            rows.append(Row(f"{case.name}, {name}", [*stages, compress], compress.out, stem))
    return rows


def shipped_table(rows: Sequence[dict[str, Any]]) -> str:
    """Bytes, ratio and BLEU of both test sets."""
    lines = table_head(["`compress`", "bytes", "ratio", "BLEU, Tatoeba test", "BLEU, test2016"])
    for row in rows:
        cells = [MISSING] * 4
        if row["evaluation"] and row["further"]:
            scores = [score_cell(row[name]["scores"], "bleu") for name in ("evaluation", "further")]
            size, ratio = row["weights_bytes"], 1.0
            if row["ledger"]:
                size, ratio = (row["ledger"]["stages"][-1][key] for key in ("size_bytes", "ratio"))
            cells = [f"{size:,}", f"{ratio:.2f}", *scores]
        lines.append(table_line([row["name"], *cells]))
    return "\n".join(lines)


def tasks_table(rows: Sequence[dict[str, Any]]) -> str:
    """Bytes, ratio and score before and after, with the paired interval of the difference."""
    lines = table_head(["model", "bytes before", "after", "ratio", "score", "before", "after", "difference"])
    for row in rows:
        cells = [MISSING] * 7
        if ledger := row["ledger"]:
            first, last, metric = ledger["stages"][0], ledger["stages"][-1], ledger["metric"]
            change = last["against_original"][metric]
            sizes = [f"{stage['size_bytes']:,}" for stage in (first, last)]
            scores = [f"{stage['scores'][metric]:.2f}" for stage in (first, last)]
            difference = f"{change['difference']:+.2f} ({change['low']:+.2f} to {change['high']:+.2f})"
            cells = [*sizes, f"{last['ratio']:.2f}", metric, *scores, difference]
        lines.append(table_line([row["name"], *cells]))
    return "\n".join(lines)
