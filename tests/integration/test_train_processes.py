"""Two processes under a launcher do what one process does with twice the gradient accumulation."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load

from .tiny_training import write_files

WORKER = Path(__file__).with_name("training_worker.py")


def start(directory: Path, launcher: list[str], name: str, *settings: str) -> subprocess.Popen[str]:
    settings = ("training.max_epochs=3", "training.max_steps=1000", *settings)
    chosen = [word for setting in settings for word in ("--set", setting)]
    arguments = [f"{name}-rows-", "train", "tiny.toml", "--data", "data", "--out", name, *chosen]
    return subprocess.Popen(
        [*launcher, str(WORKER), *arguments],
        cwd=directory,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def noted(directory: Path, name: str, process: int) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((directory / f"{name}-rows-{process}.json").read_text())
    return content


def rows_read(directory: Path, name: str, process: int) -> list[list[int]]:
    batches: list[list[int]] = noted(directory, name, process)["rows"]
    return batches


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("processes")
    write_files(directory)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    started = [
        start(directory, launcher, "two"),
        start(directory, [sys.executable], "one", "training.gradient_accumulation=2"),
    ]
    for process in started:
        output, errors = process.communicate()
        assert process.returncode == 0, errors
        # Only the first process reports.
        assert len(output.splitlines()) == 1
    return directory


def test_each_row_is_read_once_an_epoch(runs: Path) -> None:
    one, first, second = rows_read(runs, "one", 0), rows_read(runs, "two", 0), rows_read(runs, "two", 1)
    # Batches are dealt in turn; an epoch of an odd number of batches leaves the second process without a last one.
    assert len(one) == len(first) + len(second)
    assert len(first) > len(second)
    assert sorted(map(tuple, one)) == sorted(map(tuple, first + second))
    rows = [row for batch in first + second for row in batch]
    assert sorted(rows) == sorted(3 * list(range(100)))


def test_the_threads_of_the_process_group_end_with_the_training(runs: Path) -> None:
    for process in range(2):
        assert not [name for name in noted(runs, "two", process)["threads"] if "gloo" in name]


def test_the_losses_are_the_same(runs: Path) -> None:
    logs = [
        [json.loads(line) for line in (runs / name / "log.jsonl").read_text().splitlines()] for name in ("one", "two")
    ]
    assert len(logs[0]) == len(logs[1]) > 10
    for one, two in zip(*logs, strict=True):
        assert (one["event"], one["step"]) == (two["event"], two["step"])
        assert one["loss"] == pytest.approx(two["loss"], rel=1e-5)


def test_the_weights_are_the_same(runs: Path) -> None:
    one, two = (load((runs / name / "model.safetensors").read_bytes()) for name in ("one", "two"))
    assert one.keys() == two.keys()
    for name, tensor in one.items():
        torch.testing.assert_close(tensor, two[name], rtol=1e-4, atol=1e-6)


def test_the_metrics_count_the_processes_and_all_their_tokens(runs: Path) -> None:
    one, two = (json.loads((runs / name / "metrics.json").read_text()) for name in ("one", "two"))
    assert (one["processes"], two["processes"]) == (1, 2)
    assert one["tgt_tokens"] == two["tgt_tokens"]
    assert one["valid"]["loss"] == pytest.approx(two["valid"]["loss"], rel=1e-5)
