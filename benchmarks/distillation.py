"""Speed of ``lite-nlp distill``: steps with a teacher in the loss beside plain ones, and the search of the teacher.

    python benchmarks/distillation.py TEACHER CONFIG --data DATA [--temperature 1] [--beam 5] [--batches 12]
        [--rounds 3] [--sources 500] [--runtimes torch,onnx] [--threads 1] [--json]

Steps: forward and backward of the student of CONFIG on the same batches, plain and at word level in turns; the median
of the rounds. ``all-logits`` is the same loss without the fused one: the logits of the whole batch of both models.
Search: every n-th training source, in batches of similar lengths. Times are of the processor, so that other programs
matter less; with several threads, of all of them together.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from lite_nlp.api.train import fit_data
from lite_nlp.artifacts.models import LoadedModel, load_model
from lite_nlp.artifacts.translators import open_translator
from lite_nlp.config.preset import Config, load_config
from lite_nlp.data.pairs.batches import make_batches
from lite_nlp.data.pairs.directory import open_sentence_pairs
from lite_nlp.models.build import build_model
from lite_nlp.tasks.translation.bleu import TRANSLATION_SCORER
from lite_nlp.tasks.translation.teaching import PairTeacher
from lite_nlp.tasks.translation.training import TranslationObjective, open_pairs
from lite_nlp.training.arithmetic import fast_arithmetic
from lite_nlp.training.device import to_device
from lite_nlp.training.mixed_loss import TeacherOutput
from lite_nlp.training.soft_targets import SoftTargets

CPU: Final = torch.device("cpu")

#: Source tokens of a batch of the search, as in the command.
SEARCH_TOKENS: Final = 2048

#: Forward and backward on a batch.
Step = Callable[[Any], object]


def all_logits_step(student: Any, teacher: Any, soft: SoftTargets, smoothing: float) -> Step:
    """The mixed loss as the papers write it, on the logits of all positions."""

    def step(batch: Any) -> None:
        *inputs, labels = to_device(batch, CPU)
        with torch.no_grad():
            wanted = (F.linear(teacher.hidden(*inputs), teacher.output_table) / soft.temperature).softmax(-1)
        logits: Tensor = student(*inputs)
        real = labels.ne(0)
        of_labels = F.cross_entropy(
            logits.flatten(0, 1), labels.flatten(), ignore_index=0, label_smoothing=smoothing, reduction="sum"
        )
        of_teacher = -(wanted * (logits / soft.temperature).log_softmax(-1)).sum(-1)[real].sum()
        loss = soft.label_weight * of_labels + (1 - soft.label_weight) * soft.temperature**2 * of_teacher
        loss.backward()  # type: ignore[no-untyped-call]

    return step


def objective(config: Config, data: Path, teacher: PairTeacher | None) -> TranslationObjective:
    pairs = open_sentence_pairs(data)
    return TranslationObjective(
        config=config, train=pairs.split("train"), valid=pairs.split("valid"), languages={}, teacher=teacher
    )


def measure_steps(config: Config, data: Path, loaded: LoadedModel, args: argparse.Namespace) -> dict[str, float]:
    """Source and target tokens per second of processor time, by kind of step."""
    soft = SoftTargets(temperature=args.temperature)
    model = loaded.encoder_decoder
    teacher = PairTeacher(model, lambda model, *inputs: TeacherOutput(model.hidden(*inputs), model.output_table), soft)
    torch.manual_seed(1)
    student: nn.Module = build_model(config.model).train()
    plain, taught = objective(config, data, None), objective(config, data, teacher)
    steps: dict[str, Step] = {
        "plain": lambda batch: plain.batch_sums(student, batch, CPU),
        "word level": lambda batch: taught.batch_sums(student, batch, CPU),
        "all-logits": all_logits_step(student, model, soft, config.training.label_smoothing),
    }
    batches = plain.batches("train", batches_per_step=1, say=lambda _: None)
    loaded_batches = [batches.load(step[0].rows) for step in batches.steps(0)[: args.batches]]
    tokens = sum(int(batch.src_mask.sum()) + batch.num_target_tokens for batch in loaded_batches)
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    with fast_arithmetic(CPU):
        for _ in range(args.rounds):
            for name, step in steps.items():
                begin = time.process_time()
                for batch in loaded_batches:
                    student.zero_grad(set_to_none=True)
                    step(batch)
                seconds[name].append(time.process_time() - begin)
    return {name: tokens / statistics.median(found) for name, found in seconds.items()}


def measure_search(teacher: str, data: Path, args: argparse.Namespace) -> dict[str, float]:
    """Sentences per second of processor time, by runtime."""
    split = open_sentence_pairs(data).split("train")
    rows = np.unique(np.linspace(0, len(split) - 1, args.sources).astype(np.int64))
    lengths = split.src_lengths[rows]
    batches = make_batches(lengths, np.zeros_like(lengths), batch_tokens=SEARCH_TOKENS, seed=0, epoch=0, shuffle=False)
    rates = {}
    for runtime in args.runtimes.split(","):
        with open_translator(teacher, runtime=runtime, threads=args.threads, beam=args.beam) as translator:
            begin = time.process_time()
            for batch in batches:
                translator.find_alternatives(split.texts(rows[batch])[0])
            rates[runtime] = len(rows) / (time.process_time() - begin)
    return rates


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("teacher")
    parser.add_argument("config")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--batches", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sources", type=int, default=500)
    parser.add_argument("--runtimes", default="torch")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    loaded = load_model(args.teacher)
    config = fit_data(load_config(args.config), open_pairs(args.data, TRANSLATION_SCORER))
    steps = measure_steps(config, args.data, loaded, args)
    search = measure_search(args.teacher, args.data, args)
    if args.json:
        print(json.dumps({"tokens_per_second": steps, "sentences_per_second": search}))
        return
    table = Table("work", "per second of processor time", "to plain steps")
    for name, rate in steps.items():
        table.add_row(f"tokens, {name}", f"{rate:,.0f}", f"{rate / steps['plain']:.2f}")
    for name, rate in search.items():
        table.add_row(f"sources, beam {args.beam}, {name}", f"{rate:,.1f}", "")
    Console().print(table)


if __name__ == "__main__":
    main()
