"""The ledger: one row per stage, measured on the file that the stage wrote after reading it back."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

from lite_nlp.compress.lnlp.container import read_container, write_container
from lite_nlp.compress.lnlp.encodings import EncodedTensor
from lite_nlp.compress.metric import Metric
from lite_nlp.compress.stages import model_tensors, stage_file

__all__ = ["CompressionSubject", "Ledger", "StageRow"]


@dataclass(frozen=True, kw_only=True)
class CompressionSubject:
    """The model to be compressed, as callbacks: how to store, rebuild, score and evaluate it.

    ``lite_nlp.compress.modules.compress_module`` fills this in for any module.

    Attributes:
        name: The name of the model, for the file and for messages.
        files: The small files to embed in a file of this model (config, tokenizer, metrics).
        load: Rebuild the model from a container and nothing else, in evaluation mode.
        metric: The measure of quality that ``CompressionOptions.max_loss`` limits.
        score: Quality of a model for the ledger, by metric; that of ``metric`` is among them.
        evaluate: Loss of a model on validation data, lower is better; called hundreds of times.
        informing: Batches for the importance of the weights.
        information: Their loss: ``lite_nlp.compress.importance.diagonal_fisher`` says which.
        count_macs: Mult-Adds of a model; None if they are not counted.
    """

    name: str
    files: Callable[[nn.Module], Mapping[str, bytes]]
    load: Callable[[Path], nn.Module]
    metric: Metric
    score: Callable[[nn.Module], Mapping[str, float]]
    evaluate: Callable[[nn.Module], float]
    informing: Callable[[], Sequence[Any]]
    information: Callable[[nn.Module, Any], Tensor]
    count_macs: Callable[[nn.Module], int | None]


@dataclass(frozen=True, kw_only=True)
class StageRow:
    """The figures of one stage.

    Attributes:
        stage: Name of the stage.
        file: Name of its file, relative to the output directory.
        size_bytes: Size of that file, embedded files and all.
        ratio: Size of the original's file divided by this one.
        sparsity: Fraction of zeros among the weights in the file.
        bits_per_weight: Bits of the tensors (codebooks and tables included, embedded files not) per weight of the
            original model.
        macs: Mult-Adds of the model in the file; None if they are not counted.
        scores: By metric, of the model rebuilt from the file.
        seconds: Time to make and write the file, without scoring it.
    """

    stage: str
    file: str
    size_bytes: int
    ratio: float
    sparsity: float
    bits_per_weight: float
    macs: int | None
    scores: dict[str, float]
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """The row as a JSON object."""
        return asdict(self)


class Ledger:
    """Writes the files of the stages and keeps the rows.

    Args:
        out: Directory of the files; it exists.
        subject: What to embed, how to load and score.
        original: The uncompressed model; bits per weight refer to its number of weights.
    """

    def __init__(self, *, out: Path, subject: CompressionSubject, original: nn.Module) -> None:
        self._out = out
        self._subject = subject
        self._num_weights = model_tensors(original).num_weights
        self._started = time.perf_counter()
        self.rows: list[StageRow] = []

    def start_stage(self) -> None:
        """Restart the clock of the next stage, which otherwise runs from the end of the last."""
        self._started = time.perf_counter()

    def add(self, stage: str, model: nn.Module, tensors: Mapping[str, EncodedTensor]) -> StageRow:
        """Write the file of a stage, read it back, and add the row measured on what was read.

        Args:
            stage: Name of the stage.
            model: The model whose tied names and embedded files go in.
            tensors: Its tensors, encoded.

        Raises:
            OutputError: If the system refuses the write.
        """
        path = self._out / stage_file(stage)
        size_bytes = write_container(
            path,
            tensors=tensors,
            aliases=model_tensors(model).aliases,
            files=self._subject.files(model),
            metadata=self.metadata(stage),
        )
        seconds = time.perf_counter() - self._started
        container = read_container(path)
        state = container.state_dict()
        elements = sum(tensor.num_elements for tensor in container.tensors.values())
        zeros = sum(state[name].size - int(np.count_nonzero(state[name])) for name in container.tensors)
        loaded = self._subject.load(path)
        row = StageRow(
            stage=stage,
            file=path.name,
            size_bytes=size_bytes,
            ratio=round((self.rows[0].size_bytes if self.rows else size_bytes) / size_bytes, 3),
            sparsity=round(zeros / elements, 4),
            bits_per_weight=round(
                8 * sum(len(tensor.payload) for tensor in container.tensors.values()) / self._num_weights, 3
            ),
            macs=self._subject.count_macs(loaded),
            scores=dict(self._subject.score(loaded)),
            seconds=round(seconds, 2),
        )
        self.rows.append(row)
        self.start_stage()
        return row

    def metadata(self, stage: str, *, expected: int = 0) -> dict[str, Any]:
        """The metadata of the file of a stage: the stage, and the ledger of those before it.

        Args:
            stage: The stage.
            expected: Rows before it, if there are to be more than now: to know the size of the file in advance.
        """
        rows = [*self.rows, *self.rows[-1:] * (expected - len(self.rows))]
        return {
            "kind": "model",
            "name": self._subject.name,
            "stage": stage,
            "stages": [row.as_dict() for row in rows],
        }

    def forget_after(self, count: int) -> list[StageRow]:
        """Remove the rows after the first ``count``, and their files; return them."""
        forgotten = self.rows[count:]
        for row in forgotten:
            (self._out / row.file).unlink(missing_ok=True)
        del self.rows[count:]
        return forgotten
