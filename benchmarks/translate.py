"""Time of a translation by this project's bundles, beside CTranslate2, PyTorch and a plain ``torch.onnx.export``.

    python benchmarks/translate.py [MODEL] [--bundle FILE.zip ...] [--ctranslate2 PYTHON] [--instruction-set AVX2 ...]
        [--threads 1] [--batch 1] [--beam 1] [--input FILE] [--sentences 16] [--rounds 11] [--json]

Each bundle runs in every runtime that it has graphs for; without one MODEL is exported to a plain bundle first. PYTHON
is an interpreter that has ``ctranslate2``, which this project does not depend on. CTranslate2 has no engine for other
models than Transformers, so it runs one of random weights and of MODEL's Mult-Adds, width and types.

The engines take turns, a turn being all sentences, so that a change in the load of the machine meets all of them. Times
are medians over the rounds, per sentence; ratios are medians of the ratios within a round. Each engine is a process of
its own and measures itself, in wall time and in processor time of all its threads.

Lengths are forced: 20 source tokens and 20 decoder steps for every engine, end marks included. With ``--input`` the
sentences are the first of a file, and the models translate them to their own ends; CTranslate2 is forced to the mean
number of steps of each batch. An engine whose package is missing is left out.
"""

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table
from translate_engines import PLAIN_EXPORT, TORCH, OwnTask
from translate_processes import (
    EngineMissingError,
    Running,
    ctranslate2_engine,
    interleave,
    missing_ctranslate2,
    own_engine,
)
from translate_rows import CTRANSLATE2, Contender, batches_of, describe_rows, equal_transformer, random_sources

from lite_nlp import export_model
from lite_nlp.artifacts.bundles import open_any_bundle
from lite_nlp.artifacts.models import LoadedModel, load_model
from lite_nlp.config.model import EncoderDecoderConfig
from lite_nlp.config.preset import parse_config
from lite_nlp.core.bounds import MAX_BEAM, MAX_THREADS
from lite_nlp.core.errors import LiteNlpError
from lite_nlp.decoding.lines import read_file_lines
from lite_nlp.export.runtime.device import describe_device
from lite_nlp.export.runtime.manifest import CONFIG_FILE
from lite_nlp.export.runtime.registry import RUNTIMES

#: Source tokens and decoder steps where lengths are forced, end marks included.
LENGTH: Final = 20
CTRANSLATE2_VERSION: Final = "4.8.5"

#: Threads of some engines wait actively for more work, on the core of the engine whose turn is next; Intel's OpenMP,
#: which CTranslate2 has, does so for 200 ms.
PAUSE_SECONDS: Final = 0.25

#: Ids of the sentences of each batch, and the decoder steps that each took.
Batches = list[list[list[int]]]
Steps = list[list[int]]


def own_contenders(
    loaded: LoadedModel, model: str | None, bundles: Sequence[Path]
) -> list[tuple[Contender, str | None]]:
    """The engines that run the model, and the file that each opens."""
    found: list[tuple[Contender, str | None]] = []
    for path in bundles:
        bundle = open_any_bundle(path)
        config = parse_config(bundle.read(CONFIG_FILE).decode(), name=str(path)).model
        if config.tgt_vocab_size != loaded.config.model.tgt_vocab_size:
            sys.exit(f"{path}: expected a bundle of {loaded.name} or a variant of it, found other types")
        found += [
            (
                Contender(
                    engine=runtime,
                    model=bundle.manifest.name,
                    config=config,
                    precision=bundle.manifest.precision,
                    facts={"bundle": path.name},
                ),
                str(path),
            )
            for runtime in RUNTIMES
            if runtime in bundle.manifest.runtimes
        ]
    for engine in (TORCH, PLAIN_EXPORT):
        contender = Contender(engine=engine, model=loaded.name, config=loaded.config.model, precision="fp32")
        found.append((contender, model))
    return found


