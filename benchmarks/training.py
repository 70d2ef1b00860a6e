"""Tokens per second of a training step of ``lite-nlp train``, beside plain PyTorch loops of the same model.

    python benchmarks/training.py --data DATA [--presets multi30k-transformer,...] [--precisions fp32,bf16]
        [--threads 1,2] [--rounds 5] [--steps 2] [--joeynmt PYTHON] [--profile] [--json]

DATA is a data directory of the preset's kind (``lite-nlp data prepare``). The engines take the same batches in turns, a
few steps at a time, so that a change in the load of the machine meets all of them; medians over the turns are printed.

``lite-nlp``: the step of ``lite-nlp train``, in the context that training runs in. ``plain``: the same model written
with ``torch.nn`` (``plain_models.py``), ``F.cross_entropy``, ``clip_grad_norm_`` and ``torch.optim.Adam``.
``plain-loop``: that loop around this project's modules. ``joeynmt``: the step of JoeyNMT (``joeynmt_engine.py``), for
presets that it can express, those of a Transformer; PYTHON is the interpreter of an environment that has it, since its
dependencies exclude this project's. Each engine is a process of its own: what one sets for its process (threads,
memory, arithmetic) does not reach the others. Where there is a GPU all run on it.
"""

import argparse
import json
import multiprocessing
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
import torch.nn.functional as F
from plain_models import PlainEncoderDecoder, PlainLanguageModel, PlainPairClassifier
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from lite_nlp.config.model import EncoderDecoderConfig, LanguageModelConfig
from lite_nlp.config.preset import Config, dump_config, load_config, parse_config
from lite_nlp.data.pairs.batches import Batch
from lite_nlp.models.build import build_model
from lite_nlp.tasks.classification.predict import classifier_inputs
from lite_nlp.tasks.registry import task_of_data
from lite_nlp.training.arithmetic import fast_arithmetic
from lite_nlp.training.batching import Work
from lite_nlp.training.device import autocast, to_device
from lite_nlp.training.memory import kept_memory
from lite_nlp.training.processes import start_processes
from lite_nlp.training.stepper import Stepper

ENGINES: Final = ("lite-nlp", "plain", "plain-loop")
JOEYNMT: Final = "joeynmt"
JOEYNMT_VERSION: Final = "2.3.0"
PRESETS: Final = ("multi30k-transformer", "multi30k-lite-transformer", "multi30k-subformer", "multi30k-r2d2")

#: Batches that the turns go through: as different in shape as those of an epoch.
BATCHES: Final = 40
WARM_UP_STEPS: Final = 4

#: Takes the optimizer step of a number on a batch.
Step = Callable[[int, Any], object]


def plain_step(config: Config, model: nn.Module, device: torch.device) -> Step:
    """The loop that a tutorial teaches."""
    training = config.training
    fused = {"fused": True} if device.type == "cuda" else {}
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), **fused)

    def inputs_and_labels(batch: Any) -> tuple[tuple[Tensor, ...], Tensor]:
        if isinstance(batch, Batch):
            *inputs, labels = to_device(batch, device)
            return tuple(inputs), labels
        if isinstance(batch, tuple):
            tokens, labels = (torch.from_numpy(array).to(device) for array in batch)
            return (tokens,), labels
        return classifier_inputs(batch, device), torch.from_numpy(batch.labels).to(device)

    ignored = -100 if config.model.architecture.endswith("classifier") else 0

    def step(_: int, batch: Any) -> None:
        inputs, labels = inputs_and_labels(batch)
        optimizer.zero_grad()
        with autocast(device, training.precision):
            logits = model(*inputs)
        loss = F.cross_entropy(
            logits.float().view(-1, logits.shape[-1]),
            labels.view(-1),
            ignore_index=ignored,
            label_smoothing=training.label_smoothing,
        )
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        loss.item()

    return step


def plain_model(config: Config) -> nn.Module:
    """The config's model in plain modules."""
    if isinstance(config.model, EncoderDecoderConfig):
        return PlainEncoderDecoder(config.model)
    if isinstance(config.model, LanguageModelConfig):
        return PlainLanguageModel(config.model)
    return PlainPairClassifier(config.model)


def engine_step(engine: str, config: Config, objective: Any, stack: ExitStack) -> Step:
    """The step of an engine; ``stack`` holds what lasts as long as the engine."""
    accelerator = start_processes()
    device = accelerator.device
    torch.manual_seed(1)
    if engine != "lite-nlp":
        model = plain_model(config) if engine == "plain" else build_model(config.model)
        return plain_step(config, model.to(device).train(), device)
    stack.enter_context(fast_arithmetic(device))
    stack.enter_context(kept_memory(device))
    model = build_model(config.model).to(device).train()
    stepper = Stepper(model, objective=objective, config=config.training, accelerator=accelerator, total_steps=10_000)
    return lambda number, batch: stepper.take(number, [(work_of(number), batch)], stopping=False)


