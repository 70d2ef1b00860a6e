r"""Score the shipped Multi30k model on its test set and write the card that is shipped beside it.

    python benchmarks/make_multi30k_card.py BUNDLE.zip --file MODEL.lnlp --training-run DIR --ledger ledger.json \
        --corpora DIR --commands FILE --out lite_nlp/assets/multi30k-en-de

BUNDLE.zip is what is shipped, MODEL.lnlp the compressed file in it; the other arguments are those of ``make_card.py``.
Writes NAME.json, which ``lite-nlp models`` shows, and NAME.md, for readers.
"""

import json
import tempfile
from pathlib import Path
from typing import Any, Final

from card_parts import card_parser, card_values, filled_paragraphs, lite_nlp, sample_rows
from students import PUBLISHED_BYTES
from token_bleu import token_bleu

from lite_nlp.core.files import write_text

#: Beam of the published figure that this model is compared with.
BEAM: Final = 5

#: Sentences of the test set between two samples.
EVERY: Final = 80

DATA: Final = ("Multi30k, task 1 (Elliott et al. 2016): for research use, see the data set's own terms.",)

CARD = """# {name}

English to German, descriptions of images: a Lite Transformer with {total_params:,} parameters, {paper_params:,} of them
without embeddings, and {macs:,} Mult-Adds for 30 -> 30 tokens, trained on the 29,000 pairs of Multi30k alone. Its
compressed file has {file_size:,} bytes, vocabulary included: {ratio:.1f} times less than the 10.4 MB of fp32 weights
for which 41.02 BLEU is published (Wu et al. 2021). The bundle of {size:,} bytes has graphs for ONNX Runtime and
ExecuTorch beside it.

**It reads lowercased, tokenized text**, as papers on this corpus do: `a man in a blue shirt is standing on a ladder
cleaning a window .`, and writes such text. For text as people type it, take `tatoeba-en-de`.

## Scores

Beam {beam}, one run on the lowercased, tokenized test set, 95 % bootstrap intervals, this compressed file:

| test set | sentences | BLEU | chrF |
|---|---|---|---|
{scores}

The weights before compression (fp32, {fp32_size:,} bytes):

| test set | sentences | BLEU | chrF |
|---|---|---|---|
{fp32_scores}

On the tokens as they stand, as papers count, {tokens:.2f} and {fp32_tokens:.2f} BLEU. Signatures: `{bleu_signature}`,
`{chrf_signature}`. The whole curve of size against BLEU, with other models and targets, is in `docs/results.md`.

## Samples

Every {every}th sentence of the test set, as it comes, beam {beam}:

| source | output | reference |
|---|---|---|
{samples}

## Training

{steps:,} steps, {tgt_tokens:,} target tokens, {time} on {processor}; then compression, which trains on for
{tuning_minutes:.0f} minutes:

```
{commands}
```

Perplexity of the validation split before compression, after steps: {curve}.

{note}

## Data and licences

{data}

The weights derive from it; whoever distributes an app with them has to respect its terms. None of the text is in the
package.

## Limits

Descriptions of everyday photographs, without capitals, are all that it has seen: anything else comes out as one.
"""


def _scores(model: str, source: Path, reference: Path) -> tuple[dict[str, Any], float]:
    """The command's scores, and BLEU of the tokens as they stand."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "output.txt"
        files = ["--input", str(source), "--reference", str(reference), "--output", str(output)]
        scores = lite_nlp("evaluate", model, *files, "--beam", str(BEAM))["scores"]
        return {"multi30k test2016, lowercased": scores}, token_bleu(output, reference).value


def main() -> None:
    parser = card_parser("Score the shipped Multi30k model and write its card.")
    parser.add_argument("--file", type=Path, required=True, help="the compressed file in the bundle")
    parser.add_argument("--ledger", type=Path, required=True, help="of its compression")
    parser.set_defaults(src="en", tgt="de")
    arguments = parser.parse_args()
    folder = arguments.corpora / "multi30k"
    source, reference = (folder / f"test2016.lc.norm.tok.{language}.gz" for language in ("en", "de"))
    scores, tokens = _scores(str(arguments.model), source, reference)
    fp32_scores, fp32_tokens = _scores(str(arguments.training_run), source, reference)
    stages = json.loads(arguments.ledger.read_text(encoding="utf-8"))["stages"]
    facts, words = card_values(arguments, scores=scores, fp32_scores=fp32_scores, data=DATA)
    size = arguments.file.stat().st_size
    write_text(arguments.out.with_suffix(".json"), json.dumps({**facts, "file_bytes": size}, indent=2) + "\n")
    card = CARD.format(
        **words,
        beam=BEAM,
        every=EVERY,
        file_size=size,
        ratio=PUBLISHED_BYTES / size,
        tokens=tokens,
        fp32_tokens=fp32_tokens,
        samples=sample_rows(str(arguments.model), source, reference, every=EVERY, beam=BEAM),
        tuning_minutes=sum(stage["seconds"] for stage in stages) / 60,
    )
    text = filled_paragraphs(card)
    write_text(arguments.out.with_suffix(".md"), text)
    print(text)


if __name__ == "__main__":
    main()