def measure(options: argparse.Namespace, bundles: Sequence[Path], loaded: LoadedModel) -> list[dict[str, Any]]:
    """Start the engines, let them take turns, and describe what these took."""
    config = loaded.encoder_decoder.config
    if options.input is None:
        sources = random_sources(options.sentences, length=LENGTH, types=config.src_vocab_size)
    else:
        sources = read_sources(options.input, loaded, options.sentences)
    batches = batches_of(sources, options.batch)
    running: dict[str, Running] = {}
    contenders: dict[str, Contender] = {}
    with ExitStack() as stack:
        for contender, source in own_contenders(loaded, options.model, bundles):
            task = OwnTask(
                engine=contender.engine,
                source=source,
                threads=options.threads,
                beam=options.beam,
                batches=batches,
                steps=None if options.input else LENGTH,
            )
            try:
                running[contender.label] = stack.enter_context(own_engine(task))
            except EngineMissingError as error:
                print(f"{contender.label}: left out: {error}", file=sys.stderr)
            else:
                contenders[contender.label] = contender
        if problem := missing_ctranslate2(options.ctranslate2):
            print(
                f"ctranslate2: left out, {options.ctranslate2}: {problem}; python -m venv ctranslate2 && "
                f"ctranslate2/bin/pip install ctranslate2=={CTRANSLATE2_VERSION} numpy, then --ctranslate2 "
                "ctranslate2/bin/python",
                file=sys.stderr,
            )
        else:
            steps = next(iter(running.values())).steps
            for contender in ctranslate2_contenders(config, batches, steps, options):
                foreign = ctranslate2_task(contender, batches, steps, options)
                instructions = contender.facts.get("instruction_set", "")
                engine = ctranslate2_engine(options.ctranslate2, foreign, instructions)
                running[contender.label] = stack.enter_context(engine)
                contenders[contender.label] = contender
        takers = {label: engine.take_turn for label, engine in running.items()}
        turns = interleave(takers, options.rounds, pause=PAUSE_SECONDS if options.threads > 1 else 0.0)
    lengths = {label: lengths_of(batches, engine.steps) for label, engine in running.items()}
    rows = describe_rows(contenders, turns, lengths, beam=options.beam)
    return [{**row, "version": running[label].version} for label, row in zip(contenders, rows, strict=True)]


def lengths_of(batches: Batches, steps: Steps) -> list[tuple[int, int]]:
    """Source tokens, end mark included, and decoder steps of every sentence."""
    return [
        (len(source) + 1, count)
        for batch, counts in zip(batches, steps, strict=True)
        for source, count in zip(batch, counts, strict=True)
    ]


def ctranslate2_contenders(
    config: EncoderDecoderConfig, batches: Batches, steps: Steps, options: argparse.Namespace
) -> list[Contender]:
    """CTranslate2 in fp32 and int8, with its own choice of instructions and each that was asked for."""
    src_len, step_count = (round(statistics.mean(found)) for found in zip(*lengths_of(batches, steps), strict=True))
    equal = equal_transformer(config, src_len=src_len, steps=step_count, beam=options.beam)
    name = f"random Transformer {equal.num_encoder_layers}+{equal.num_decoder_layers}, FFN {equal.ffn_dim}"
    return [
        Contender(
            engine=CTRANSLATE2,
            model=name,
            config=equal,
            precision=precision,
            facts={"instruction_set": instruction_set} if instruction_set else {},
        )
        for instruction_set in ("", *options.instruction_set)
        for precision in ("int8", "fp32")
    ]


def ctranslate2_task(
    contender: Contender, batches: Batches, steps: Steps, options: argparse.Namespace
) -> dict[str, Any]:
    """The contender as ``ctranslate2_engine.Task``."""
    config = contender.config
    return {
        "threads": options.threads,
        "beam": options.beam,
        "compute_type": "float32" if contender.precision == "fp32" else contender.precision,
        "embed_dim": config.embed_dim,
        "num_heads": config.num_heads,
        "ffn_dim": config.ffn_dim,
        "num_layers": (config.num_encoder_layers, config.num_decoder_layers),
        "vocab_size": config.tgt_vocab_size,
        "max_positions": config.max_positions,
        # Any type stands for the end mark of the random model.
        "batches": [[[*row, 3] for row in batch] for batch in batches],
        "steps": [round(statistics.mean(counts)) for counts in steps],
    }