def work_of(number: int) -> Work:
    """The place of a step's only batch."""
    return Work(0, np.array([number]))


def serve(connection: Connection, engine: str, config: Config, data: Path, threads: int, profile: bool) -> None:
    """A process with one engine: takes as many steps as it is told and answers with tokens per second."""
    torch.set_num_threads(threads)
    objective, loaded = load_batches(config, data)
    with ExitStack() as stack:
        step = engine_step(engine, config, objective, stack)
        for number in range(1, WARM_UP_STEPS + 1):
            step(number, loaded[-number % len(loaded)])
        connection.send("ready")
        number = 0
        while steps := connection.recv():
            turn = [loaded[(number + i) % len(loaded)] for i in range(steps)]
            begin = time.perf_counter()
            for batch in turn:
                number += 1
                step(number, batch)
            connection.send(sum(map(tokens_of, turn)) / (time.perf_counter() - begin))
        if profile:
            print_profile(engine, step, loaded)


def load_batches(config: Config, data: Path) -> tuple[Any, list[Any]]:
    """The objective, and its first batches, the same for every engine."""
    objective = task_of_data(data).room().open_training_data(data).objective(config)
    batches = objective.batches("train", batches_per_step=1, say=lambda _: None)
    return objective, [batches.load(step[0].rows) for step in batches.steps(0)[:BATCHES]]


def joeynmt_task(config: Config, batches: Sequence[Batch], threads: int) -> dict[str, Any] | None:
    """The config as JoeyNMT's (``joeynmt_engine.Task``); None if it has no such model.

    JoeyNMT has one drop rate for all: the config's ``dropout`` here.
    """
    model, training = config.model, config.training
    if not isinstance(model, EncoderDecoderConfig) or model.family != "transformer" or model.tie_embeddings != "all":
        return None
    stack = {
        "type": "transformer",
        "num_heads": model.num_heads,
        "hidden_size": model.embed_dim,
        "ff_size": model.ffn_dim,
        "dropout": model.dropout,
        "layer_norm": "pre" if model.pre_norm else "post",
        "embeddings": {"embedding_dim": model.embed_dim, "scale": True, "dropout": model.dropout},
    }
    return {
        "threads": threads,
        "precision": training.precision,
        "model": {
            "tied_embeddings": True,
            "tied_softmax": True,
            "encoder": {**stack, "num_layers": model.num_encoder_layers},
            "decoder": {**stack, "num_layers": model.num_decoder_layers},
        },
        "training": {
            "batch_size": len(batches[0]),
            "optimizer": "adam",
            "adam_betas": [training.adam_beta1, training.adam_beta2],
            "learning_rate": 1e-4,
            "scheduling": "warmupinversesquareroot",
            "clip_grad_norm": training.clip_norm,
            "normalization": "tokens",
            "label_smoothing": training.label_smoothing,
        },
        "vocab_size": model.tgt_vocab_size,
        "batches": [(batch.src_tokens, batch.labels) for batch in batches],
        "tokens": [tokens_of(batch) for batch in batches],
    }


def joeynmt_installed(python: str) -> bool:
    """Whether an interpreter has JoeyNMT; says so if not."""
    found = subprocess.run([python, "-c", "import joeynmt.training"], capture_output=True, text=True, check=False)
    if found.returncode:
        reason = (found.stderr.strip().splitlines() or ["no output"])[-1]
        print(
            f"joeynmt: skipped, {python}: {reason}; python -m venv joeynmt && joeynmt/bin/pip install"
            f" joeynmt=={JOEYNMT_VERSION} importlib_metadata, then --joeynmt joeynmt/bin/python",
            file=sys.stderr,
        )
    return found.returncode == 0


def start_joeynmt(python: str, task: dict[str, Any]) -> tuple[Connection, subprocess.Popen[bytes]]:
    """Start ``joeynmt_engine.py`` and hand it its task."""
    with tempfile.TemporaryDirectory() as directory, Listener(str(Path(directory) / "socket")) as listener:
        engine = [python, str(Path(__file__).with_name("joeynmt_engine.py")), str(listener.address)]
        process = subprocess.Popen(engine, stderr=subprocess.DEVNULL)
        connection = listener.accept()
    connection.send(task)
    return connection, process


