"""The ledger: one row per stage, measured on the file that the stage wrote, read back and rebuilt."""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from lite_nlp.compress.lnlp.container import read_container, write_container
from lite_nlp.compress.lnlp.encodings import EncodedTensor
from lite_nlp.compress.metric import Metric
from lite_nlp.compress.stages import model_tensors

__all__ = ["Ledger", "StageRow", "Task"]


@dataclass(frozen=True, kw_only=True)
class Task:
    """What compression must be told about a model, since it knows none.

    Attributes:
        name: The model's name.
        files: The small files that belong in a file of this model (config, tokenizer, metrics).
        load: Rebuild the model from a container and nothing else, in evaluation mode.
        metric: What the largest loss is held against.
        score: Quality of a model for the ledger, by metric; that of ``metric`` is among them.
        evaluate: Loss of a model on validation text, lower is better; called hundreds of times.
        count_macs: Mult-Adds of a model.
    """

    name: str
    files: Callable[[nn.Module], Mapping[str, bytes]]
    load: Callable[[Path], nn.Module]
    metric: Metric
    score: Callable[[nn.Module], Mapping[str, float]]
    evaluate: Callable[[nn.Module], float]
    count_macs: Callable[[nn.Module], int]


@dataclass(frozen=True, kw_only=True)
class StageRow:
    """One stage, as measured.

    Attributes:
        stage: Name of the stage.
        file: Name of its file, relative to the output directory.
        size_bytes: Size of that file, embedded files and all.
        ratio: Size of the original's file divided by this one.
        sparsity: Fraction of zeros among the weights in the file.
        bits_per_weight: Bits of the tensors (codebooks and tables included, embedded files not) per weight of the
            original model.
        macs: Mult-Adds of the model in the file.
        scores: By metric, of the model rebuilt from the file.
        seconds: Time to make and write the file, without scoring it.
    """

    stage: str
    file: str
    size_bytes: int
    ratio: float
    sparsity: float
    bits_per_weight: float
    macs: int
    scores: dict[str, float]
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """The row as a JSON object."""
        return asdict(self)


class Ledger:
    """Writes the files of the stages and keeps the rows.

    Args:
        out: Directory of the files; it exists.
        task: What to embed, how to load and score.
        original: The uncompressed model; its weights are what bits are counted for.
    """

    def __init__(self, *, out: Path, task: Task, original: nn.Module) -> None:
        self._out = out
        self._task = task
        self._num_weights = model_tensors(original).num_weights
        self._started = time.perf_counter()
        self.rows: list[StageRow] = []

    def start_stage(self) -> None:
        """Begin to count the seconds of the next stage; the end of a stage does so by itself."""
        self._started = time.perf_counter()

    def add(self, stage: str, file: str, model: nn.Module, tensors: Mapping[str, EncodedTensor]) -> StageRow:
        """Write a stage's file, read it back, and add the row measured on what was read.

        Args:
            stage: Name of the stage.
            file: Name of the file to write.
            model: The model whose tied names and embedded files go in.
            tensors: Its tensors, encoded.

        Raises:
            OutputError: If the system refuses the write.
        """
        path = self._out / file
        size_bytes = write_container(
            path,
            tensors=tensors,
            aliases=model_tensors(model).aliases,
            files=self._task.files(model),
            metadata=self.metadata(stage),
        )
        seconds = time.perf_counter() - self._started
        container = read_container(path)
        state = container.state_dict()
        elements = sum(tensor.num_elements for tensor in container.tensors.values())
        zeros = sum(state[name].size - int(np.count_nonzero(state[name])) for name in container.tensors)
        loaded = self._task.load(path)
        row = StageRow(
            stage=stage,
            file=file,
            size_bytes=size_bytes,
            ratio=round((self.rows[0].size_bytes if self.rows else size_bytes) / size_bytes, 3),
            sparsity=round(zeros / elements, 4),
            bits_per_weight=round(
                8 * sum(len(tensor.payload) for tensor in container.tensors.values()) / self._num_weights, 3
            ),
            macs=self._task.count_macs(loaded),
            scores=dict(self._task.score(loaded)),
            seconds=round(seconds, 2),
        )
        self.rows.append(row)
        self.start_stage()
        return row

    def metadata(self, stage: str) -> dict[str, Any]:
        """What the file of a stage says about itself and the stages before it."""
        return {
            "kind": "model",
            "name": self._task.name,
            "stage": stage,
            "stages": [row.as_dict() for row in self.rows],
        }

    def forget_after(self, count: int) -> None:
        """Drop the rows, and the files, after the first ``count``: they are about to be made again."""
        for row in self.rows[count:]:
            (self._out / row.file).unlink(missing_ok=True)
        del self.rows[count:]
