"""The training step of JoeyNMT, for ``training.py``, which starts this file with an interpreter that has ``joeynmt``.

    python benchmarks/joeynmt_engine.py SOCKET

Nothing of this project is imported. Over the socket come a ``Task`` as a dictionary and then, as for the other
engines, numbers of steps; tokens per second go back. The step is what ``TrainManager.train_and_validate`` of JoeyNMT
2.3 does with a batch: ``_train_step`` (forward, loss, backward), gradient clipping, optimizer, schedule, ``zero_grad``.
"""

import logging
import sys
import tempfile
import time
from multiprocessing.connection import Client
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypedDict

import numpy as np
import torch
from joeynmt.batch import Batch
from joeynmt.config import parse_train_args
from joeynmt.model import Model, build_model
from joeynmt.training import TrainManager
from joeynmt.vocabulary import Vocabulary

#: Ids of JoeyNMT's special tokens, whose order is fixed, for ours: padding, begin, end, and the first other one.
SPECIAL_IDS = np.array([1, 2, 3, 0])
SYMBOLS = SimpleNamespace(
    **{f"{name}_token": f"<{name}>" for name in ("unk", "pad", "bos", "eos")},
    **{f"{name}_id": number for number, name in enumerate(("unk", "pad", "bos", "eos"))},
    sep_token=None,
    sep_id=None,
    lang_tags=[],
)


class Task(TypedDict):
    """What the engine is told.

    Attributes:
        threads: Threads of torch.
        precision: "fp32" or "bf16"; JoeyNMT's own configuration has no bf16, its ``TrainManager`` takes it.
        model: Keys of JoeyNMT's ``model`` section.
        training: Keys of its ``training`` section.
        vocab_size: Types, special tokens included.
        batches: Source tokens (B, S) and labels (B, T) of each batch, int64.
        tokens: Tokens of each batch, without padding.
    """

    threads: int
    precision: str
    model: dict[str, Any]
    training: dict[str, Any]
    vocab_size: int
    batches: list[tuple[np.ndarray, np.ndarray]]
    tokens: list[int]


def joeynmt_batch(source: np.ndarray, labels: np.ndarray, device: torch.device) -> Batch:
    """A batch in JoeyNMT's ids."""
    begin = np.ones((len(labels), 1), dtype=labels.dtype)
    src, trg = (
        torch.from_numpy(np.where(ids < len(SPECIAL_IDS), SPECIAL_IDS[np.minimum(ids, 3)], ids))
        for ids in (source, np.concatenate([begin, labels], axis=1))
    )
    return Batch(
        src=src,
        src_length=(src != SYMBOLS.pad_id).sum(dim=1),
        src_prompt_mask=None,
        trg=trg,
        trg_prompt_mask=None,
        indices=torch.arange(len(src)),
        device=device,
        pad_index=SYMBOLS.pad_id,
        eos_index=SYMBOLS.eos_id,
    )


def build(task: Task, device: torch.device, directory: Path) -> tuple[TrainManager, Model]:
    """JoeyNMT's model and trainer."""
    vocabulary = Vocabulary([str(number) for number in range(task["vocab_size"] - len(SPECIAL_IDS))], SYMBOLS)
    model = build_model(task["model"], src_vocab=vocabulary, trg_vocab=vocabulary)
    arguments = parse_train_args(task["training"])
    model.loss_function = (arguments.loss, arguments.label_smoothing)
    model.to(device)
    autocast = {"device_type": device.type, "dtype": torch.bfloat16, "enabled": task["precision"] == "bf16"}
    manager = TrainManager(
        rank=0,
        model=model,
        model_dir=directory,
        device=device,
        n_gpu=torch.cuda.device_count(),
        autocast=autocast,
        train_args=arguments,
    )
    return manager, model


def main() -> None:
    """Serve the benchmark until it sends 0 steps."""
    logging.disable(logging.WARNING)
    connection = Client(sys.argv[1])
    task: Task = connection.recv()
    torch.set_num_threads(task["threads"])
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with tempfile.TemporaryDirectory() as directory:
        manager, model = build(task, device, Path(directory))
        batches = [joeynmt_batch(source, labels, device) for source, labels in task["batches"]]

        def step(number: int) -> int:
            manager._train_step(batches[number])
            manager.clip_grad_fun(parameters=model.parameters())
            manager.optimizer.step()
            manager.scheduler.step(manager.stats.steps)
            manager.stats.steps += 1
            model.zero_grad()
            return task["tokens"][number]

        for number in range(-1, -5, -1):
            step(number)
        connection.send("ready")
        taken = 0
        while steps := connection.recv():
            begin = time.perf_counter()
            tokens = sum(step((taken + i) % len(batches)) for i in range(steps))
            connection.send(tokens / (time.perf_counter() - begin))
            taken += steps


if __name__ == "__main__":
    main()