def read_sources(path: Path, loaded: LoadedModel, count: int) -> list[list[int]]:
    """Token ids of the first lines that are not blank."""
    found: list[list[int]] = []
    longest = loaded.config.model.max_positions - 1
    for number, line in enumerate(read_file_lines(path), start=1):
        tokens = loaded.tokenizer.encode(line)
        if len(tokens) > longest:
            sys.exit(f"{path}: line {number}: expected at most {longest} tokens, found {len(tokens)}")
        found += [tokens] if tokens else []
        if len(found) == count:
            break
    if not found:
        sys.exit(f"{path}: expected at least one line that is not blank, found none")
    return found


def parse_options() -> argparse.Namespace:
    """The options, checked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model", nargs="?", metavar="MODEL", help="a path or shipped name")
    parser.add_argument("--bundle", type=Path, action="append", default=[], metavar="FILE.zip")
    parser.add_argument("--ctranslate2", default=sys.executable, metavar="PYTHON", help="interpreter that has it")
    parser.add_argument("--instruction-set", action="append", default=[], metavar="NAME", help="also of CTranslate2")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=1, help="sentences translated at once")
    parser.add_argument("--beam", type=int, default=1)
    parser.add_argument("--input", type=Path, metavar="FILE", help="text to translate; else lengths are forced")
    parser.add_argument("--sentences", type=int, default=16, help="sentences of a turn")
    parser.add_argument("--rounds", type=int, default=11, help="turns of each engine")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    options = parser.parse_args()
    for name, most in (
        ("threads", MAX_THREADS),
        ("beam", MAX_BEAM),
        ("batch", None),
        ("sentences", None),
        ("rounds", None),
    ):
        number = getattr(options, name)
        if number < 1 or (most is not None and number > most):
            parser.error(f"--{name}: expected {f'1 to {most}' if most else 'at least 1'}, found {number}")
    return options


def table(result: dict[str, Any]) -> Table:
    """The rows for people."""
    title = f"{result['lengths']}, threads {result['threads']}, batch {result['batch']}, beam {result['beam']}"
    models = dict.fromkeys(f"{row['engine']}: {row['model']}" for row in result["rows"])
    shown = Table("engine", title=title, caption=", ".join(models))
    for heading in ("ms", "CPU ms", "M Mult-Adds", "ms / CT2 int8", "CPU ms / CT2 int8"):
        shown.add_column(heading, justify="right")
    for row in result["rows"]:
        names = (row["engine"], row["precision"], row.get("bundle"), row.get("instruction_set"))
        ratios = (row["ratio_to_ctranslate2_int8"], row["cpu_ratio_to_ctranslate2_int8"])
        shown.add_row(
            " ".join(filter(None, names)),
            f"{row['ms']:.2f}",
            f"{row['cpu_ms']:.2f}",
            f"{row['macs'] / 1e6:.1f}",
            *("-" if ratio is None else f"{ratio:.2f}" for ratio in ratios),
        )
    return shown


def main() -> None:
    options = parse_options()
    try:
        loaded = load_model(options.model)
        with tempfile.TemporaryDirectory() as directory:
            bundles = options.bundle or [Path(directory, "plain.zip")]
            if not options.bundle:
                export_model(loaded, out=bundles[0], threads=options.threads)
            rows = measure(options, bundles, loaded)
    except LiteNlpError as error:
        sys.exit(f"error: {error}")
    result = {
        "schema_version": 1,
        "lengths": f"{LENGTH} -> {LENGTH} tokens" if options.input is None else options.input.name,
        "threads": options.threads,
        "batch": options.batch,
        "beam": options.beam,
        "sentences": options.sentences,
        "rounds": options.rounds,
        "device": describe_device().to_json(),
        "rows": rows,
    }
    if options.json:
        print(json.dumps(result))
    else:
        Console().print(table(result))


if __name__ == "__main__":
    main()
