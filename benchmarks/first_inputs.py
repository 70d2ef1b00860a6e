r"""Count the inputs that a translation model gets right among sixty that people try first.

    python benchmarks/first_inputs.py MODEL --src en --tgt de [--beam 1] [--runtime torch] [--json]

The inputs of ``phrases/first-inputs.*.tsv`` are short, uncased, greetings, names, numbers, single words, without end
marks or in capitals. They were written before the training and are kept out of it. An output is right if it is one of
the answers in the input's line, case and punctuation aside.
"""

import argparse
import json
import unicodedata
from pathlib import Path
from typing import Final, NamedTuple

from rich.console import Console
from rich.table import Table

__all__ = ["PHRASES", "Answered", "answer_inputs", "fold", "read_inputs"]

PHRASES: Final = Path(__file__).with_name("phrases")


class Answered(NamedTuple):
    """An input and what the model makes of it."""

    text: str
    output: str
    right: bool


def fold(text: str) -> str:
    """The text without case, punctuation and superfluous spaces."""
    kept = "".join(character for character in text.casefold() if not unicodedata.category(character).startswith("P"))
    return " ".join(kept.split())


def read_inputs(src: str, tgt: str) -> list[tuple[str, list[str]]]:
    """The inputs of one direction, each with its acceptable answers."""
    lines = (PHRASES / f"first-inputs.{src}-{tgt}.tsv").read_text(encoding="utf-8").splitlines()
    return [(text, answers) for text, *answers in (line.split("\t") for line in lines)]


def answer_inputs(model: str, src: str, tgt: str, *, beam: int = 1, runtime: str | None = None) -> list[Answered]:
    """Translate the inputs of one direction and compare."""
    from lite_nlp import open_translator

    inputs = read_inputs(src, tgt)
    with open_translator(model, beam=beam, runtime=runtime) as translator:
        outputs = translator.translate([text for text, _ in inputs])
    return [
        Answered(text, output, fold(output) in {fold(answer) for answer in answers})
        for (text, answers), output in zip(inputs, outputs, strict=True)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model")
    parser.add_argument("--src", default="en")
    parser.add_argument("--tgt", default="de")
    parser.add_argument("--beam", type=int, default=1)
    parser.add_argument("--runtime")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    answered = answer_inputs(
        arguments.model, arguments.src, arguments.tgt, beam=arguments.beam, runtime=arguments.runtime
    )
    right = sum(one.right for one in answered)
    if arguments.json:
        print(json.dumps({"right": right, "of": len(answered), "inputs": [one._asdict() for one in answered]}))
        return
    table = Table("input", "output", "right")
    for one in answered:
        table.add_row(one.text, one.output, "yes" if one.right else "")
    Console().print(table)
    print(f"{right} of {len(answered)} right")


if __name__ == "__main__":
    main()
