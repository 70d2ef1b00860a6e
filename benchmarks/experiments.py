"""The experiments of ``docs/results.md``: their stages and rows."""

import sys
import tomllib
from pathlib import Path
from typing import Any

import corpora
from compression import shipped, tasks
from families import families
from initialisation import initialisation
from long_training import FAMILIES, multi30k_family
from provenance import read_runs
from rows import Place, Row, measure_stages, swap_stage, train_stage, translation_stages
from shipped import shipped_models
from stages import Measure, Prepare, Stage, read_json
from students import sizes
from text_tasks import inference_rows, language_models, sentiment_lstm_rows, sentiment_rows, summaries
from token_bleu import token_bleu

__all__ = ["EXPERIMENTS", "figures"]

#: The R2D2 paper has 4 layers a side, 8 heads, width 512 and 10,000 steps (section 4.3). The authors' own scheme of
#: initialisation, which the preset has, needs more steps than there are here, the more factors the more.
SHAKESPEARE = {
    "model.init": "depth-scaled",
    "model.embed_dim": 256,
    "model.ffn_dim": 1024,
    "model.num_encoder_layers": 2,
    "model.num_decoder_layers": 2,
    "model.num_heads": 4,
    "model.cross_num_heads": 4,
    "model.dropout": 0.3,
    "training.max_steps": 1000,
    "training.warmup_steps": 250,
    "training.batch_tokens": 4096,
    "training.learning_rate": 1e-3,
    "training.clip_norm": 1.0,
    "training.precision": "bf16",
    "training.average_checkpoints": 5,
}

#: One Kronecker factor is a dense weight.
DENSE = {
    "model.family": "transformer",
    "model.attention_linear": "dense",
    "model.ffn_linear": "dense",
    "model.linear_n": 1,
}

#: Steps before the conversion, as in the preset, and the training after it: the paper halves steps and learning rate
#: too (appendix A.1).
LM_STEPS = 1000
LM = {"training.precision": "bf16"}
LM_FINETUNING = {**LM, "training.max_steps": 500, "training.learning_rate": 1e-3, "training.warmup_steps": 50}

MAPS = ("t2r", "elu", "random-features")


def multi30k(place: Place) -> list[Row]:
    """Five families at about the same Mult-Adds, one recipe."""
    references = place.corpora / "multi30k" / "test2016.lc.norm.tok.de.gz"
    rows = []
    for family in FAMILIES:
        data, train, run = multi30k_family(place, family)
        stages = [*train, *translation_stages(place, run.name, data)]
        rows.append(Row(f"multi30k-{family}", stages, run, run.name, references))
    return rows


def r2d2(place: Place) -> list[Row]:
    """Kronecker factors n = 1 to 16 on modern to original Shakespeare."""
    data = place.runs / "data-shakespeare"
    source = ["--corpus", "shakespeare", "--from", str(place.corpora / "shakespeare")]
    prepare = Prepare(out=data, arguments=["data", "prepare", *source, "--vocab-size", "4000"])
    rows = []
    for n in (1, 2, 4, 8, 16):
        name, kind = f"shakespeare-r2d2-{n}", DENSE if n == 1 else {"model.linear_n": n}
        train = train_stage(place, name, "r2d2-nmt-4", data, {**SHAKESPEARE, **kind})
        stages = [prepare, train, *translation_stages(place, name, data)]
        rows.append(Row("n = 1: dense" if n == 1 else f"n = {n}", stages, place.runs / name, name))
    return rows


