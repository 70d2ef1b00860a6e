"""The processes of ``translate.py``: each has one engine, which takes turns when it is told and measures itself."""

import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from typing import Any

from translate_engines import OwnTask, serve
from translate_rows import CTRANSLATE2, Turn

__all__ = ["EngineMissingError", "Running", "ctranslate2_engine", "interleave", "missing_ctranslate2", "own_engine"]


class EngineMissingError(Exception):
    """An engine whose package is not installed."""


@dataclass(frozen=True)
class Running:
    """An engine that has translated everything once.

    Attributes:
        steps: Decoder steps of each sentence of each batch.
        version: Of its runtime.
        take_turn: Lets it translate everything again; gives the times.
    """

    steps: list[list[int]]
    version: str
    take_turn: Callable[[], Turn]


@contextmanager
def own_engine(task: OwnTask) -> Iterator[Running]:
    """A process with an engine of this project.

    Raises:
        EngineMissingError: If its package is not installed.
    """
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs, task), daemon=True)
    process.start()
    theirs.close()
    with _running(ours, task["engine"]) as running:
        yield running
    process.join()


@contextmanager
def ctranslate2_engine(python: str, task: dict[str, Any], instruction_set: str) -> Iterator[Running]:
    """A process of ``ctranslate2_engine.py``; without an ``instruction_set`` CTranslate2 chooses it."""
    environment = {**os.environ, **({"CT2_FORCE_CPU_ISA": instruction_set} if instruction_set else {})}
    script = Path(__file__).with_name("ctranslate2_engine.py")
    with tempfile.TemporaryDirectory() as directory, Listener(str(Path(directory) / "socket")) as listener:
        process = subprocess.Popen([python, str(script), str(listener.address)], env=environment)
        connection = listener.accept()
    connection.send(task)
    with _running(connection, CTRANSLATE2) as running:
        yield running
    process.wait()


@contextmanager
def _running(connection: Connection, engine: str) -> Iterator[Running]:
    def receive() -> Any:
        try:
            return connection.recv()
        except EOFError:
            sys.exit(f"{engine}: expected an answer, found that its process ended; its error is above")

    def take_turn() -> Turn:
        connection.send(1)
        wall, cpu = receive()
        return wall, cpu

    state, answer, version = receive()
    if state == "missing":
        raise EngineMissingError(answer)
    try:
        yield Running(answer, version, take_turn)
    finally:
        with suppress(OSError):
            connection.send(0)
        connection.close()


def missing_ctranslate2(python: str) -> str:
    """Why an interpreter cannot run CTranslate2; empty if it can."""
    try:
        found = subprocess.run([python, "-c", "import ctranslate2.specs"], capture_output=True, text=True, check=False)
    except OSError as error:
        return str(error)
    return (found.stderr.strip().splitlines() or ["no output"])[-1] if found.returncode else ""


def interleave(takers: Mapping[str, Callable[[], Turn]], rounds: int, *, pause: float = 0.0) -> dict[str, list[Turn]]:
    """Let each engine take a turn in every round, ``pause`` seconds apart; each round begins with another engine."""
    turns: dict[str, list[Turn]] = {label: [] for label in takers}
    order = list(takers)
    for number in range(rounds):
        first = number % len(order)
        for label in order[first:] + order[:first]:
            time.sleep(pause)
            turns[label].append(takers[label]())
    return turns
