r"""Score a compressed model on its test sets and write the card that is shipped beside it.

    python benchmarks/make_card.py MODEL.zip --copies DIR --training-run DIR --compress-command COMMAND \
        --out lite_nlp/assets/NAME

DIR holds copies of the corpora, as ``lite-nlp data prepare --from`` reads them. Writes NAME.json, which
``lite-nlp models`` shows, and NAME.md, for readers.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from lite_nlp.core.files import write_text

#: Name of a test set, and the stem of its two files below the copies.
TEST_SETS = {"tatoeba test": "tatoeba/test", "multi30k test2016": "multi30k/test2016"}

#: What the weights derive from, and its licences; the report of a model shows it too.
DATA = (
    "Tatoeba project (tatoeba.org) sentence pairs by way of manythings.org/anki, 2018: CC BY 2.0 FR, attribution to "
    "both.",
    "Multi30k, task 1 (Elliott et al. 2016): for research use, see the data set's own terms.",
)

CARD = """# {name}

English to German, everyday sentences: a Lite Transformer (preset `{preset}`) with {paper_params:,} parameters
without embeddings, {total_params:,} in all, and {macs:,} Mult-Adds for 30 -> 30 tokens. Stored in {size:,} bytes, as
one bundle for torch, ONNX Runtime and ExecuTorch.

## Scores

Greedy search, one run on each test set, 95 % bootstrap intervals, this compressed file:

| test set | sentences | BLEU | chrF |
|---|---|---|---|
{scores}

The weights before compression (fp32, {fp32_size:,} bytes):

| test set | sentences | BLEU | chrF |
|---|---|---|---|
{fp32_scores}

Signatures: `{bleu_signature}`, `{chrf_signature}`.

## Training

Tatoeba train and Multi30k train together, {train_pairs:,} pairs after two were skipped for their length ratio;
validated on Tatoeba valid and Multi30k val. {steps:,} steps, {tgt_tokens:,} target tokens, {hours:.1f} hours on
{processor}:

```
lite-nlp data prepare --train tatoeba/train.en.gz tatoeba/train.de.gz \\
    --train multi30k/train.en.gz multi30k/train.de.gz \\
    --valid tatoeba/valid.en.gz tatoeba/valid.de.gz --valid multi30k/val.en.gz multi30k/val.de.gz \\
    --test tatoeba/test.en.gz tatoeba/test.de.gz --vocab-size 6000 --out runs/data-en-de
lite-nlp train {preset} --data runs/data-en-de --out runs/{name} --set training.max_steps={steps}
{compress}
```

{note}

## Data and licences

{data}

The weights derive from both; whoever distributes an app with them has to respect these terms. None of the text is in
the package; `everyday.en-de.tsv` beside this card was written for this project.

## Limits

Short everyday sentences and image descriptions are what it has seen: longer or technical text comes out poor, and rare
names are sometimes replaced by frequent ones. It is a small model, trained on a CPU for about two hours.
"""


def _lite_nlp(*words: str) -> dict[str, Any]:
    command = [str(Path(sys.executable).with_name("lite-nlp")), *words, "--json"]
    content: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return content


def _scores(model: str, copies: Path) -> dict[str, Any]:
    scores = {}
    for name, stem in TEST_SETS.items():
        files = ("--input", str(copies / f"{stem}.en.gz"), "--reference", str(copies / f"{stem}.de.gz"))
        scores[name] = _lite_nlp("evaluate", model, *files)["scores"]
    return scores


def _rows(scores: dict[str, Any]) -> str:
    return "\n".join(
        f"| {name} | {row['sentences']:,} | {row['bleu']:.1f} ({row['bleu_low']:.1f} to {row['bleu_high']:.1f}) "
        f"| {row['chrf']:.1f} ({row['chrf_low']:.1f} to {row['chrf_high']:.1f}) |"
        for name, row in scores.items()
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Score a compressed model and write its card.")
    parser.add_argument("model", type=Path)
    parser.add_argument("--copies", type=Path, required=True)
    parser.add_argument("--training-run", type=Path, required=True)
    parser.add_argument("--compress-command", required=True)
    parser.add_argument("--note", default="", help="difference between the run and the stated commands")
    parser.add_argument("--processor", default="one to two cores of a server CPU")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    scores = _scores(str(arguments.model), arguments.copies)
    fp32_scores = _scores(str(arguments.training_run), arguments.copies)
    budget = _lite_nlp("budget", str(arguments.model))
    metrics = json.loads((arguments.training_run / "metrics.json").read_text(encoding="utf-8"))
    first = next(iter(scores.values()))
    card = {
        "task": "translation",
        "languages": {"src": "en", "tgt": "de"},
        "data": list(DATA),
        "params": budget["params"]["total"],
        "macs": budget["macs"]["paper"],
        "scores": scores,
        "fp32_scores": fp32_scores,
    }
    write_text(arguments.out.with_suffix(".json"), json.dumps(card, indent=2) + "\n")
    text = CARD.format(
        name=arguments.out.name,
        preset="tatoeba-lite-transformer",
        paper_params=budget["params"]["paper"],
        total_params=budget["params"]["total"],
        macs=budget["macs"]["paper"],
        size=arguments.model.stat().st_size,
        scores=_rows(scores),
        fp32_size=(arguments.training_run / "model.safetensors").stat().st_size,
        fp32_scores=_rows(fp32_scores),
        bleu_signature=first["bleu_signature"],
        chrf_signature=first["chrf_signature"],
        train_pairs=metrics["train_pairs"],
        steps=metrics["steps"],
        tgt_tokens=metrics["tgt_tokens"],
        hours=metrics["seconds"] / 3600,
        processor=arguments.processor,
        compress=arguments.compress_command,
        note=arguments.note,
        data="\n".join(f"- {line}" for line in DATA),
    )
    write_text(arguments.out.with_suffix(".md"), text)
    print(text)


if __name__ == "__main__":
    main()
