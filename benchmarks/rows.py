"""What the experiments of ``docs/results.md`` consist of: places, and rows of tables with their stages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stages import Compress, Convert, Measure, Stage, Train

__all__ = [
    "Place",
    "Row",
    "compress_stage",
    "is_measured",
    "measure_stages",
    "swap_stage",
    "train_stage",
    "translation_stages",
]


@dataclass(frozen=True)
class Place:
    """Input and output directories of an experiment.

    Attributes:
        corpora: Copies of the corpora, a folder each.
        runs: Data directories and models.
        max_steps: Bound on the steps of every training, to try the stages; 0 for none.
    """

    corpora: Path
    runs: Path
    max_steps: int = 0

    def figures(self, name: str) -> Path:
        """The file of the measurement ``name``."""
        return self.runs / "results" / f"{name}.json"


@dataclass(frozen=True)
class Row:
    """A row of an experiment's table.

    Attributes:
        name: Its name in the table.
        stages: The stages that produce its figures.
        run: The model's directory.
        measured: Stem of the files with its figures.
        tokenized_references: The test set's references, if they are tokenized text.
        group: Where several rows are one line of a table, as those of several seeds, the line's name.
    """

    name: str
    stages: Sequence[Stage]
    run: Path
    measured: str
    tokenized_references: Path | None = None
    group: str | None = None


def train_stage(
    place: Place,
    name: str,
    config: str,
    data: Path,
    settings: Mapping[str, Any],
    *more: str,
    teacher: Path | None = None,
) -> Train:
    """Training of a preset or model directory ``config`` into the directory ``name``, with ``settings`` over it.

    With a ``teacher`` it is distilled from that model.
    """
    bound = {"training.max_steps": place.max_steps} if place.max_steps else {}
    sets = [word for key, value in {**settings, **bound}.items() for word in ("--set", f"{key}={value}")]
    verb = ["train"] if teacher is None else ["distill", str(teacher)]
    return Train(out=place.runs / name, arguments=[*verb, config, "--data", str(data), *sets, *more])


def swap_stage(place: Place, name: str, model: Path, *options: str) -> Convert:
    """The swap of a trained model's attention for linear attention, as T2R has it, into the directory ``name``."""
    return Convert(out=place.runs / name, arguments=["convert", "t2r", str(model), *options])


def compress_stage(place: Place, name: str, model: Path, *options: str) -> Compress:
    """Compression of a trained model into the directory ``name``."""
    bound = ["--finetune-steps", str(place.max_steps)] if place.max_steps and "--no-finetune" not in options else []
    return Compress(out=place.runs / name, arguments=["compress", str(model), *options, *bound])


def measure_stages(place: Place, name: str, evaluation: Sequence[str]) -> list[Stage]:
    """Scores by ``evaluate``, and parameters and Mult-Adds, of the model in the directory ``name``."""
    model = str(place.runs / name)
    return [
        Measure(out=place.figures(name), arguments=["evaluate", model, *evaluation, "--json"]),
        Measure(out=place.figures(f"{name}.budget"), arguments=["budget", model, "--json"]),
    ]


def translation_stages(place: Place, name: str, data: Path) -> list[Stage]:
    """The measures of a translation model with beam 5 on the test split; the translations are kept too."""
    output = place.figures(name).with_suffix(".txt")
    search = ["--beam", "5", "--output", str(output), "--force"]
    return measure_stages(place, name, ["--data", str(data), "--split", "test", *search])


def is_measured(figures: Mapping[str, Any]) -> bool:
    """Whether all is there that ``measure_stages`` gives of a trained model: who stops in between has a part of it."""
    return all(figures[name] for name in ("training", "evaluation", "budget"))
