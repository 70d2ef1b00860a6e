"""Time of a decoder step and of the encoder over the machine's own limits, and where the time of a step goes.

    python benchmarks/limits.py BUNDLE.zip [...] [--source 20] [--steps 40] [--rounds 9] [--json]

One thread, one sentence, greedy search, random tokens. A step reads the weights of the decoder once, so its limit is
their bytes over the bandwidth at which this core reads a buffer of as many bytes again and again (the dot product of
its halves). The encoder's limit is its Mult-Adds over those of NumPy's product of two matrices of 512 in fp32; integers
may pass it. Both are measured in turns with the bundles, and figures are medians over the rounds.

A step's time is what searches of ``--steps`` steps take beyond those of a quarter of them, for each step more; the
encoder's is what is left. The profile is ONNX Runtime's own, of the steps inside the graph of greedy search: its
measuring adds about a microsecond to each node, so the shares of small operators are rather less.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

# Before NumPy is imported, whose BLAS reads it once.
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto
from rich.console import Console
from rich.table import Table

from lite_nlp.artifacts.bundles import open_any_bundle
from lite_nlp.core.errors import LiteNlpError
from lite_nlp.decoding.options import SearchOptions
from lite_nlp.decoding.search import search
from lite_nlp.export.counting.bundle import read_graphs
from lite_nlp.export.runtime.bundle import Bundle
from lite_nlp.export.runtime.engine import create_engine
from lite_nlp.export.runtime.onnx import OnnxEntry

#: Side of the matrices whose product is the machine's peak.
SIDE: Final = 512

#: Ids from here on are words.
FIRST_WORD: Final = 3

#: Inputs of which a node reads a few rows, not all.
LOOKED_UP: Final = {"Gather": 0, "GatherND": 0, "GatherElements": 0}


def bytes_read(model: Any) -> int:
    """Bytes of the constants that one run of a graph's ``Loop`` body reads whole: tables looked up in are left out.

    Args:
        model: A ``ModelProto`` with the sizes of its constants.
    """
    sizes: dict[str, int] = {}
    read: set[str] = set()

    def visit(graph: GraphProto, *, inside: bool) -> None:
        for constant in graph.initializer:
            count = int(np.prod(constant.dims, dtype=np.int64))
            sizes[constant.name] = count * onnx.helper.tensor_dtype_to_np_dtype(constant.data_type).itemsize
        for node in graph.node:
            if inside:
                skipped = LOOKED_UP.get(node.op_type)
                read.update(name for place, name in enumerate(node.input) if place != skipped)
            for attribute in node.attribute:
                if attribute.type == AttributeProto.GRAPH:
                    visit(attribute.g, inside=inside or node.op_type == "Loop")

    visit(model.graph, inside=False)
    return sum(size for name, size in sizes.items() if name in read)


def split_times(few: float, many: float, *, few_steps: int, many_steps: int) -> tuple[float, float]:
    """Time of a step, and of what is not a step, of two searches."""
    step = (many - few) / (many_steps - few_steps)
    return step, few - few_steps * step


def forced(steps: int) -> SearchOptions:
    """A search of exactly so many steps, however short the source is."""
    return SearchOptions(max_length_ratio=0, max_length_extra=steps, min_length=steps - 1)


def bandwidth(size: int) -> float:
    """Bytes per second at which one core reads ``size`` bytes that it has read before."""
    halves = np.ones((2, max(1, size // 8)), np.float32)
    return halves.nbytes / _time(lambda: np.dot(halves[0], halves[1]), 20)


def peak() -> float:
    """Mult-Adds per second of a product in fp32."""
    matrix = np.ones((SIDE, SIDE), np.float32)
    return float(SIDE**3) / _time(lambda: matrix @ matrix, 3)


def _time(work: Callable[[], object], times: int) -> float:
    work()
    start = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - start) / times


def profile(bundle: Bundle, tokens: list[int], steps: int) -> list[dict[str, Any]]:
    """Operators of the steps by their time in ONNX Runtime's profiler: how many in a step, and their share."""
    import onnxruntime

    entry = _onnx_entry(bundle)
    with tempfile.TemporaryDirectory() as folder:
        for name in (entry.greedy, entry.weights):
            Path(folder, name).write_bytes(bundle.read(name))
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.enable_profiling = True
        options.profile_file_prefix = str(Path(folder, "profile"))
        session = onnxruntime.InferenceSession(str(Path(folder, entry.greedy)), options)
        given = {
            "src_tokens": np.array([tokens]),
            "src_mask": np.ones((1, len(tokens)), np.bool_),
            "limits": np.array([steps]),
            "min_length": np.array(steps - 1),
        }
        for _ in range(3):
            session.run(None, given)
        events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
    names = [event for event in events if event.get("cat") == "Node" and event["name"].endswith("_kernel_time")]
    if not any(event["args"]["op_name"] == "Loop" for event in names):
        raise LiteNlpError(f"{bundle.path}: expected a Loop in the graph of greedy search, found none in its profile")
    times: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    # What is called in every step, three times.
    frequent = Counter(event["name"] for event in names)
    for event in names:
        if frequent[event["name"]] >= 3 * steps:
            times[event["args"]["op_name"]] += event["dur"]
            calls[event["args"]["op_name"]] += 1
    whole = sum(times.values())
    return [
        {"operator": name, "calls_per_step": round(calls[name] / (3 * steps), 1), "share": spent / whole}
        for name, spent in times.most_common()
    ]


