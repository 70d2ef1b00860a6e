"""The experiment on initialisation of ``docs/results.md``: schemes by family, and with other training settings.

Each row of its tables is the mean over ``SEEDS`` of short trainings of one length, which read the same batches in the
same order for the same seed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from cells import MISSING, spread_cell, table_head, table_line
from corpora import CORPORA
from rows import Place, Row, train_stage
from stages import Measure, Stage

__all__ = ["CASES", "Case", "initialisation", "initialisation_table", "short_training"]

SEEDS = (1, 2, 3)

STEPS = 2000

#: The recipe where it is not the presets' own: short, with the steps' noise averaged by the seeds alone.
SHORT = {
    "training.precision": "bf16",
    "training.max_steps": STEPS,
    "training.max_epochs": 1000,
    "training.batch_tokens": 1024,
    "training.warmup_steps": 500,
    "training.validate_every_steps": STEPS // 2,
    "training.checkpoint_every_steps": STEPS,
    "training.average_checkpoints": 1,
}


@dataclass(frozen=True, kw_only=True)
class Case:
    """A model and a training recipe whose initialisation is compared.

    Attributes:
        name: Its name in the table.
        task: Name of its data in ``CORPORA``.
        preset: The preset.
        schemes: Values of ``model.init``.
        settings: Other keys that differ from the preset and ``SHORT``.
        seeds: The seeds.
    """

    name: str
    task: str
    preset: str
    schemes: Sequence[str]
    settings: dict[str, Any] = field(default_factory=dict)
    seeds: Sequence[int] = SEEDS


#: The Subformer at the rate of the others, and with tables narrower than the model, which leave SAFE without a residual
#: connection around its feed-forward block. Its preset, which has neither, follows from these rows.
_NARROW: Final = {"model.embedding_dim": 112}
_FORMER: Final = {"training.learning_rate": 5e-3, **_NARROW}

#: By family: Xavier's scheme, the one of the family's own code, and the scale by depth.
CASES = (
    Case(
        name="Transformer",
        task="multi30k",
        preset="multi30k-transformer",
        schemes=("xavier", "subformer", "depth-scaled"),
    ),
    Case(
        name="Lite Transformer",
        task="multi30k",
        preset="multi30k-lite-transformer",
        schemes=("xavier", "lite-transformer", "depth-scaled"),
    ),
    Case(
        name="Subformer",
        task="multi30k",
        preset="multi30k-subformer",
        schemes=("xavier", "subformer", "depth-scaled"),
        settings=_FORMER,
    ),
    Case(name="T2R", task="multi30k", preset="multi30k-t2r", schemes=("xavier", "t2r", "depth-scaled")),
    *(
        Case(
            name=f"R2D2, n = {n}",
            task="multi30k",
            preset="multi30k-r2d2",
            schemes=("xavier", "r2d2", "depth-scaled"),
            settings={"model.linear_n": n},
        )
        for n in (2, 4)
    ),
    Case(
        name="language model",
        task="tinyshakespeare",
        preset="tinyshakespeare-transformer",
        schemes=("xavier", "subformer", "depth-scaled"),
    ),
    Case(
        name="LSTM pair classifier",
        task="mnli",
        preset="r2d2-lstm-nli-dense",
        schemes=("xavier", "torch", "normal"),
        settings={
            "model.embed_dim": 128,
            "model.ffn_dim": 128,
            "training.warmup_steps": 0,
            "training.precision": "fp32",
        },
    ),
)

#: The other schemes.
OTHERS = (
    Case(
        name="Transformer",
        task="multi30k",
        preset="multi30k-transformer",
        schemes=("lite-transformer", "torch", "normal"),
        seeds=(1,),
    ),
    Case(
        name="Lite Transformer, dynamic kernels",
        task="multi30k",
        preset="multi30k-lite-transformer",
        schemes=("xavier", "lite-transformer", "depth-scaled"),
        settings={"model.conv_type": "dynamic", "model.conv_glu": "true"},
        seeds=(1,),
    ),
)

#: What the Subformer's released code has beside its initialisation, alone and together, and random features for T2R's.
RELEASED = tuple(
    Case(
        name=name,
        task="multi30k",
        preset=f"multi30k-{family}",
        schemes=("depth-scaled",),
        settings=settings,
    )
    for name, family, settings in (
        ("Subformer, SAFE output dropout", "subformer", {**_FORMER, "model.safe_dropout": "true"}),
        ("Subformer, sandwich heads by width", "subformer", {**_FORMER, "model.sandwich_heads": "width"}),
        (
            "Subformer, both",
            "subformer",
            {**_FORMER, "model.safe_dropout": "true", "model.sandwich_heads": "width"},
        ),
        (
            "T2R, random features",
            "t2r",
            {"model.self_attention": "random-features", "model.cross_attention": "random-features"},
        ),
    )
)

#: The interaction with the other settings, with the two schemes that differ most.
VARIED = tuple(
    Case(
        name=f"Transformer, {name}",
        task="multi30k",
        preset="multi30k-transformer",
        schemes=("xavier", "depth-scaled"),
        settings=settings,
        seeds=(1,),
    )
    for name, settings in (
        ("learning rate 0.002", {"training.learning_rate": 2e-3}),
        ("learning rate 0.01", {"training.learning_rate": 1e-2}),
        ("warm-up 100", {"training.warmup_steps": 100}),
        ("warm-up 1,000", {"training.warmup_steps": 1000}),
        ("pre-norm", {"model.pre_norm": "true", "model.final_norm": "true"}),
    )
)

#: What keeps the Subformer on a plateau: its SAFE embeddings in narrow tables, at the learning rate of the others.
PLATEAU = tuple(
    Case(
        name=f"Subformer, {name}",
        task="multi30k",
        preset="multi30k-subformer",
        schemes=("depth-scaled",),
        settings=settings,
        seeds=(1,),
    )
    for name, settings in (
        ("learning rate 0.002", _NARROW),
        ("linear embeddings", {**_FORMER, "model.embedding": "linear"}),
    )
)


def initialisation(place: Place) -> list[Row]:
    """All trainings; the first seed of every case and scheme comes before the second of any.

    Xavier's scheme is nearly everywhere far behind: its further seeds come last, for a run that has no time for all.
    """
    trainings = [
        (case, scheme, seed)
        for seed in SEEDS
        for case in (*CASES, *RELEASED, *VARIED, *PLATEAU, *OTHERS)
        if seed in case.seeds
        for scheme in case.schemes
    ]
    trainings.sort(key=lambda training: training[2] > SEEDS[0] and training[1] == "xavier")
    return [_row(*training, place) for training in trainings]


def short_training(place: Place, case: Case, scheme: str, seed: int) -> tuple[list[Stage], Path]:
    """The stages of one training, and the directory of its model."""
    words = f"init {case.name} {scheme} {seed}".lower().replace(",", "").replace("=", "").replace(".", "-")
    stem = "-".join(words.split())
    data, prepare = CORPORA[case.task](place)
    settings = {**SHORT, **case.settings, "model.init": scheme, "training.seed": seed}
    return [*prepare, train_stage(place, stem, case.preset, data, settings, "--threads", "1")], place.runs / stem


def _row(case: Case, scheme: str, seed: int, place: Place) -> Row:
    stages, model = short_training(place, case, scheme, seed)
    data, _ = CORPORA[case.task](place)
    evaluate = ["evaluate", str(model), "--data", str(data), "--split", "valid", "--json"]
    return Row(
        f"{case.name}, {scheme}, seed {seed}",
        [*stages, Measure(out=place.figures(model.name), arguments=evaluate)],
        model,
        model.name,
        group=f"{case.name}, {scheme}",
    )


def initialisation_table(rows: Sequence[dict[str, Any]]) -> str:
    """Mean, lowest and highest of the seeds, on the validation split.

    Args:
        rows: Figures of every row, with its ``group``.
    """
    lines = table_head(["model, scheme", "seeds", "validation perplexity", "BLEU, greedy, or accuracy"])
    for group in dict.fromkeys(row["group"] for row in rows):
        measured = [row for row in rows if row["group"] == group and row["training"] and row["evaluation"]]
        cells = [group, str(len(measured)), MISSING, MISSING]
        if measured:
            perplexities = [row["training"]["valid"]["perplexity"] for row in measured]
            scores = [row["evaluation"]["scores"] for row in measured]
            name = next((name for name in ("bleu", "accuracy") if name in scores[0]), None)
            cells[2] = spread_cell(perplexities)
            cells[3] = "" if name is None else spread_cell(score[name] for score in scores)
        lines.append(table_line(cells))
    return "\n".join(lines)
