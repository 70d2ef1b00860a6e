"""The presets for Multi30k trained for 40 epochs, a table of ``docs/results.md`` and a teacher of the students."""

from pathlib import Path
from typing import Final

from corpora import multi30k
from rows import Place, train_stage
from stages import Stage

__all__ = ["FAMILIES", "multi30k_family"]

FAMILIES: Final = ("transformer", "lite-transformer", "subformer", "r2d2", "t2r")

#: The recipe where it is not the presets' own: the initialisation too is the one that these models were trained with.
_RECIPE: Final = {
    "model.init": "xavier",
    "training.precision": "bf16",
    "training.max_epochs": 40,
    "training.warmup_steps": 1000,
    "training.learning_rate": 5e-3,
}

#: Where a model is not the preset's own: the Subformer was trained before its tables were as wide as its layers.
_FORMER: Final = {"subformer": {"model.embedding_dim": 112}}


def multi30k_family(place: Place, family: str) -> tuple[Path, list[Stage], Path]:
    """The data of all, the stages that train a family's preset, and the directory of its model."""
    data, prepare = multi30k(place)
    train = train_stage(place, f"m30k-{family}", f"multi30k-{family}", data, _RECIPE | _FORMER.get(family, {}))
    return data, [*prepare, train], train.out
