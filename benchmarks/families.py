"""The comparison of families on Multi30k of ``docs/results.md``: one recipe, several seeds, one test set."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from cells import MISSING, spread_cell, table_head, table_line
from corpora import multi30k
from rows import Place, Row, is_measured, swap_stage, train_stage, translation_stages
from stages import Stage
from token_bleu import token_bleu

from lite_nlp.compress.significance import Measure as Statistics
from lite_nlp.compress.significance import paired_test

__all__ = ["families", "families_table"]

#: Of every family, for the spread of its trainings.
SEEDS: Final = (1, 2, 3)

#: The recipe where it is not the presets' own: short, so that five families and three seeds take hours, not days. The
#: presets' learning rate of 5e-3 leaves the Subformer on a plateau (``initialisation.PLATEAU`` shows it).
RECIPE: Final = {
    "training.precision": "bf16",
    "training.max_epochs": 8,
    "training.batch_tokens": 4096,
    "training.learning_rate": 2e-3,
    "training.warmup_steps": 300,
    "training.schedule": "cosine",
    "training.average_checkpoints": 2,
}

#: Of a trained model, after the swap to linear attention or without: half as many epochs at half the rate, which the
#: paper halves too (appendix A.1).
FINETUNING: Final = {**RECIPE, "training.max_epochs": 4, "training.learning_rate": 1e-3, "training.warmup_steps": 100}

#: Features per head of the swap, those of ``multi30k-t2r``.
_FEATURES: Final = ("--feature-size", "32")


@dataclass(frozen=True, kw_only=True)
class Family:
    """A model of the comparison.

    Attributes:
        name: Its name in the table.
        stem: Of the directories of its runs.
        preset: The preset.
        settings: Keys that differ from the preset and ``RECIPE``.
        finetuned: What follows the training: nothing, the swap to linear attention and ``FINETUNING``, or that alone.
        seeds: The seeds.
    """

    name: str
    stem: str
    preset: str
    settings: dict[str, Any] = field(default_factory=dict)
    finetuned: Literal["", "t2r", "softmax"] = ""
    seeds: Sequence[int] = SEEDS


#: The first is what the others are compared with. All have about its Mult-Adds, but for the Subformer that has its
#: parameters instead. The last two are what the Subformer's preset was chosen over: tables narrower than the model, and
#: with them a sandwich wider than the model, as the paper has both.
FAMILIES: Final = (
    Family(name="Transformer", stem="transformer", preset="multi30k-transformer"),
    Family(name="Subformer", stem="subformer", preset="multi30k-subformer"),
    Family(name="T2R", stem="t2r", preset="multi30k-t2r"),
    Family(name="T2R, finetuned", stem="transformer", preset="multi30k-transformer", finetuned="t2r"),
    Family(name="Transformer, finetuned", stem="transformer", preset="multi30k-transformer", finetuned="softmax"),
    Family(name="Lite Transformer", stem="lite-transformer", preset="multi30k-lite-transformer"),
    Family(name="R2D2, n = 2", stem="r2d2", preset="multi30k-r2d2"),
    Family(
        name="Subformer, as many parameters",
        stem="subformer-wide",
        preset="multi30k-subformer",
        settings={"model.sandwich_ffn_dim": 768},
    ),
    Family(
        name="Subformer, tables of 112 channels",
        stem="subformer-narrow",
        preset="multi30k-subformer",
        settings={"model.embedding_dim": 112},
        seeds=(1,),
    ),
    Family(
        name="Subformer, tables of 112 channels, sandwich of 192",
        stem="subformer-sandwich",
        preset="multi30k-subformer",
        settings={"model.embedding_dim": 112, "model.sandwich_dim": 192, "model.sandwich_ffn_dim": 352},
        seeds=(1,),
    ),
)


def families(place: Place) -> list[Row]:
    """All trainings; the first seed of every family comes before the second of any."""
    return [_row(place, family, seed) for seed in SEEDS for family in FAMILIES if seed in family.seeds]


def _row(place: Place, family: Family, seed: int) -> Row:
    data, prepare = multi30k(place)
    name = f"family-{family.stem}-{seed}"
    settings = {**RECIPE, **family.settings, "training.seed": seed}
    train = train_stage(place, name, family.preset, data, settings, "--threads", "1")
    stages: list[Stage] = [*prepare, train]
    if family.finetuned:
        first = train.out
        if family.finetuned == "t2r":
            swap = swap_stage(place, f"family-t2r-swapped-{seed}", train.out, *_FEATURES)
            stages.append(swap)
            first = swap.out
        name = f"family-{family.finetuned}-finetuned-{seed}"
        more = ("--init-from", str(first), "--threads", "1")
        train = train_stage(place, name, str(first), data, {**FINETUNING, "training.seed": seed}, *more)
        stages.append(train)
    references = place.corpora / "multi30k" / "test2016.lc.norm.tok.de.gz"
    stages += translation_stages(place, name, data)
    return Row(f"{family.name}, seed {seed}", stages, train.out, name, references, group=family.name)


def families_table(rows: Sequence[dict[str, Any]]) -> str:
    """Sizes, and by family the mean and spread of the seeds, with the paired test against the first family.

    The statistics of a sentence are summed over the seeds before sentences are resampled, so that the interval is that
    of the test set, for these trainings. Two families are compared over the seeds that both have.
    """
    heads = ["family", "parameters", "without tables", "Mult-Adds, paper", "seeds", "validation perplexity"]
    lines = table_head([*heads, "BLEU of the tokens", f"against the {FAMILIES[0].name}"])
    by_family = {
        name: {row["run"].rpartition("-")[2]: row for row in rows if row["group"] == name and is_measured(row)}
        for name in dict.fromkeys(row["group"] for row in rows)
    }
    first = by_family[FAMILIES[0].name]
    for name, measured in by_family.items():
        cells = [MISSING] * 7
        if measured:
            found = list(measured.values())
            params, macs = found[0]["budget"]["params"], found[0]["budget"]["macs"]
            perplexities = [row["training"]["valid"]["perplexity"] for row in found]
            scores = [row["tokenized_bleu"] for row in found]
            common = [seed for seed in measured if seed in first]
            sizes = [f"{number:,}" for number in (params["total"], params["paper"], macs["paper"])]
            difference = "" if measured is first else _difference(first, measured, common)
            cells = [*sizes, str(len(found)), spread_cell(perplexities), spread_cell(scores), difference]
        lines.append(table_line([name, *cells]))
    return "\n".join(lines)


def _difference(first: dict[str, Any], other: dict[str, Any], seeds: Sequence[str]) -> str:
    """Difference in BLEU with its 95 % interval and p, over ``seeds``."""
    if not seeds:
        return MISSING
    change = paired_test(*(_summed([rows[seed] for seed in seeds]) for rows in (first, other)))
    return f"{change.difference:+.2f} ({change.low:+.2f} to {change.high:+.2f}), p = {change.p:.3f}"


def _summed(rows: Sequence[dict[str, Any]]) -> Statistics:
    """BLEU of the tokens of all these runs together, as statistics of each test sentence."""
    measures = [token_bleu(Path(row["translations"]), Path(row["references"])) for row in rows]
    return replace(measures[0], statistics=np.sum([measure.statistics for measure in measures], axis=0))