def tokens_of(batch: Any) -> int:
    """Tokens without padding, special tokens included."""
    if isinstance(batch, Batch):
        return int(batch.src_mask.sum()) + batch.num_target_tokens
    return int((batch.labels != 0).sum()) if isinstance(batch, tuple) else int(batch.num_tokens)


def print_profile(engine: str, step: Step, batches: Sequence[Any]) -> None:
    """Time by operator, on stderr."""
    with torch.profiler.profile() as profile:
        for number in range(1, 6):
            step(number, batches[number % len(batches)])
    table = profile.key_averages().table(sort_by="self_cpu_time_total", row_limit=25, max_name_column_width=45)
    print(engine, table, sep="\n", file=sys.stderr)


def measure(
    config: Config, data: Path, *, threads: int, rounds: int, steps: int, profile: bool, joeynmt: str | None
) -> dict[str, float]:
    """Tokens per second by engine, medians over the rounds; ``joeynmt`` is the interpreter that has it."""
    spawn = multiprocessing.get_context("spawn")
    pipes: dict[str, Connection] = {}
    processes: list[Any] = []
    for engine in ENGINES:
        pipes[engine], theirs = spawn.Pipe()
        process = spawn.Process(target=serve, args=(theirs, engine, config, data, threads, profile))
        process.start()
        theirs.close()
        processes.append(process)
        pipes[engine].recv()
    task = joeynmt_task(config, load_batches(config, data)[1], threads) if joeynmt else None
    if joeynmt and task:
        pipes[JOEYNMT], process = start_joeynmt(joeynmt, task)
        processes.append(process)
        pipes[JOEYNMT].recv()
    rates: dict[str, list[float]] = {engine: [] for engine in pipes}
    for _ in range(rounds):
        for engine, pipe in pipes.items():
            pipe.send(steps)
            rates[engine].append(pipe.recv())
    for pipe, process in zip(pipes.values(), processes, strict=True):
        pipe.send(0)
        process.wait() if isinstance(process, subprocess.Popen) else process.join()
    return {engine: statistics.median(found) for engine, found in rates.items()}


def configured(preset: str, data: Path, overrides: Sequence[str]) -> Config:
    """The preset with the vocabulary and the labels of the data."""
    config = load_config(preset, overrides)
    opened = task_of_data(data).room().open_training_data(data)
    sizes = [f"model.{key}={opened.tokenizer.vocab_size}" for key in config.model.vocab_sizes]
    return parse_config(dump_config(config), name=preset, overrides=[*sizes, *opened.overrides])


def main() -> None:
    """Measure all combinations and print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--presets", default=",".join(PRESETS))
    parser.add_argument("--precisions", default="fp32,bf16")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--joeynmt", default=sys.executable, metavar="PYTHON")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    joeynmt = arguments.joeynmt if joeynmt_installed(arguments.joeynmt) else None
    engines = [*ENGINES, *([JOEYNMT] if joeynmt else [])]
    rows = []
    for preset in arguments.presets.split(","):
        for precision in arguments.precisions.split(","):
            config = configured(preset, arguments.data, [f"training.precision={precision}"])
            for threads in map(int, arguments.threads.split(",")):
                rates = measure(
                    config,
                    arguments.data,
                    threads=threads,
                    rounds=arguments.rounds,
                    steps=arguments.steps,
                    profile=arguments.profile,
                    joeynmt=joeynmt,
                )
                rows.append(
                    {
                        "preset": preset,
                        "device": device,
                        "precision": precision,
                        "threads": threads,
                        "tokens_per_second": {engine: round(rate) for engine, rate in rates.items()},
                        "ratio": {
                            engine: round(rates["lite-nlp"] / rates[engine], 2)
                            for engine in rates
                            if engine != "lite-nlp"
                        },
                    }
                )
                print(rows[-1], file=sys.stderr)
    if arguments.json:
        print(json.dumps({"schema_version": 1, "rows": rows}))
        return
    ratios = [f"x {engine}" for engine in engines[1:]]
    table = Table("preset", "precision", "threads", *engines, *ratios, title=f"tokens/s, {device}")
    for row in rows:
        rates, ratio = row["tokens_per_second"], row["ratio"]
        table.add_row(
            row["preset"],
            row["precision"],
            str(row["threads"]),
            *(f"{rates[engine]:,}" if engine in rates else "-" for engine in engines),
            *(f"{ratio[engine]:.2f}" if engine in ratio else "-" for engine in engines[1:]),
        )
    Console().print(table)


if __name__ == "__main__":
    main()
