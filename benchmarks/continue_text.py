"""Time of a token that language models' bundles continue a text by, side by side.

    python benchmarks/continue_text.py BUNDLE.zip [...] [--runtime onnx|executorch] [--texts 1] [--tokens 100]
        [--prompt 20] [--threads 1] [--rounds 9] [--json]

The bundles take turns in one process, so that a change in the load of the machine meets all of them. A turn reads
prompts of random tokens and then as many random tokens, one at a time of each text; as many texts at once as the bundle
takes. Times are medians over the rounds, per token of a text, of processor time and wall time, of one text without its
prompt; ratios, to the first bundle, are medians of the ratios within a round.
"""

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from lite_nlp.artifacts.bundles import open_any_bundle
from lite_nlp.core.bounds import MAX_THREADS
from lite_nlp.core.special_tokens import SPECIAL_TOKENS
from lite_nlp.export.runtime.device import describe_device
from lite_nlp.export.runtime.registry import RUNTIMES
from lite_nlp.export.runtime.task_engines import TextEngine, create_text_engine


def read_texts(engine: TextEngine, texts: NDArray[np.int64], prompt: int) -> tuple[float, float]:
    """Read texts (B, T), the first ``prompt`` tokens and then the others one at a time.

    Returns:
        Seconds of processor and wall for all; of a single text for what follows the prompt.
    """
    rows, length = texts.shape
    most = engine.most_rows(prompt, length - prompt) or rows
    started = time.process_time(), time.perf_counter()
    for first in range(0, rows, most):
        part = texts[first : first + most]
        state = engine.start(len(part), length)
        for start in range(0, prompt, engine.max_read):
            _, state = engine.read(part[:, start : min(prompt, start + engine.max_read)], state)
        if rows == 1:
            started = time.process_time(), time.perf_counter()
        for place in range(prompt, length):
            _, state = engine.read(part[:, place : place + 1], state)
    return time.process_time() - started[0], time.perf_counter() - started[1]


def measure(
    bundles: Sequence[Path], *, runtime: str, texts: int, prompt: int, tokens: int, threads: int, rounds: int
) -> Any:
    """A row for each bundle."""
    opened = [open_any_bundle(path, runtime=runtime) for path in bundles]
    engines = [create_text_engine(bundle, runtime=runtime, threads=threads) for bundle in opened]
    random = np.random.default_rng(0)
    types = min(bundle.manifest.vocabulary.tgt_size for bundle in opened)
    seconds: list[list[tuple[float, float]]] = [[] for _ in engines]
    for number in range(rounds + 1):
        rows = random.integers(len(SPECIAL_TOKENS), types, (texts, prompt + tokens))
        for found, engine in zip(seconds, engines, strict=True):
            took = read_texts(engine, rows, prompt)
            # The first turn finds nothing in the caches of the processor.
            found += [took] if number else []
    return [
        {
            "bundle": path.name,
            "precision": bundle.manifest.precision,
            "cpu_ms": statistics.median(1e3 * cpu / (texts * tokens) for cpu, _ in found),
            "wall_ms": statistics.median(1e3 * wall / (texts * tokens) for _, wall in found),
            "cpu_ratio": statistics.median(own[0] / first[0] for own, first in zip(found, seconds[0], strict=True)),
        }
        for path, bundle, found in zip(bundles, opened, seconds, strict=True)
    ]


def show(rows: Sequence[dict[str, Any]], title: str) -> Table:
    """The rows for the eye."""
    table = Table("bundle", "precision", "CPU ms a token", "wall ms", "CPU, of the first", title=title)
    for row in rows:
        figures = (f"{row[key]:.3f}" for key in ("cpu_ms", "wall_ms", "cpu_ratio"))
        table.add_row(row["bundle"], row["precision"], *figures)
    return table


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundles", nargs="+", type=Path, metavar="BUNDLE.zip")
    parser.add_argument("--runtime", choices=list(RUNTIMES), default="onnx")
    parser.add_argument("--texts", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--prompt", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1, choices=range(1, MAX_THREADS + 1), metavar="N")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    settings = {name: getattr(options, name) for name in ("runtime", "texts", "prompt", "tokens", "threads", "rounds")}
    rows = measure(options.bundles, **settings)
    if options.json:
        device = describe_device().to_json()
        print(json.dumps({"device": device, "settings": settings, "rows": rows}, indent=1))
    else:
        title = f"{options.runtime}, texts: {options.texts}, {options.tokens} tokens after {options.prompt}"
        Console().print(show(rows, title))


if __name__ == "__main__":
    main()
