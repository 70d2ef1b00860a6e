"""The experiment on small files of ``docs/results.md``: students for Multi30k, distilled, and compressed to sizes."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from cells import MISSING, score_cell, table_head, table_line
from corpora import multi30k, multi30k_files
from long_training import multi30k_family
from rows import Place, Row, compress_stage, train_stage
from stages import Measure, Prepare, Stage

__all__ = ["PUBLISHED_BYTES", "sizes", "sizes_table"]

#: The published model of the size that the Multi30k rows are compared with: 2.6M weights as fp32 (Wu et al. 2021).
PUBLISHED_BYTES: Final = 10_400_000


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """What a student learns from teachers on Multi30k.

    Attributes:
        stem: Of the directory of their translations.
        teachers: Settings of those that translate together, by the stem of their runs; none for the one teacher of the
            comparison of families.
        start: The compressed student, of those before, from whose weights it begins; None for random ones.
        own: Whether that student is the teacher too.
        options: Of ``distill``.
        in_tuning: Whether ``compress`` trains on the translations too, and not on the references alone.
    """

    stem: str
    teachers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    start: str | None = None
    own: bool = False
    options: Sequence[str] = ("--n-best", "4", "--reference-weight", "0.3")
    in_tuning: bool = False


@dataclass(frozen=True, kw_only=True)
class Student:
    """A model for Multi30k that is trained to be compressed.

    Attributes:
        name: Its name in the table.
        stem: Of the directory of its run.
        types: Size of its vocabulary.
        settings: Keys that differ from the preset and ``TRAINING``.
        lesson: What it learns from teachers; None if it learns from the corpus itself.
        files: Sizes of its files, vocabulary included, each with the options of ``compress``.
        seeds: Seeds of its training.
    """

    name: str
    stem: str
    types: int
    settings: dict[str, Any] = field(default_factory=dict)
    lesson: Lesson | None = None
    files: Mapping[str, Sequence[str]] = field(
        default_factory=lambda: dict.fromkeys(("570KB", "350KB", "200KB"), ("--effort", "normal"))
    )
    seeds: Sequence[int] = (1,)


#: What students and teachers are trained from, but for the single teacher's 10,000 types.
PRESET: Final = "multi30k-lite-transformer"

#: Exponent of the length penalty of the teachers' search. By the validation split: with 0.6, 1.0, 1.2 and 1.5 the first
#: of them has 40.8, 40.9, 41.0 and 41.2 BLEU there.
TEACHERS_LENGTH_PENALTY: Final = 1.2

#: The same of students, whose outputs are shorter: with 1.2, 2, 3 and 4 that with 2,000 types has 39.8, 40.0, 40.2
#: and 40.2 BLEU on the validation split.
STUDENTS_LENGTH_PENALTY: Final = 3.0

#: Settings of the teachers that translate together, by the stem of their runs. One has other kernels, so that it errs
#: in other sentences.
_TEACHER: Final = {
    "training.precision": "bf16",
    "training.max_epochs": 60,
    "training.max_steps": 3000,
    "training.warmup_steps": 700,
    "training.schedule": "cosine",
    "training.average_checkpoints": 5,
    "training.patience": 60,
    "decoding.length_penalty": TEACHERS_LENGTH_PENALTY,
}
ENSEMBLE: Final = {
    "m30k-teacher-lightweight": {**_TEACHER, "training.seed": 1},
    "m30k-teacher-dynamic": {**_TEACHER, "training.seed": 2, "model.conv_type": "dynamic"},
}

#: Five more, trained for longer.
FIVE: Final = {
    f"m30k-five-{seed}": {
        **_TEACHER,
        "training.max_steps": 4000,
        "training.warmup_steps": 800,
        "training.average_checkpoints": 6,
        "training.seed": seed,
        **({"model.conv_type": "dynamic"} if seed in (2, 4, 5) else {}),
    }
    for seed in range(1, 6)
}

#: The training of all students. Weight decay keeps the weights small, and with them the entropy of their levels.
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

#: What a small model learns from a larger one needs less regularization than what it learns from 29,000 pairs.
TAUGHT: Final = {"training.weight_decay": 0.01, "model.dropout": 0.15, "model.conv_dropout": 0.0}

TAUGHT_BY_TWO: Final = {**TAUGHT, "training.warmup_steps": 800, "decoding.length_penalty": STUDENTS_LENGTH_PENALTY}

#: So many steps that no number of epochs and no validation ends the training before.
LONG: Final = {"training.max_epochs": 200, "training.patience": 200}

#: Training that goes on from the weights of another.
GOING_ON: Final = {**TAUGHT_BY_TWO, "training.warmup_steps": 300, "training.learning_rate": 0.0025}

#: Training of students smaller than the preset.
SMALLER: Final = {**TAUGHT_BY_TWO, "training.warmup_steps": 600, **LONG, "training.max_steps": 7500}

SINGLE: Final = Lesson(stem="m30k-lite-transformer-hypotheses")
TOGETHER: Final = Lesson(stem="m30k-ensemble-hypotheses", teachers=ENSEMBLE, in_tuning=True)

#: What a beam finds, the student learns to find by itself: of its five best translations the nearest to the reference.
OWN: Final = Lesson(
    stem="m30k-own-hypotheses",
    start="m30k-2k-144-two-570KB",
    own=True,
    options=("--beam", "5", "--interpolation", "--reference-weight", "0.5"),
    in_tuning=True,
)

#: Further lessons from five teachers together, for the student that has learned from itself, and for smaller ones.
BY_FIVE: Final = Lesson(
    stem="m30k-five-hypotheses",
    teachers=FIVE,
    start="m30k-2k-144-own-570KB",
    options=("--beam", "4", "--interpolation", "--reference-weight", "0.5"),
    in_tuning=True,
)
SMALLER_BY_FIVE: Final = Lesson(
    stem="m30k-five-hypotheses",
    teachers=FIVE,
    options=("--beam", "4", "--n-best", "4", "--reference-weight", "0.2"),
    in_tuning=True,
)

STUDENTS: Final = (
    Student(
        name="Lite Transformer, 1,000 types, 1.5M parameters",
        stem="m30k-1k-144",
        types=1000,
        files={"570KB": ("--effort", "normal")},
    ),
    Student(
        name="Lite Transformer, 2,000 types, 1.6M parameters, distilled",
        stem="m30k-2k-144",
        types=2000,
        settings=TAUGHT,
        lesson=SINGLE,
    ),
    Student(
        name="Lite Transformer, 2,000 types, 1.6M parameters, distilled from two",
        stem="m30k-2k-144-two",
        types=2000,
        settings={**TAUGHT_BY_TWO, "training.max_steps": 3600},
        lesson=TOGETHER,
        files={"570KB": ("--finetune-steps", "4000")},
    ),
    Student(
        name="Lite Transformer, 2,000 types, 1.6M parameters, from its own translations",
        stem="m30k-2k-144-own",
        types=2000,
        settings={**GOING_ON, "training.max_epochs": 60, "training.max_steps": 3600},
        lesson=OWN,
        files=dict.fromkeys(("570KB", "350KB"), ("--finetune-steps", "4000")),
        seeds=(2,),
    ),
    Student(
        name="Lite Transformer, 2,000 types, 1.6M parameters, from its own translations, then from five",
        stem="m30k-2k-144-five",
        types=2000,
        settings={**GOING_ON, **LONG, "training.max_steps": 5500},
        lesson=BY_FIVE,
        files={"350KB": ("--finetune-steps", "4000")},
        seeds=(3,),
    ),
    Student(
        name="Lite Transformer, 2,000 types, 1.3M parameters, distilled from five",
        stem="m30k-2k-128-five",
        types=2000,
        settings={**SMALLER, "model.embed_dim": 128, "model.ffn_dim": 256},
        lesson=SMALLER_BY_FIVE,
        files={},
    ),
    Student(
        name="Lite Transformer, 2,000 types, 1.0M parameters, distilled from five",
        stem="m30k-2k-112-five",
        types=2000,
        settings={**SMALLER, "model.embed_dim": 112, "model.ffn_dim": 224},
        lesson=SMALLER_BY_FIVE,
        files={"200KB": ("--finetune-steps", "5000")},
    ),
    Student(
        name="Lite Transformer, 1,500 types, 0.9M parameters, distilled from two",
        stem="m30k-1500-112-two",
        types=1500,
        settings={
            **TAUGHT_BY_TWO,
            "model.embed_dim": 112,
            "model.ffn_dim": 224,
            "training.max_steps": 4500,
        },
        lesson=TOGETHER,
        files={"350KB": ("--finetune-steps", "3000"), "200KB": ("--finetune-steps", "5000")},
    ),
)


def sizes(place: Place) -> list[Row]:
    """Bytes of the whole file against BLEU on test2016, beam 5, trained on Multi30k alone."""
    references = place.corpora / "multi30k" / "test2016.lc.norm.tok.de.gz"
    rows = []
    made: dict[str, list[Stage]] = {}
    for student in STUDENTS:
        data, prepare = multi30k(place, types=student.types)
        teachers, words, tuning_data = [], [], data
        if student.lesson is not None:
            teaching, teachers, words = _lesson(place, student.lesson, made)
            prepare = [*teaching, *prepare]
        for seed in student.seeds:
            stem = student.stem if seed == student.seeds[0] else f"{student.stem}-{seed}"
            settings = {**TRAINING, **student.settings, "training.seed": seed}
            train = train_stage(place, stem, PRESET, data, settings, *words, teacher=teachers[0] if teachers else None)
            original = place.runs / stem
            stages = [*prepare, train, *_beam_search(place, stem, original, data)]
            rows.append(Row(f"{student.name}, as trained", stages, original, stem, references, group=student.name))
            stages = [*prepare, train]
            if student.lesson is not None and student.lesson.in_tuning:
                tuning_data, taught = _taught_data(place, student.lesson, data)
                stages += taught
            for target, tuning in student.files.items():
                small = f"{stem}-{target}"
                options = ["--data", str(tuning_data), "--target-size", target, *tuning]
                compress = compress_stage(place, small, original, *options)
                made[small] = [*stages, compress]
                measures = _beam_search(place, small, compress.out / "model.lnlp", data)
                name = f"{student.name}, {target}"
                rows.append(
                    Row(name, [*stages, compress, *measures], compress.out, small, references, group=student.name)
                )
    return rows


def _lesson(place: Place, lesson: Lesson, made: Mapping[str, list[Stage]]) -> tuple[list[Stage], list[Path], list[str]]:
    """The stages that make the teachers, their models, and the options of ``distill``.

    Args:
        place: Where everything is.
        lesson: The lesson.
        made: The stages that make each compressed student before.
    """
    words = ["--level", "sequence", "--hypotheses", str(place.runs / lesson.stem), *lesson.options]
    before, begins = [], Path()
    if lesson.start is not None:
        before, begins = made[lesson.start], place.runs / lesson.start / "model.lnlp"
        words += ["--init-from", str(begins)]
    if lesson.own:
        return before, [begins], words
    data, train, single = multi30k_family(place, "lite-transformer")
    teachers = [single]
    if lesson.teachers:
        # The same data, without the preset's own training.
        data, prepare = multi30k(place)
        trainings = [train_stage(place, stem, PRESET, data, own) for stem, own in lesson.teachers.items()]
        train, teachers = [*prepare, *trainings], [training.out for training in trainings]
    others = [word for teacher in teachers[1:] for word in ("--ensemble", str(teacher))]
    return [*before, *train], teachers, [*others, *words]


def _taught_data(place: Place, lesson: Lesson, data: Path) -> tuple[Path, list[Stage]]:
    """The data of what a student was taught, in its own vocabulary, and the stages that make it."""
    hypotheses = place.runs / lesson.stem
    pairs = hypotheses.with_suffix(".tsv")
    out = data.with_name(f"{data.name}-{lesson.stem.removeprefix('m30k-').removesuffix('-hypotheses')}")
    script = str(Path(__file__).with_name("taught_pairs.py"))
    write = Stage(
        out=pairs, program=(sys.executable, script), arguments=[str(data), str(hypotheses), "--out", str(pairs)]
    )
    files = multi30k_files(place, "valid", "test")
    languages = ["--src-lang", "en", "--tgt-lang", "de"]
    options = ["--tsv", str(pairs), *files, *languages, "--tokenizer", str(data / "tokenizer.json")]
    return out, [write, Prepare(out=out, arguments=["data", "prepare", *options])]


def _beam_search(place: Place, stem: str, model: Path, data: Path) -> list[Stage]:
    output = place.figures(stem).with_suffix(".txt")
    search = ["--beam", "5", "--output", str(output), "--force"]
    return [
        Measure(out=place.figures(stem), arguments=["evaluate", str(model), "--data", str(data), *search, "--json"])
    ]


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
