"""Time and memory of long lines, beside the same words as a file of ordinary lines.

    python benchmarks/long_lines.py [--words 10000] [--runtime onnx] [--megabyte] [--json FILE]

Words are those of the everyday sentences that come with the package, in an order drawn with a fixed seed: as lines of
eight words and as one line, with punctuation and without. A ratio compares a line with the lines of the same words.
``--megabyte`` adds lines of a million bytes, of which the first pieces alone are translated: what is measured is
cutting, and the memory of a process of its own.
"""

import argparse
import json
import random
import resource
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path
from typing import Any, Final

from lite_nlp import open_translator
from lite_nlp.data.pairs.everyday import read_everyday_pairs

MEGABYTE: Final = 1_000_000
LINE_WORDS: Final = 8
#: Seconds after which the stream of a line of a megabyte is left.
PATIENCE_S: Final = 20.0


def make_words(count: int) -> list[str]:
    """So many words of everyday sentences."""
    draw = random.Random(1)
    sentences = [source for source, _ in read_everyday_pairs()]
    words: list[str] = []
    while len(words) < count:
        words += draw.choice(sentences).split()
    return words[:count]


def make_texts(count: int) -> dict[str, tuple[list[str], str]]:
    """Lines by name, and for each the name of the lines that it is compared with."""
    words = make_words(count)
    plain = [word.strip(".,!?;:'\"").lower() for word in words]
    lines, plain_lines = (
        [" ".join(text[start : start + LINE_WORDS]) for start in range(0, count, LINE_WORDS)] for text in (words, plain)
    )
    return {
        "sentences, ordinary lines": (lines, "sentences, ordinary lines"),
        "sentences, one line": ([" ".join(words)], "sentences, ordinary lines"),
        "no punctuation, ordinary lines": (plain_lines, "no punctuation, ordinary lines"),
        "no punctuation, one line": ([" ".join(plain)], "no punctuation, ordinary lines"),
    }


def make_megabytes() -> dict[str, str]:
    """Lines of a million bytes by name."""
    words = " ".join(make_words(250_000))
    return {
        "one word": "x" * MEGABYTE,
        "wide characters": "\u732b" * (MEGABYTE // 3),
        "punctuation": "." * MEGABYTE,
        "spaces": f"a{' ' * (MEGABYTE - 2)}b",
        "sentences": words[:MEGABYTE],
    }


def measure(runtime: str, count: int) -> list[dict[str, Any]]:
    """A row for each text."""
    rows: list[dict[str, Any]] = []
    seconds: dict[str, float] = {}
    with open_translator(runtime=runtime, threads=1, warn=_ignore) as translator:
        translator.translate(["Warm up."] * 16)
        for name, (lines, other) in make_texts(count).items():
            start = time.perf_counter()
            translations = translator.translate(lines)
            seconds[name] = time.perf_counter() - start
            rows.append(
                {
                    "text": name,
                    "words": count,
                    "seconds": round(seconds[name], 2),
                    "ratio": round(seconds[name] / seconds[other], 2),
                    "output_words": sum(len(line.split()) for line in translations),
                }
            )
    return rows


def measure_megabyte(runtime: str, name: str) -> dict[str, Any]:
    """Seconds to the first translated text of a line, and the memory of this process up to some pieces later."""
    with open_translator(runtime=runtime, threads=1, warn=_ignore) as translator:
        translator.translate("Warm up.")
        before = _peak_mb()
        start = time.perf_counter()
        first: float | None = None
        for _ in islice(translator.stream(make_megabytes()[name]), 100):
            first = first or time.perf_counter() - start
            if time.perf_counter() - start > PATIENCE_S:
                break
    return {"text": name, "first_s": round(first or 0.0, 2), "grown_mb": round(_peak_mb() - before)}


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_000


def _ignore(warning: str) -> None:
    del warning


def main() -> None:
    """Measure, print a table and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", type=int, default=10_000)
    parser.add_argument("--runtime", default="onnx")
    parser.add_argument("--megabyte", action="store_true")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure_megabyte(arguments.runtime, arguments.one)))
        return
    rows = measure(arguments.runtime, arguments.words)
    print(f"{'text':34} {'seconds':>8} {'ratio':>6} {'words out':>10}")
    for row in rows:
        print(f"{row['text']:34} {row['seconds']:8.2f} {row['ratio']:6.2f} {row['output_words']:10,}")
    megabytes = []
    if arguments.megabyte:
        print(f"{'a megabyte of':34} {'first s':>8} {'MB more':>8}")
        for name in make_megabytes():
            command = [sys.executable, __file__, "--runtime", arguments.runtime, "--one", name]
            megabytes.append(json.loads(subprocess.run(command, check=True, capture_output=True).stdout))
            print(f"{name:34} {megabytes[-1]['first_s']:8.2f} {megabytes[-1]['grown_mb']:8}")
    if arguments.json:
        content = {"runtime": arguments.runtime, "rows": rows, "megabytes": megabytes}
        arguments.json.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
