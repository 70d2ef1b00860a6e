"""The shipped models: their text, training, compression and figures."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from cells import MISSING, score_cell, table_head, table_line
from rows import Place, Row, compress_stage, train_stage
from stages import Measure, Prepare, Stage

__all__ = ["SIZE", "measure_both", "shipped_models", "shipped_models_table", "shipped_training"]

DIRECTIONS: Final = (("en", "de"), ("de", "en"))

#: Of a model's weights; the app has room for two such models below its limit of 20 MB.
SIZE: Final = "1600KB"

PRESET: Final = "tatoeba-lite-transformer"

#: Of a second training from the weights of the first, another cosine cycle at half the rate; and its steps by source.
SECOND: Final = {
    "training.learning_rate": 0.002,
    "training.warmup_steps": 300,
    "training.weight_decay": 0.05,
    "training.seed": 11,
    "training.average_checkpoints": 5,
}
SECOND_STEPS: Final = {"en": 6_800, "de": 3_000}


def shipped_training(place: Place, src: str, tgt: str) -> tuple[Path, list[Stage], Path]:
    """The data, the stages up to the training of one direction, and the directory of the model."""
    text, data = place.runs / f"text-{src}-{tgt}", place.runs / f"data-ship-{src}-{tgt}"
    script = str(Path(__file__).with_name("shipped_pairs.py"))
    options = ["--corpora", str(place.corpora), "--src", src, "--tgt", tgt, "--out", str(text)]
    first = train_stage(place, f"ship-first-{src}-{tgt}", PRESET, data, {})
    settings = {**SECOND, "training.max_steps": SECOND_STEPS[src]}
    train = train_stage(place, f"ship-{src}-{tgt}", PRESET, data, settings, "--init-from", str(first.out))

    def pair(split: str, folder: Path, stem: str) -> list[str]:
        return [f"--{split}", *(str(folder / f"{stem}.{language}.gz") for language in (src, tgt))]

    files = [
        *pair("train", text, "train"),
        *pair("valid", place.corpora / "tatoeba", "valid"),
        *pair("valid", place.corpora / "multi30k", "val"),
        *pair("test", place.corpora / "tatoeba", "test"),
    ]
    languages = ["--src-lang", src, "--tgt-lang", tgt, "--drop-overlap"]
    return (
        data,
        [
            Stage(out=text, program=(sys.executable, script), arguments=options),
            Prepare(out=data, arguments=["data", "prepare", *files, *languages, "--vocab-size", "6000"]),
            first,
            train,
        ],
        train.out,
    )


def measure_both(place: Place, stem: str, model: Path, src: str, tgt: str) -> list[Stage]:
    """Greedy search on both test sets."""
    files = {
        "": [str(place.corpora / "tatoeba" / f"test.{language}.gz") for language in (src, tgt)],
        ".further": [str(place.corpora / "multi30k" / f"test2016.{language}.gz") for language in (src, tgt)],
    }
    return [
        Measure(
            out=place.figures(f"{stem}{suffix}"),
            arguments=["evaluate", str(model), "--input", source, "--reference", target, "--json"],
        )
        for suffix, (source, target) in files.items()
    ]


def shipped_models(place: Place) -> list[Row]:
    """Both directions, as trained and as they ship."""
    rows = []
    for src, tgt in DIRECTIONS:
        data, train, run = shipped_training(place, src, tgt)
        name = f"tatoeba-{src}-{tgt}"
        rows.append(Row(f"{name}, as trained", [*train, *_measures(place, run.name, run, src, tgt)], run, run.name))
        stem = f"shipped-{src}-{tgt}"
        options = ["--data", str(data), "--target-size", SIZE, "--finetune-steps", "1000"]
        compress = compress_stage(place, stem, run, *options)
        bundle = place.runs / f"{name}.zip"
        export = Stage(
            out=bundle,
            arguments=["export", str(compress.out / "model.lnlp"), "--compact", "--out", str(bundle)],
        )
        stages = [*train, compress, export, *_measures(place, name, bundle, src, tgt)]
        rows.append(Row(name, stages, bundle, name))
    return rows


def _measures(place: Place, stem: str, model: Path, src: str, tgt: str) -> list[Stage]:
    script = str(Path(__file__).with_name("first_inputs.py"))
    words = [str(model), "--src", src, "--tgt", tgt, "--json"]
    inputs = Measure(out=place.figures(f"{stem}.first-inputs"), program=(sys.executable, script), arguments=words)
    return [*measure_both(place, stem, model, src, tgt), inputs]


def shipped_models_table(rows: Sequence[dict[str, Any]]) -> str:
    """Bytes of the file, BLEU and chrF of both test sets, and the inputs that people try first."""
    heads = ["model", "bytes", "BLEU, Tatoeba test", "chrF", "BLEU, test2016", "chrF", "of sixty inputs"]
    lines = table_head(heads)
    for row in rows:
        cells = [MISSING] * 6
        if row["evaluation"] and row["further"] and row["first_inputs"]:
            scores = [
                score_cell(row[name]["scores"], metric)
                for name in ("evaluation", "further")
                for metric in ("bleu", "chrf")
            ]
            size = row["file_bytes"] or row["weights_bytes"]
            cells = [f"{size:,}", *scores, str(row["first_inputs"]["right"])]
        lines.append(table_line([row["name"], *cells]))
    return "\n".join(lines)
