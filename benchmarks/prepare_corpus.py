"""Time by stage and memory of ``lite-nlp data prepare`` on synthetic sentence pairs.

    python benchmarks/prepare_corpus.py [--pairs 200000] [--folder runs/prepare-corpus] [--json FILE] [-- OPTION ...]

Words are drawn by Zipf's law out of 200,000 made of syllables, sentences have the lengths of Tatoeba's (log-normal, a
median of seven words) with a fifth as long as Europarl's (a median of 24). The same seed gives the same files. Options
behind ``--`` are those of ``data prepare``, such as ``--drop-overlap``. The command runs in a process of its own, of
which the peak is that of the memory it holds in all, file mappings aside.
"""

import argparse
import json
import os
import random
import re
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Final

import numpy as np

SEED: Final = 13
TYPES: Final = 200_000
EXPONENT: Final = 1.05
#: Median words of a sentence, spread of the logarithm and share.
LENGTHS: Final = ((7, 0.5, 0.8), (24, 0.6, 0.2))
MOST_WORDS: Final = 90
BATCH: Final = 50_000

CONSONANTS: Final = ("b", "d", "f", "g", "h", "k", "l", "m", "n", "p", "r", "s", "sch", "t", "v", "w", "z")
VOWELS: Final = ("a", "e", "i", "o", "u", "ei", "ä", "ö", "ü")

#: The command line in this Python.
RUN: Final = "from lite_nlp.cli.main import main; main()"

#: A stage as the command reports it without a terminal.
STAGE: Final = re.compile(
    r"^(?P<stage>[a-z ]+): (?:(?P<items>[\d,]+)|done) in (?P<number>[\d.]+) (?P<unit>s|min)$", re.MULTILINE
)


def make_words(seed: int) -> "np.ndarray[Any, Any]":
    """The types, the most frequent first, which are the shortest."""
    draw = random.Random(seed)
    words: dict[str, None] = {}
    while len(words) < TYPES:
        syllables = 1 + min(5, len(words) * 5 // TYPES + draw.randrange(2))
        parts = [draw.choice(CONSONANTS) + draw.choice(VOWELS) for _ in range(syllables)]
        words["".join(parts) + draw.choice(("", "n", "t", "s"))] = None
    return np.array(list(words), dtype=object)


def write_side(path: Path, pairs: int, seed: int) -> None:
    """Write a text of ``pairs`` lines."""
    generator = np.random.default_rng(seed)
    words = make_words(seed)
    chances = 1 / np.arange(1, TYPES + 1) ** EXPONENT
    edges = np.cumsum(chances / chances.sum())
    with path.open("w", encoding="utf-8") as file:
        for start in range(0, pairs, BATCH):
            count = min(BATCH, pairs - start)
            # The same lengths on both sides, whatever the words.
            lengths = _lengths(np.random.default_rng((SEED, start)), count)
            drawn = words[
                np.searchsorted(edges, generator.random(int(lengths.sum())), side="right").clip(max=TYPES - 1)
            ]
            ends = np.cumsum(lengths)
            file.writelines(
                f"{' '.join(drawn[end - length : end]).capitalize()}.\n"
                for end, length in zip(ends, lengths, strict=True)
            )


def _lengths(generator: np.random.Generator, count: int) -> "np.ndarray[Any, Any]":
    long = generator.random(count) < LENGTHS[1][2]
    found = [generator.lognormal(np.log(median), spread, count) for median, spread, _ in LENGTHS]
    return np.where(long, found[1], found[0]).round().clip(1, MOST_WORDS).astype(int)


def make_corpus(folder: Path, pairs: int) -> list[Path]:
    """The two files, made if they are not there."""
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for number, language in enumerate(("xa", "xb")):
        path = folder / f"{pairs}.{language}"
        if not path.is_file():
            partial = path.with_suffix(f".{language}.partial")
            write_side(partial, pairs, SEED + number)
            partial.rename(path)
        found.append(path)
    return found


class PeakMemory(threading.Thread):
    """Looks at the memory of a process and its children until they end."""

    def __init__(self, process: int) -> None:
        super().__init__(daemon=True)
        self.process = process
        self.peak_kb = 0
        self.over = threading.Event()

    def run(self) -> None:
        """Look ten times a second."""
        while not self.over.wait(0.1):
            self.peak_kb = max(self.peak_kb, sum(map(_anonymous_kb, _family(self.process))))


def _family(process: int) -> list[int]:
    try:
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        return []
    return [process, *(member for child in children for member in _family(int(child)))]


def _anonymous_kb(process: int) -> int:
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0
    found = re.search(r"^RssAnon:\s+(\d+)", status, re.MULTILINE)
    return int(found.group(1)) if found else 0


def prepare(sides: list[Path], out: Path, options: list[str]) -> tuple[float, int, str]:
    """Seconds, peak memory in kB and the messages of the command."""
    command = [sys.executable, "-c", RUN, "data", "prepare", "--train", *map(str, sides)]
    command += ["--src-lang", "en", "--tgt-lang", "de", "--out", str(out), "--force", *options]
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        memory = PeakMemory(process.pid)
        memory.start()
        _, messages = process.communicate()
        memory.over.set()
        memory.join()
    if process.returncode:
        sys.exit(messages)
    return time.perf_counter() - start, memory.peak_kb, messages


def main() -> None:
    """Measure, print a table and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=200_000)
    parser.add_argument("--folder", type=Path, default=Path("runs/prepare-corpus"))
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("options", nargs="*", metavar="OPTION")
    arguments = parser.parse_args()
    sides = make_corpus(arguments.folder, arguments.pairs)
    seconds, peak_kb, messages = prepare(sides, arguments.folder / "data", arguments.options)
    stages = [
        {
            "stage": found["stage"],
            "items": int((found["items"] or "0").replace(",", "")),
            "seconds": float(found["number"]) * (60 if found["unit"] == "min" else 1),
        }
        for found in STAGE.finditer(messages)
    ]
    print(f"{'stage':20} {'items':>12} {'seconds':>8} {'share':>6}")
    for stage in stages:
        print(f"{stage['stage']:20} {stage['items']:12,} {stage['seconds']:8.1f} {stage['seconds'] / seconds:6.0%}")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = used.ru_utime + used.ru_stime
    rate = f"{arguments.pairs / seconds:,.0f} pairs/s, {cpu:,.0f} s of CPU, peak {peak_kb / 1000:,.0f} MB"
    print(f"{'all':20} {arguments.pairs:12,} {seconds:8.1f}  {rate}")
    if arguments.json:
        content = {
            "pairs": arguments.pairs,
            "bytes": sum(side.stat().st_size for side in sides),
            "cores": len(os.sched_getaffinity(0)),
            "seconds": round(seconds, 1),
            "cpu_seconds": round(cpu, 1),
            "pairs_per_second": round(arguments.pairs / seconds),
            "peak_mb": round(peak_kb / 1000),
            "stages": stages,
        }
        arguments.json.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