def _onnx_entry(bundle: Bundle) -> OnnxEntry:
    entry = bundle.manifest.runtimes.get("onnx")
    if not isinstance(entry, OnnxEntry):
        raise LiteNlpError(f"{bundle.path}: expected a translator's graphs for ONNX Runtime, found none")
    return entry


def measure(bundle: Bundle, *, source: int, steps: int, rounds: int) -> dict[str, Any]:
    """Times of a bundle in each of its runtimes, beside the limits."""
    random = np.random.default_rng(0)
    tokens = random.integers(FIRST_WORD, bundle.manifest.vocabulary.src_size, source - 1).tolist()
    graph = onnx.load_model_from_string(bundle.read(_onnx_entry(bundle).greedy))
    size = bytes_read(graph)
    encoder = sum(kind(source, steps) for kind in read_graphs(bundle).columns["onnx"].graphs["encode"].values())
    few = steps // 4
    engines = {name: create_engine(bundle, runtime=name, threads=1) for name in bundle.manifest.runtimes}

    def run(name: str, count: int) -> float:
        return _time(lambda: search(engines[name], [tokens], forced(count)), 5)

    limits: list[tuple[float, float]] = []
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in engines}
    for _ in range(rounds):
        limits.append((size / bandwidth(size), encoder / peak()))
        for name in engines:
            found[name].append(split_times(run(name, few), run(name, steps), few_steps=few, many_steps=steps))
    rows = []
    for name, pairs in found.items():
        ratios = [(step / low, rest / least) for (step, rest), (low, least) in zip(pairs, limits, strict=True)]
        rows.append(
            {
                "runtime": name,
                "precision": bundle.manifest.precision,
                "step_us": 1e6 * statistics.median(step for step, _ in pairs),
                "step_over_limit": statistics.median(ratio for ratio, _ in ratios),
                "encoder_us": 1e6 * statistics.median(rest for _, rest in pairs),
                "encoder_over_limit": statistics.median(ratio for _, ratio in ratios),
            }
        )
    return {
        "bundle": bundle.path.name,
        "bytes_read_per_step": size,
        "bandwidth_limit_us": 1e6 * statistics.median(low for low, _ in limits),
        "encoder_macs": encoder,
        "encoder_limit_us": 1e6 * statistics.median(least for _, least in limits),
        "rows": rows,
        "profile": profile(bundle, tokens, steps),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Times of bundles over the machine's own limits.")
    parser.add_argument("bundles", metavar="BUNDLE.zip", nargs="+", type=Path)
    parser.add_argument("--source", type=int, default=20, help="source tokens, end mark included")
    parser.add_argument("--steps", type=int, default=40, help="decoder steps of the longer search")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    arguments = parser.parse_args()
    if arguments.source < 2 or arguments.steps < 8 or arguments.rounds < 1:
        parser.error("expected --source of at least 2, --steps of at least 8 and --rounds of at least 1")
    try:
        found = [
            measure(open_any_bundle(path), source=arguments.source, steps=arguments.steps, rounds=arguments.rounds)
            for path in arguments.bundles
        ]
    except LiteNlpError as error:
        parser.exit(2, f"error: {error}\n")
    if arguments.json:
        print(json.dumps({"bundles": found}, indent=2))
        return
    for one in found:
        Console().print(_times_table(one))
        Console().print(_profile_table(one))


def _times_table(found: dict[str, Any]) -> Table:
    title = (
        f"{found['bundle']}: {found['bytes_read_per_step']:,} bytes a step, {found['bandwidth_limit_us']:.0f} us at "
        f"the bandwidth; encoder {found['encoder_macs']:,} Mult-Adds, {found['encoder_limit_us']:.0f} us at the peak"
    )
    table = Table("runtime", "precision", "us a step", "over its limit", "us encoder", "over its limit", title=title)
    for row in found["rows"]:
        times = (row["step_us"], row["step_over_limit"], row["encoder_us"], row["encoder_over_limit"])
        table.add_row(
            row["runtime"], row["precision"], *(f"{value:.{place % 2}f}" for place, value in enumerate(times))
        )
    return table


def _profile_table(found: dict[str, Any]) -> Table:
    table = Table("operator of a step", "calls", "share of the profiled time", title="ONNX Runtime")
    for row in found["profile"]:
        table.add_row(row["operator"], f"{row['calls_per_step']:g}", f"{row['share']:.1%}")
    return table


if __name__ == "__main__":
    main()
