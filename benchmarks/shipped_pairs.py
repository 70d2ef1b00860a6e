r"""Write the training text of a shipped translation model: the corpora, varied, and phrases of our own.

    python benchmarks/shipped_pairs.py --corpora DIR --src en --tgt de --out DIR

Of Tatoeba train, and of Multi30k train, which is there twice, one pair in ten is there once more with a lowercased
source, and as many without end marks, without both, or a fiftieth in capitals: what people type into a phone. The
phrases, words and frames of ``phrases/`` stand there several times, in as many forms; the frames are filled with what
stands in ``phrases/slots/``, names and numbers. A pair whose source is one of the inputs of
``phrases/first-inputs.*.tsv``, case and punctuation aside, is left out: those inputs are for measuring. The same
arguments give the same files.
"""

import argparse
import gzip
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from first_inputs import PHRASES, fold, read_inputs

from lite_nlp.core.files import write_bytes

__all__ = ["main"]

#: Stems of the two files of a corpus, and how often each of its pairs stands in the text: captions twice, more
#: than a third of all tokens then.
CORPORA: Final = {"tatoeba/train": 1, "multi30k/train": 2}

#: How often each phrase stands in the text, and how many pairs are made of each frame.
PHRASE_COPIES: Final = 8
FRAME_PAIRS: Final = 40

#: Shares of the pairs of the corpora that stand there once more in another form of the source.
LOWERCASED: Final = 0.10
WITHOUT_END: Final = 0.05
LOWERCASED_WITHOUT_END: Final = 0.10
CAPITALS: Final = 0.02

TENS: Final = {
    20: ("twenty", "zwanzig"),
    30: ("thirty", "dreißig"),
    40: ("forty", "vierzig"),
    50: ("fifty", "fünfzig"),
    60: ("sixty", "sechzig"),
    70: ("seventy", "siebzig"),
    80: ("eighty", "achtzig"),
    90: ("ninety", "neunzig"),
}
UNITS: Final = {
    1: ("one", "ein"),
    2: ("two", "zwei"),
    3: ("three", "drei"),
    4: ("four", "vier"),
    5: ("five", "fünf"),
    6: ("six", "sechs"),
    7: ("seven", "sieben"),
    8: ("eight", "acht"),
    9: ("nine", "neun"),
}

Pair = tuple[str, str]


def corpus_pairs(corpora: Path) -> Iterator[Pair]:
    """English and German of the corpora, line by line."""
    for stem, copies in CORPORA.items():
        with (
            gzip.open(corpora / f"{stem}.en.gz", "rt", encoding="utf-8") as english,
            gzip.open(corpora / f"{stem}.de.gz", "rt", encoding="utf-8") as german,
        ):
            for pair in zip(english, german, strict=True):
                for _ in range(copies):
                    yield pair[0].strip(), pair[1].strip()


def read_pairs(path: Path) -> list[Pair]:
    """The two columns of a file of ``phrases/``, English and German."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [(line.split("\t")[0], line.split("\t")[1]) for line in lines]


def numbers() -> list[Pair]:
    """The numbers between the tens in words."""
    return [
        (f"{english}-{unit_english}", f"{unit_german}und{german}")
        for english, german in TENS.values()
        for unit_english, unit_german in UNITS.values()
    ]


def frame_pairs(choose: random.Random) -> list[Pair]:
    """The frames, with names, numbers and the rows of ``phrases/slots/`` in their slots."""
    names = (PHRASES / "names.txt").read_text(encoding="utf-8").split()
    slots = {path.name.partition(".")[0]: read_pairs(path) for path in sorted((PHRASES / "slots").iterdir())}
    pairs = []
    for frame in read_pairs(PHRASES / "frames.en-de.tsv"):
        for _ in range(FRAME_PAIRS):
            name, other = choose.sample(names, 2)
            rows = [choose.choice(rows) for rows in slots.values()]
            same = {
                "name": name,
                "other": other,
                "count": choose.randint(2, 100),
                "hour": choose.randint(1, 12),
                # The days of a month whose English ordinal ends in -th.
                "date": choose.randint(4, 20),
            }
            source, target = (
                text.format_map({**same, **dict(zip(slots, column, strict=True))})
                for text, column in zip(frame, zip(*rows, strict=True), strict=True)
            )
            pairs.append((sentence_case(source), sentence_case(target)))
    return pairs


def sentence_case(text: str) -> str:
    """The text with a capital at its beginning, if it has the end mark of a sentence."""
    return text[0].upper() + text[1:] if text.endswith((".", "!", "?")) else text


def without_end(text: str) -> str:
    """The text without the mark at its end."""
    return text.rstrip(".!?") or text


def other_form(pair: Pair, choose: random.Random, *, keep: float) -> Pair | None:
    """The pair with its source as people type it; None for the share that stays as it is."""
    source, target = pair
    draw = choose.random() * (1 - keep)
    forms = (
        (LOWERCASED, (source.lower(), target)),
        (WITHOUT_END, (without_end(source), without_end(target))),
        (LOWERCASED_WITHOUT_END, (without_end(source).lower(), without_end(target))),
        (CAPITALS, (source.upper(), target)),
    )
    for share, form in forms:
        draw -= share
        if draw < 0:
            return form
    return None


def training_pairs(corpora: Path, *, reverse: bool, choose: random.Random) -> Iterator[Pair]:
    """All pairs, source first, in a fixed order."""
    turn = (lambda pair: (pair[1], pair[0])) if reverse else (lambda pair: pair)
    for pair in map(turn, corpus_pairs(corpora)):
        yield pair
        if varied := other_form(pair, choose, keep=0.0):
            yield varied
    own = [*read_pairs(PHRASES / "phrases.en-de.tsv"), *read_pairs(PHRASES / "words.en-de.tsv"), *numbers()]
    forms = LOWERCASED + WITHOUT_END + LOWERCASED_WITHOUT_END + CAPITALS
    for pair in map(turn, own):
        for _ in range(PHRASE_COPIES):
            yield other_form(pair, choose, keep=1 - 2 * forms) or pair
    for pair in map(turn, frame_pairs(choose)):
        yield other_form(pair, choose, keep=1 - 2 * forms) or pair


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--corpora", type=Path, required=True)
    parser.add_argument("--src", choices=("en", "de"), required=True)
    parser.add_argument("--tgt", choices=("en", "de"), required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    if arguments.src == arguments.tgt:
        parser.error(f"--tgt: expected another language than {arguments.src}")
    held_out = {fold(text) for text, _ in read_inputs(arguments.src, arguments.tgt)}
    pairs = training_pairs(arguments.corpora, reverse=arguments.src == "de", choose=random.Random(1))
    kept = [pair for pair in pairs if fold(pair[0]) not in held_out]
    arguments.out.mkdir(parents=True, exist_ok=True)
    for column, language in enumerate((arguments.src, arguments.tgt)):
        text = "".join(f"{pair[column]}\n" for pair in kept)
        # Without a time stamp, the same text is the same file.
        write_bytes(arguments.out / f"train.{language}.gz", gzip.compress(text.encode(), mtime=0))
    print(f"{len(kept):,} pairs in {arguments.out}")


if __name__ == "__main__":
    main()
