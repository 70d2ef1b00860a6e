r"""Write the pairs that a distilled student learned from, as text: each training source with its best translations.

    python benchmarks/taught_pairs.py DATA HYPOTHESES --best 4 --out PAIRS.tsv

DATA is the data directory whose training split was translated, HYPOTHESES the directory of its translations
(``lite-nlp distill --hypotheses``). The reference of every source stands there too, as often as one translation.
With ``--nearest`` there is one translation of each source, of the best that which is nearest to the reference.
``data prepare --tsv PAIRS.tsv --tokenizer STUDENT/tokenizer.json`` makes a directory of them on which ``compress``
trains the student further with what it was taught.
"""

import argparse
import json
from pathlib import Path

from lite_nlp.core.files import write_text
from lite_nlp.data.pairs.directory import open_sentence_pairs
from lite_nlp.decoding.translate import Alternative
from lite_nlp.tasks.translation.candidates import nearest

__all__ = ["main"]


def main() -> None:
    parser = argparse.ArgumentParser(description="Write training sources with a teacher's best translations.")
    parser.add_argument("data", type=Path, help="the data directory whose training split was translated")
    parser.add_argument("hypotheses", type=Path, help="the directory of its translations")
    parser.add_argument("--best", type=int, default=4, help="translations of each source, the best first")
    parser.add_argument("--nearest", action="store_true", help="of these only the nearest to the reference")
    parser.add_argument("--out", type=Path, required=True, help="the pairs, source and target a line")
    options = parser.parse_args()
    sources, references = open_sentence_pairs(options.data).split("train").texts()
    lines = []
    with (options.hypotheses / "hypotheses.jsonl").open(encoding="utf-8") as file:
        for source, reference, line in zip(sources, references, file, strict=True):
            found = json.loads(line)
            best = list(map(Alternative, found["texts"], found["log_probs"]))[: options.best]
            if options.nearest and best:
                best = [nearest(best, reference)]
            # With one translation, one that is the reference counts twice: half of what is learned is the teacher's.
            targets = [reference, *(alternative.text for alternative in best)]
            lines += [f"{source}\t{target}\n" for target in (targets if options.nearest else dict.fromkeys(targets))]
    write_text(options.out, "".join(lines))


if __name__ == "__main__":
    main()
