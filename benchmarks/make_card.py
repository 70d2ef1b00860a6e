r"""Score a compressed model on its test sets and write the card that is shipped beside it.

    python benchmarks/make_card.py MODEL.zip --src en --tgt de --corpora DIR --training-run DIR --commands FILE \
        --out lite_nlp/assets/NAME

DIR holds the corpora, a folder for each; FILE the commands that made the model, for readers, as ``results.py --only
shipped-models --commands`` prints them. Writes NAME.json, which
``lite-nlp models`` shows, and NAME.md, for readers.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from card_parts import card_parser, card_values, filled_paragraphs, lite_nlp, sample_rows
from first_inputs import answer_inputs

from lite_nlp.core.files import write_text

LANGUAGES = {"en": "English", "de": "German"}

#: Sentences of the first test set between two samples.
EVERY = 160

#: Name of a test set, and the stem of its two files below the corpora.
TEST_SETS = {"tatoeba test": "tatoeba/test", "multi30k test2016": "multi30k/test2016"}

#: What the weights derive from, and its licences; the report of a model shows it too.
DATA = (
    "Tatoeba project (tatoeba.org) sentence pairs by way of manythings.org/anki, 2018: CC BY 2.0 FR, attribution to "
    "both.",
    "Multi30k, task 1 (Elliott et al. 2016): for research use, see the data set's own terms.",
)

CARD = """# {name}

{source} to {target}, everyday sentences: a Lite Transformer (preset `{preset}`) with {paper_params:,} parameters
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

## What people try first

Sixty short inputs, without capitals or end marks, greetings, names, numbers, single words, or in capitals
(`benchmarks/phrases/first-inputs.{src}-{tgt}.tsv`, with the acceptable answers; written before the training and kept
out of it): **{right} of {of} right** by greedy search, case and punctuation aside. The others:

| input | output |
|---|---|
{wrong}

## Samples

Every {every}th sentence of the Tatoeba test set, as it comes:

| source | output | reference |
|---|---|---|
{samples}

## Training

Tatoeba train and Multi30k train, the latter twice, with part of the sources once more in lower case, without end mark
or in capitals, and some everyday phrases written for this project (`benchmarks/shipped_pairs.py`): {train_pairs:,}
pairs; validated on Tatoeba valid and Multi30k val. {steps:,} steps, {tgt_tokens:,} target tokens, {time} on
{processor}:

```
{commands}
```

Perplexity of the validation split, after steps: {curve}.

{note}

## Data and licences

{data}

The weights derive from both; whoever distributes an app with them has to respect these terms. None of the text is in
the package; `everyday.en-de.tsv` beside this card was written for this project.

## Limits

Short everyday sentences and image descriptions are what it has seen: longer or technical text comes out poor, and rare
names are sometimes replaced by frequent ones. It is a small model, trained for a few hours.
"""


def _scores(model: str, arguments: argparse.Namespace) -> dict[str, Any]:
    scores = {}
    for name, stem in TEST_SETS.items():
        source, target = (str(path) for path in _files(stem, arguments))
        scores[name] = lite_nlp("evaluate", model, "--input", source, "--reference", target)["scores"]
    return scores


def _files(stem: str, arguments: argparse.Namespace) -> list[Path]:
    return [arguments.corpora / f"{stem}.{code}.gz" for code in (arguments.src, arguments.tgt)]


def main() -> None:
    parser = card_parser("Score a compressed model and write its card.")
    for side in ("src", "tgt"):
        parser.add_argument(f"--{side}", choices=LANGUAGES, required=True)
    arguments = parser.parse_args()
    scores = _scores(str(arguments.model), arguments)
    fp32_scores = _scores(str(arguments.training_run), arguments)
    answered = answer_inputs(str(arguments.model), arguments.src, arguments.tgt)
    right = sum(one.right for one in answered)
    facts, words = card_values(arguments, scores=scores, fp32_scores=fp32_scores, data=DATA)
    facts["first_inputs"] = {"right": right, "of": len(answered)}
    write_text(arguments.out.with_suffix(".json"), json.dumps(facts, indent=2) + "\n")
    card = CARD.format(
        **words,
        source=LANGUAGES[arguments.src],
        target=LANGUAGES[arguments.tgt],
        src=arguments.src,
        tgt=arguments.tgt,
        right=right,
        of=len(answered),
        wrong="\n".join(f"| {one.text} | {one.output} |" for one in answered if not one.right),
        every=EVERY,
        samples=sample_rows(str(arguments.model), *_files(next(iter(TEST_SETS.values())), arguments), every=EVERY),
        preset="tatoeba-lite-transformer",
    )
    text = filled_paragraphs(card)
    write_text(arguments.out.with_suffix(".md"), text)
    print(text)


if __name__ == "__main__":
    main()
