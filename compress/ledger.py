"""The ledger: one row per stage, measured on the file that the stage wrote after reading it back."""

import hashlib
import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from lite_nlp.budget.reporting.plan import PlanRecord
from lite_nlp.compress.lnlp.composition import bytes_by_kind, tensor_parts
from lite_nlp.compress.lnlp.container import Container, container_bytes, read_container, write_container
from lite_nlp.compress.lnlp.encodings import EncodedTensor
from lite_nlp.compress.metric import Metric
from lite_nlp.compress.significance import Change, Scored, changes_between
from lite_nlp.compress.stages import dense_model, model_tensors, stage_file
from lite_nlp.core.errors import UndefinedScoreError

__all__ = [
    "CompressionSubject",
    "Ledger",
    "ReferenceModel",
    "StageRow",
    "TensorRow",
    "reference_model",
]

#: Fields of a row that the files of later stages embed; the others would cost bytes there, and are in ``ledger.json``.
#: The time is not among them: with it no two compressions would write the same file.
_EMBEDDED = ("stage", "file", "size_bytes", "ratio", "sparsity", "bits_per_weight", "macs", "scores")


@dataclass(frozen=True, kw_only=True)
class ReferenceModel:
    """Another model, to which the stages are compared.

    Attributes:
        name: Its name.
        size_bytes: Size of its file with every weight as fp32.
        macs: Its Mult-Adds; None if they are not counted.
        scored: Its scores on the same examples.
    """

    name: str
    size_bytes: int
    macs: int | None
    scored: Scored

    def as_dict(self) -> dict[str, Any]:
        """The figures as a JSON object."""
        return {
            "model": self.name,
            "size_bytes": self.size_bytes,
            "macs": self.macs,
            "scores": dict(self.scored.scores),
            "intervals": {name: list(ends) for name, ends in self.scored.intervals().items()},
        }


def reference_model(
    model: nn.Module, *, name: str, files: Mapping[str, bytes], macs: int | None, scored: Scored
) -> ReferenceModel:
    """A model to compare with, its size that of a file with every weight as fp32.

    Args:
        model: The model.
        name: Its name.
        files: The small files that such a file embeds.
        macs: Its Mult-Adds; None if they are not counted.
        scored: Its scores on the same examples.

    Raises:
        UndefinedScoreError: If one of them is no number.
    """
    _require_finite(scored, name)
    tensors = model_tensors(model)
    content = container_bytes(
        tensors=dense_model(tensors.tensors),
        aliases=tensors.aliases,
        files=files,
        metadata={"kind": "model", "name": name},
    )
    return ReferenceModel(name=name, size_bytes=len(content), macs=macs, scored=scored)


@dataclass(frozen=True, kw_only=True)
class CompressionSubject:
    """The model to be compressed, as callbacks: how to store, rebuild, score and evaluate it.

    ``lite_nlp.compress.modules.compress_module`` fills this in for any module.

    Attributes:
        name: The name of the model, for the file and for messages.
        files: The small files to embed in a file of this model (config, tokenizer, metrics).
        load: Rebuild the model from a container and nothing else, in evaluation mode.
        metric: The measure of quality that ``CompressionOptions.max_loss`` limits.
        score: Quality of a model for the ledger, by metric; that of ``metric`` is among them. A ``Scored`` adds what
            intervals and paired tests need, and outputs.
        evaluate: Loss of a model on validation data, lower is better; called hundreds of times. Finite for the model
            itself; infinite where the weights are so coarse that there is none.
        informing: Batches for the importance of the weights.
        information: Their loss: ``lite_nlp.compress.importance.diagonal_fisher`` says which.
        count_macs: Mult-Adds of a model; None if they are not counted.
        estimate_ms: The least time of an output on the phone that is built for, in milliseconds; None without one.
        reference: Another model to compare with.
        stored: The tensors of the file that the model comes from, if it has been quantized before: they are kept where
            compression would not make them smaller.
    """

    name: str
    files: Callable[[nn.Module], Mapping[str, bytes]]
    load: Callable[[Path], nn.Module]
    metric: Metric
    score: Callable[[nn.Module], Mapping[str, float] | Scored]
    evaluate: Callable[[nn.Module], float]
    informing: Callable[[], Sequence[Any]]
    information: Callable[[nn.Module, Any], Tensor]
    count_macs: Callable[[nn.Module], int | None]
    estimate_ms: Callable[[nn.Module], float | None] = lambda model: None
    reference: ReferenceModel | None = None
    stored: Mapping[str, EncodedTensor] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, kw_only=True)