def t2r(place: Place) -> list[Row]:
    """Perplexity before and after the conversion and after finetuning, against linear attention from scratch."""
    data, prepare = corpora.tinyshakespeare(place)
    softmax = train_stage(
        place, "lm-softmax", "tinyshakespeare-transformer", data, {**LM, "training.max_steps": LM_STEPS}
    )
    evaluation = ["--data", str(data), "--split", "test"]

    def row(label: str, name: str, *stages: Stage) -> Row:
        return Row(label, [*prepare, *stages, *measure_stages(place, name, evaluation)], place.runs / name, name)

    rows = [row("softmax, before the swap", "lm-softmax", softmax)]
    for kind in MAPS:
        swapped = place.runs / f"lm-{kind}-swapped"
        size = [] if kind == "elu" else ["--feature-size", "32"]
        convert = swap_stage(place, swapped.name, softmax.out, "--feature-map", kind, *size)
        rows.append(row(f"{kind}, after the swap", swapped.name, softmax, convert))
        name, more = f"lm-{kind}-finetuned", ("--init-from", str(swapped))
        finetune = train_stage(place, name, str(swapped), data, LM_FINETUNING, *more)
        steps = LM_FINETUNING["training.max_steps"]
        rows.append(row(f"{kind}, finetuned for {steps} steps", name, softmax, convert, finetune))
        # As many steps as finetuning has, and for T2R also as many as both trainings have.
        for length in (steps, LM_STEPS + steps) if kind == "t2r" else (steps,):
            name = f"lm-{kind}-scratch-{length}"
            scratch = train_stage(place, name, str(swapped), data, {**LM, "training.max_steps": length})
            rows.append(row(f"{kind}, from scratch for {length} steps", name, softmax, convert, scratch))
    return rows


def t2r_scaling(place: Place) -> list[Row]:
    """Time and state per generated token."""
    program = (sys.executable, str(Path(__file__).with_name("t2r_scaling.py")))
    rows = []
    cases = ((1, ["--lengths", "128,512,2048,8192"]), (16, ["--lengths", "128,512,2048", "--samples", "32"]))
    for batch, options in cases:
        name = f"t2r-scaling-batch-{batch}"
        arguments = [*options, "--batch", str(batch), "--json"]
        if place.max_steps:
            arguments += ["--samples", str(place.max_steps), "--turns", "1", "--embed-dim", "128", "--layers", "1"]
        measure = Measure(out=place.figures(name), program=program, arguments=arguments)
        rows.append(Row(f"batch {batch}", [measure], place.runs / "results", name))
    return rows


#: By name, in the order in which they are run and shown.
EXPERIMENTS = {
    "initialisation": initialisation,
    "families": families,
    "multi30k": multi30k,
    "r2d2": r2d2,
    "t2r": t2r,
    "t2r-scaling": t2r_scaling,
    "language-models": language_models,
    "summaries": summaries,
    "inference": inference_rows,
    "sentiment": sentiment_rows,
    "sentiment-lstm": sentiment_lstm_rows,
    "shipped-models": shipped_models,
    "compression": shipped,
    "compression-tasks": tasks,
    "compression-sizes": sizes,
}


def figures(place: Place, row: Row) -> dict[str, Any]:
    """The figures of a row; None for stages that are not done."""
    found: dict[str, Any] = {
        "name": row.name,
        "group": row.group,
        "run": row.run.name,
        "seed": _seed(row.run),
        "stages": [{"out": str(stage.out), "runs": read_runs(stage.out)} for stage in row.stages],
        "training": read_json(row.run / "metrics.json"),
        "evaluation": read_json(place.figures(row.measured)),
        "budget": read_json(place.figures(f"{row.measured}.budget")),
        "further": read_json(place.figures(f"{row.measured}.further")),
        "first_inputs": read_json(place.figures(f"{row.measured}.first-inputs")),
        "ledger": read_json(row.run / "ledger.json"),
        "file_bytes": row.run.stat().st_size if row.run.is_file() else None,
        "weights_bytes": weights.stat().st_size if (weights := row.run / "model.safetensors").exists() else None,
    }
    translations = place.figures(row.measured).with_suffix(".txt")
    if row.tokenized_references is not None:
        done = found["evaluation"] is not None and row.tokenized_references.exists()
        found["tokenized_bleu"] = token_bleu(translations, row.tokenized_references).value if done else None
        found["translations"], found["references"] = str(translations), str(row.tokenized_references)
    return found


def _seed(run: Path) -> int | None:
    """The seed of a training; None for other results."""
    config = run / "config.toml"
    if not config.exists():
        return None
    seed: int | None = tomllib.loads(config.read_text(encoding="utf-8")).get("training", {}).get("seed")
    return seed
