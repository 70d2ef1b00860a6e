"""A run that is killed and resumed ends with the weights of a run left alone."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .tiny_training import write_files

COMMAND = [sys.executable, "-c", "from lite_nlp.cli.main import main; main()", "train", "tiny.toml", "--data", "data"]
SETTINGS = ["--set", "training.max_steps=200", "--set", "training.validate_every_steps=30"]

#: Seconds after which a process that makes no progress is given up.
DEADLINE = 120.0


def start(directory: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *SETTINGS, *arguments],
        cwd=directory,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def last_step(out: Path) -> int:
    log = out / "log.jsonl"
    lines = log.read_text().splitlines() if log.exists() else []
    steps = [json.loads(line)["step"] for line in lines if line.endswith("}")]
    return max(steps, default=0)


def kill_after(process: subprocess.Popen[str], out: Path, *, step: int) -> None:
    """Kill the run, wherever it is, once it has come past ``step``."""
    begin = time.monotonic()
    while last_step(out) <= step:
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        assert time.monotonic() - begin < DEADLINE
        time.sleep(0.005)
    process.kill()
    process.communicate()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    write_files(tmp_path)
    return tmp_path


def test_killed_and_resumed_is_bit_for_bit_the_run_undisturbed(directory: Path) -> None:
    whole, killed = start(directory, "--out", "whole"), start(directory, "--out", "parts")
    kill_after(killed, directory / "parts", step=33)
    assert killed.returncode == -signal.SIGKILL
    assert list((directory / "parts" / "checkpoints").glob("step-*"))

    resumed = start(directory, "--out", "parts", "--resume")
    for process in (whole, resumed):
        _, errors = process.communicate(timeout=DEADLINE)
        assert process.returncode == 0, errors
    assert "resuming after step" in errors
    one, other = ((directory / name / "model.safetensors").read_bytes() for name in ("whole", "parts"))
    assert one == other
    logs = [(directory / name / "log.jsonl").read_text().splitlines() for name in ("whole", "parts")]
    figures = [[(line["event"], line["step"], line["loss"]) for line in map(json.loads, log)] for log in logs]
    assert figures[0] == figures[1]