class TensorRow:
    """The figures of one tensor of a file.

    Attributes:
        name: Its name.
        shape: Its dimensions.
        encoding: How it is stored.
        size_bytes: Bytes of its payload.
        bytes_by_kind: The same by kind (``lite_nlp.compress.lnlp.composition.KINDS``).
        num_weights: Number of weights; 1 for a scalar.
        zeros: How many of them are zero.
    """

    name: str
    shape: tuple[int, ...]
    encoding: str
    size_bytes: int
    bytes_by_kind: dict[str, int]
    num_weights: int
    zeros: int

    def as_dict(self) -> dict[str, Any]:
        """The figures as a JSON object, with sparsity and bits per weight."""
        weights = max(1, self.num_weights)
        return {
            "name": self.name,
            "shape": list(self.shape),
            "encoding": self.encoding,
            "weights": self.num_weights,
            "size_bytes": self.size_bytes,
            "bytes_by_kind": self.bytes_by_kind,
            "sparsity": round(self.zeros / weights, 4),
            "bits_per_weight": round(8 * self.size_bytes / weights, 3),
        }


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
        estimated_ms: The least time of an output of that model on the phone that is built for, in milliseconds, an
            estimate; None without one.
        scores: By metric, of the model rebuilt from the file.
        seconds: Time to make and write the file, without scoring it.
        bytes_by_kind: The bytes of the file by kind (``lite_nlp.compress.lnlp.composition.KINDS``); their sum is
            ``size_bytes``.
        against_original: Paired tests against the first stage, by metric; empty for that stage, and without statistics
            of single examples.
        reference_ratio: Size of the reference model's fp32 file divided by this one; None without a reference.
        against_reference: Paired tests against the reference model, by metric.
        scored: What the model was scored by, its outputs among them; not part of the JSON.
        tensors: The tensors of the file, in order; not part of the JSON.
        plan: Why its matrices are stored as they are; None before they are quantized. Not part of the JSON.
    """

    stage: str
    file: str
    size_bytes: int
    ratio: float
    sparsity: float
    bits_per_weight: float
    macs: int | None
    estimated_ms: float | None
    scores: dict[str, float]
    seconds: float
    bytes_by_kind: dict[str, int]
    against_original: dict[str, Change] = field(default_factory=dict)
    reference_ratio: float | None = None
    against_reference: dict[str, Change] = field(default_factory=dict)
    scored: Scored = field(repr=False, compare=False)
    tensors: tuple[TensorRow, ...] = field(repr=False)
    plan: PlanRecord | None = field(default=None, repr=False, compare=False)

    def as_dict(self) -> dict[str, Any]:
        """The row as a JSON object."""
        found = self.embedded() | {
            "estimated_ms": self.estimated_ms,
            "seconds": self.seconds,
            "intervals": {name: list(ends) for name, ends in self.scored.intervals().items()},
            "against_original": {name: change.as_dict() for name, change in self.against_original.items()},
            "bytes_by_kind": self.bytes_by_kind,
        }
        if self.reference_ratio is None:
            return found
        return found | {
            "reference_ratio": self.reference_ratio,
            "against_reference": {name: change.as_dict() for name, change in self.against_reference.items()},
        }

    def embedded(self) -> dict[str, Any]:
        """The figures that the files of later stages embed, as a JSON object."""
        return {name: getattr(self, name) for name in _EMBEDDED}


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
        self._last: tuple[str, Scored] | None = None
        self.rows: list[StageRow] = []

    def start_stage(self) -> None:
        """Restart the clock of the next stage, which otherwise runs from the end of the last."""
        self._started = time.perf_counter()

    def add(
        self, stage: str, model: nn.Module, tensors: Mapping[str, EncodedTensor], *, plan: PlanRecord | None = None
    ) -> StageRow:
        """Write the file of a stage, read it back, and add the row measured on what was read.

        Args:
            stage: Name of the stage.
            model: The model whose tied names and embedded files go in.
            tensors: Its tensors, encoded.
            plan: Why they are encoded so.

        Raises:
            UndefinedScoreError: If a score of the file is not finite; there is no file then.
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
        rows = _tensor_rows(container, state)
        loaded = self._subject.load(path)
        try:
            scored = self._score(loaded, _fingerprint(container, state))
        except UndefinedScoreError:
            path.unlink()
            raise
        reference = self._subject.reference
        row = StageRow(
            stage=stage,
            file=path.name,
            size_bytes=size_bytes,
            ratio=round((self.rows[0].size_bytes if self.rows else size_bytes) / size_bytes, 3),
            sparsity=round(sum(row.zeros for row in rows) / sum(row.num_weights for row in rows), 4),
            bits_per_weight=round(8 * sum(row.size_bytes for row in rows) / self._num_weights, 3),
            macs=self._subject.count_macs(loaded),
            estimated_ms=self._subject.estimate_ms(loaded),
            scores=dict(scored.scores),
            seconds=round(seconds, 2),
            bytes_by_kind=bytes_by_kind(container, size_bytes=size_bytes),
            against_original=changes_between(self.rows[0].scored, scored) if self.rows else {},
            reference_ratio=None if reference is None else round(reference.size_bytes / size_bytes, 3),
            against_reference={} if reference is None else changes_between(reference.scored, scored),
            scored=scored,
            tensors=rows,
            plan=plan,
        )
        self.rows.append(row)
        self.start_stage()
        return row

    def metadata(self, stage: str, *, expected: Sequence[str] = ()) -> dict[str, Any]:
        """The metadata of the file of a stage: the stage, and the ledger of those before it.

        Args:
            stage: The stage.
            expected: Stages before it, to know the size of the file in advance: those that are not there yet have rows
                that take about as many bytes as theirs will, or a little more.
        """
        present = {row.stage for row in self.rows}
        missing = [name for name in expected if name not in present]
        return {
            "kind": "model",
            "name": self._subject.name,
            "stage": stage,
            "stages": [*(row.embedded() for row in self.rows), *map(self._foreseen, missing)],
        }

    def _foreseen(self, stage: str) -> dict[str, Any]:
        """A row of random figures with as many digits as measured ones: copies of other rows would be deflated."""
        draw = random.Random(stage).random
        first = self.rows[0]
        figures = {
            "size_bytes": int(draw() * first.size_bytes),
            "ratio": round(10 * draw(), 3),
            "sparsity": round(draw(), 4),
            "bits_per_weight": round(10 * draw(), 3),
            "scores": {name: 100 * draw() for name in first.scores},
        }
        return first.embedded() | {"stage": stage, "file": stage_file(stage)} | figures

    def forget_after(self, count: int) -> list[StageRow]:
        """Remove the rows after the first ``count``, and their files; return them."""
        forgotten = self.rows[count:]
        for row in forgotten:
            (self._out / row.file).unlink(missing_ok=True)
        del self.rows[count:]
        return forgotten

    def _score(self, loaded: nn.Module, fingerprint: str) -> Scored:
        """The scores of a model, which are those of the file before it if both hold the same weights.

        Raises:
            UndefinedScoreError: If one is not finite.
        """
        if self._last is None or self._last[0] != fingerprint:
            scored = Scored.of(self._subject.score(loaded))
            _require_finite(scored, self._subject.name)
            self._last = fingerprint, scored
        return self._last[1]


def _require_finite(scored: Scored, name: str) -> None:
    for metric, value in scored.scores.items():
        if not math.isfinite(value):
            raise UndefinedScoreError(f"{name}: expected a finite {metric}, found {value}")


def _tensor_rows(container: Container, state: Mapping[str, NDArray[Any]]) -> tuple[TensorRow, ...]:
    return tuple(
        TensorRow(
            name=name,
            shape=tensor.shape,
            encoding=tensor.encoding,
            size_bytes=len(tensor.payload),
            bytes_by_kind=tensor_parts(tensor),
            num_weights=tensor.num_elements,
            zeros=tensor.num_elements - int(np.count_nonzero(state[name])),
        )
        for name, tensor in container.tensors.items()
    )


def _fingerprint(container: Container, state: Mapping[str, NDArray[Any]]) -> str:
    """A digest of everything that a model is rebuilt from: weights and embedded files."""
    digest = hashlib.sha256(repr((container.files, container.aliases)).encode())
    for name in container.tensors:
        digest.update(repr((name, state[name].shape, state[name].dtype)).encode())
        digest.update(np.ascontiguousarray(state[name]).data)
    return digest.hexdigest()
