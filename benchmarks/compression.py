"""The experiments on compression of ``docs/results.md``: the shipped model, other tasks, sizes on Multi30k."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from cells import MISSING, score_cell, table_head, table_line
from corpora import CORPORA, multi30k
from families import multi30k_family
from initialisation import CASES, short_training
from rows import Place, Row, compress_stage, train_stage
from shipped import measure_both, shipped_training
from stages import Measure, Stage

__all__ = ["shipped", "shipped_table", "sizes", "sizes_table", "tasks", "tasks_table"]

#: Initialisation of the models of other tasks, by their data.
SCHEMES: Final = {"tinyshakespeare": "depth-scaled", "mnli": "normal"}

#: The published model of the size that the Multi30k rows are compared with: 2.6M weights as fp32 (Wu et al. 2021).
PUBLISHED_BYTES: Final = 10_400_000


def shipped(place: Place) -> list[Row]:
    """The English-German model at several targets, greedy, on both of its test sets."""
    data, train, original = shipped_training(place, "en", "de")
    cases: list[tuple[str, list[str]]] = [("default", []), ("`--no-finetune`", ["--no-finetune"])]
    for effort in ("normal", "thorough"):
        for ratio in ("10", "18.2", "30"):
            options = ["--data", str(data), "--effort", effort, "--target-ratio", ratio]
            cases.append((f"{ratio}x, {effort}", options))
    stem = original.name
    rows = [Row("as trained", [*train, *measure_both(place, stem, original, "en", "de")], original, stem)]
    for name, options in cases:
        stem = "shipped-" + name.strip("`-").replace(".", "-").replace("x, ", "x-")
        compress = compress_stage(place, stem, original, *options)
        measures = measure_both(place, stem, compress.out / "model.lnlp", "en", "de")
        rows.append(Row(name, [*train, compress, *measures], compress.out, stem))
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


@dataclass(frozen=True, kw_only=True)
class Student:
    """A model for Multi30k that is trained to be compressed.

    Attributes:
        name: Its name in the table.
        stem: Of the directory of its run.
        preset: What it is trained from.
        types: Size of its vocabulary.
        settings: Keys that differ from the preset and ``TRAINING``.
        distillation: Options of ``distill``, from the model of ``TEACHER``; None if it learns from the corpus itself.
        targets: Sizes of its files, vocabulary included.
        seeds: Seeds of its training.
    """

    name: str
    stem: str
    preset: str
    types: int
    settings: dict[str, Any] = field(default_factory=dict)
    distillation: Sequence[str] | None = None
    targets: Sequence[str] = ("570KB", "350KB", "200KB")
    seeds: Sequence[int] = (1,)


#: Family of the model that others learn from, with a vocabulary of its own.
TEACHER: Final = "lite-transformer"

#: The training of all of them. Weight decay keeps the weights small, and with them the entropy of their levels.
TRAINING: Final = {
    "training.precision": "bf16",
    "training.max_epochs": 40,
    "training.max_steps": 6200,
    "training.warmup_steps": 1000,
    "training.schedule": "cosine",
    "training.weight_decay": 0.05,
    "training.average_checkpoints": 5,
    "training.patience": 40,
}

STUDENTS: Final = (
    Student(
        name="Lite Transformer, 1,000 types, 1.5M parameters",
        stem="m30k-1k-144",
        preset="multi30k-lite-transformer",
        types=1000,
        targets=("570KB",),
    ),
    Student(
        name="Lite Transformer, 2,000 types, 1.6M parameters, distilled",
        stem="m30k-2k-144",
        preset="multi30k-lite-transformer",
        types=2000,
        # What a small model learns from a larger one needs less regularization than what it learns from 29,000 pairs.
        settings={"training.weight_decay": 0.01, "model.dropout": 0.15, "model.conv_dropout": 0.0},
        distillation=("--n-best", "4", "--reference-weight", "0.3"),
    ),
)


def sizes(place: Place) -> list[Row]:
    """Bytes of the whole file against BLEU on test2016, beam 5, trained on Multi30k alone."""
    references = place.corpora / "multi30k" / "test2016.lc.norm.tok.de.gz"
    rows = []
    _, train_teacher, teacher = multi30k_family(place, TEACHER)
    hypotheses = ["--hypotheses", f"{teacher}-hypotheses", "--level", "sequence"]
    for student in STUDENTS:
        data, prepare = multi30k(place, types=student.types)
        lesson: Sequence[str] = ()
        if student.distillation is not None:
            prepare = [*train_teacher, *prepare]
            lesson = [*hypotheses, *student.distillation]
        for seed in student.seeds:
            stem = student.stem if seed == 1 else f"{student.stem}-{seed}"
            settings = {**TRAINING, **student.settings, "training.seed": seed}
            train = train_stage(
                place, stem, student.preset, data, settings, *lesson, teacher=teacher if lesson else None
            )
            original = place.runs / stem
            stages = [*prepare, train, *_beam_search(place, stem, original, data)]
            rows.append(Row(f"{student.name}, as trained", stages, original, stem, references, group=student.name))
            for target in student.targets:
                small = f"{stem}-{target}"
                options = ["--data", str(data), "--target-size", target, "--effort", "normal"]
                compress = compress_stage(place, small, original, *options)
                stages = [
                    *prepare,
                    train,
                    compress,
                    *_beam_search(place, small, compress.out / "model.lnlp", data),
                ]
                name = f"{student.name}, {target}"
                rows.append(Row(name, stages, compress.out, small, references, group=student.name))
    return rows


def _beam_search(place: Place, stem: str, model: Path, data: Path) -> list[Stage]:
    output = place.figures(stem).with_suffix(".txt")
    search = ["--beam", "5", "--output", str(output), "--force"]
    return [
        Measure(out=place.figures(stem), arguments=["evaluate", str(model), "--data", str(data), *search, "--json"])
    ]


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


def sizes_table(rows: Sequence[dict[str, Any]]) -> str:
    """Bytes of the whole file, the ratio to the published model's weights, and BLEU."""
    lines = table_head(["model", "bytes", "of 10.4 MB", "BLEU, 95 % interval", "BLEU of the tokens"])
    for row in rows:
        stages = row["ledger"]["stages"] if row["ledger"] else None
        size = stages[-1]["size_bytes"] if stages else row["weights_bytes"]
        cells = [MISSING] * 4
        if size and row["evaluation"]:
            score, tokens = score_cell(row["evaluation"]["scores"], "bleu"), f"{row['tokenized_bleu']:.2f}"
            cells = [f"{size:,}", f"{PUBLISHED_BYTES / size:.1f}x", score, tokens]
        lines.append(table_line([row["name"], *cells]))
    return "\n".join(lines)
