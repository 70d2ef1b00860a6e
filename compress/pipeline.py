"""All stages in order: each writes a file, and every figure comes from that file read back."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from torch import Tensor, nn

from lite_nlp.compress.finetune import FinetuneOptions, finetune_pruned, finetune_shared
from lite_nlp.compress.ledger import Ledger, StageRow, Task
from lite_nlp.compress.lnlp.encodings import ClusteredTensor
from lite_nlp.compress.planning import Plan, plan_for_size
from lite_nlp.compress.prune.allocation import SensitivityCurve, allocate_sparsity
from lite_nlp.compress.prune.magnitude import (
    apply_masks,
    largest_sparsity,
    magnitude_masks,
    prunable_parameters,
    weights_restored,
)
from lite_nlp.compress.prune.sensitivity import DEFAULT_SPARSITIES, scan_sensitivity
from lite_nlp.compress.stages import (
    cluster_parameters,
    clustered_model,
    dense_model,
    entropy_coded_model,
    model_tensors,
    pruned_model,
    recode_clusters,
    set_clusters,
)
from lite_nlp.core.errors import ModelError
from lite_nlp.core.progress import Progress, SilentProgress

__all__ = ["FINAL_FILE", "CompressionOptions", "Finetuning", "compress_model"]

#: The file of the last stage, the one to keep.
FINAL_FILE: Final = "model.lnlp"
#: Factors by which sparsity is backed off while too much quality is lost.
_BACKOFF: Final = (0.7, 0.4, 0.0)
#: How much sparsity is added when fine-tuning has pushed a file over its target, and how often.
_TARGET_STEP, _TARGET_TRIES = 0.01, 4


@dataclass(frozen=True, kw_only=True)
class Finetuning:
    """What fine-tuning needs.

    Attributes:
        batches: Makes an endless iterator of batches.
        loss: Scalar loss of a model on a batch.
        pruned: Options for the pruned weights.
        shared: Options for the shared centroids.
    """

    batches: Callable[[], Iterator[Any]]
    loss: Callable[[nn.Module, Any], Tensor]
    pruned: FinetuneOptions
    shared: FinetuneOptions


@dataclass(frozen=True, kw_only=True)
class CompressionOptions:
    """How far to go.

    Attributes:
        tolerance: Largest increase of the loss by pruning, before fine-tuning, where no target is given.
        num_centroids: Size of each codebook where no target is given; 256 is 8-bit k-means.
        target_bytes: Largest size of the final file.
        target_ratio: Smallest ratio of the original's file to the final one.
        max_loss: Largest loss, in the unit of the task's metric, from the original's file to the final one.
        sparsities: What the sensitivity scan tries on each matrix.
    """

    tolerance: float = 0.05
    num_centroids: int = 256
    target_bytes: int | None = None
    target_ratio: float | None = None
    max_loss: float | None = None
    sparsities: tuple[float, ...] = DEFAULT_SPARSITIES


def compress_model(
    model: nn.Module,
    *,
    out: Path,
    task: Task,
    options: CompressionOptions,
    shrink: Callable[[nn.Module], nn.Module] | None = None,
    finetuning: Finetuning | None = None,
    progress: Progress | None = None,
) -> list[StageRow]:
    """Compress a model stage by stage.

    Args:
        model: In evaluation mode. Its weights are as before afterwards, unless ``shrink`` or fine-tuning what is
            left of it changed them; what counts are the files.
        out: An existing directory for the files; the last one is ``model.lnlp``.
        task: How to embed, load, score and evaluate.
        options: How far to go.
        shrink: Structured pruning: returns the smaller model.
        finetuning: Fine-tune what remains after pruning and after clustering.
        progress: Where to say what is going on.

    Returns:
        The ledger.

    Raises:
        ModelError: If there is nothing to prune, or a target or the largest loss cannot be met.
        OutputError: If a file cannot be written.
    """
    run = _Run(model, out, task, options, finetuning, progress or SilentProgress())
    first = run.ledger.add("original", "original.lnlp", model, dense_model(model_tensors(model).tensors))
    if options.target_ratio is not None:
        wanted = int(first.size_bytes / options.target_ratio)
        run.options = replace(options, target_bytes=min(wanted, options.target_bytes or wanted))
    if shrink is not None:
        run.shrink(shrink)
    curves = run.scan()
    plan = run.plan(curves)
    return run.compress_within_limits(curves, plan)


class _Run:
    """One compression under way."""

    def __init__(
        self,
        model: nn.Module,
        out: Path,
        task: Task,
        options: CompressionOptions,
        finetuning: Finetuning | None,
        progress: Progress,
    ) -> None:
        self.model = model
        self.task = task
        self.options = options
        self.finetuning = finetuning
        self.progress = progress
        self.parameters = prunable_parameters(model)
        self.ledger = Ledger(out=out, task=task, original=model)

    def shrink(self, shrink: Callable[[nn.Module], nn.Module]) -> None:
        """Structured pruning, fine-tuned if wanted."""
        self.model = shrink(self.model)
        self.parameters = prunable_parameters(self.model)
        self._finetune_pruned({})
        self.ledger.add("structured", "structured.lnlp", self.model, dense_model(model_tensors(self.model).tensors))

    def scan(self) -> dict[str, SensitivityCurve]:
        """The sensitivity of every matrix."""
        self.progress.start("sensitivity scan", len(self.parameters) * len(self.options.sparsities))
        return scan_sensitivity(
            self.model,
            self.task.evaluate,
            parameters=self.parameters,
            sparsities=self.options.sparsities,
            on_evaluation=self.progress.advance,
        )

    def plan(self, curves: Mapping[str, SensitivityCurve]) -> Plan:
        """How far to compress: to the target, or as far as the tolerance allows."""
        if self.options.target_bytes is not None:
            self.progress.start(f"looking for {self.options.target_bytes:,} bytes", None)
            return plan_for_size(
                self.model,
                task=self.task,
                ledger=self.ledger,
                parameters=self.parameters,
                curves=curves,
                target_bytes=self.options.target_bytes,
                on_trial=self.progress.advance,
            )
        self.progress.start("looking for the largest sparsity", 6)
        sparsity = largest_sparsity(
            self.model,
            self.task.evaluate,
            parameters=self.parameters,
            curves=curves,
            tolerance=self.options.tolerance,
            on_evaluation=self.progress.advance,
        )
        return Plan(sparsity, self.options.num_centroids)

    def compress_within_limits(self, curves: Mapping[str, SensitivityCurve], plan: Plan) -> list[StageRow]:
        """Compress as planned; adjust the sparsity and try again while the size or the quality is out of bounds."""
        target, max_loss = self.options.target_bytes, self.options.max_loss
        done = len(self.ledger.rows)
        backoff = iter(_BACKOFF)
        tries, sparsity = 0, plan.sparsity
        while True:
            self.ledger.forget_after(done)
            # Every attempt starts from the unpruned weights.
            with weights_restored(dict(self.model.named_parameters())):
                last = self._compress(allocate_sparsity(curves, sparsity), plan.num_centroids)
            if target is not None and last.size_bytes > target:
                tries += 1
                if tries > _TARGET_TRIES:
                    raise ModelError(
                        f"{self.task.name}: cannot be compressed to {target:,} bytes; the smallest file reached has "
                        f"{last.size_bytes:,} bytes"
                    )
                sparsity = min(0.95, sparsity + _TARGET_STEP * tries)
                continue
            lost = self.task.metric.lost(self.ledger.rows[0].scores, last.scores)
            if max_loss is None or lost <= max_loss:
                return self.ledger.rows
            factor = next(backoff, None)
            if target is not None or factor is None:
                within = "" if target is None else f" within {target:,} bytes"
                unit = self.task.metric.unit
                raise ModelError(
                    f"{self.task.name}: cannot be compressed{within} with a loss of at most {max_loss} {unit}; "
                    f"the smallest loss reached is {lost:.2f} {unit} at {last.size_bytes:,} bytes"
                )
            sparsity = plan.sparsity * factor

    def _compress(self, sparsities: Mapping[str, float], num_centroids: int) -> StageRow:
        masks = magnitude_masks(self.parameters, sparsities)
        apply_masks(self.parameters, masks)
        self.ledger.add("pruned", "pruned.lnlp", self.model, pruned_model(model_tensors(self.model).tensors))
        if self._finetune_pruned(masks):
            self.ledger.add("finetuned", "finetuned.lnlp", self.model, pruned_model(model_tensors(self.model).tensors))
        self.progress.start("k-means", None)
        clusters = self._finetune_shared(cluster_parameters(self.parameters, num_centroids))
        set_clusters(self.parameters, clusters)
        tensors = model_tensors(self.model).tensors
        self.ledger.add("kmeans", "kmeans.lnlp", self.model, clustered_model(tensors, clusters))
        return self.ledger.add("entropy-coded", FINAL_FILE, self.model, entropy_coded_model(tensors, clusters))

    def _finetune_pruned(self, masks: Mapping[str, Tensor]) -> bool:
        """Fine-tune, and go back to where it began if that did harm; whether fine-tuning is wanted at all."""
        if self.finetuning is None:
            return False
        options = self.finetuning.pruned
        before = _Snapshot(self.model, self.task.evaluate)
        self.progress.start("fine-tuning the remaining weights", options.steps)
        finetune_pruned(
            self.model,
            self.finetuning.batches(),
            self.finetuning.loss,
            masks=masks,
            options=options,
            on_step=lambda _: self.progress.advance(),
        )
        before.restore_if_better()
        return True

    def _finetune_shared(self, clusters: dict[str, ClusteredTensor]) -> dict[str, ClusteredTensor]:
        """The clusters with fine-tuned centroids, or as they were if that did harm."""
        if self.finetuning is None:
            return clusters
        options = self.finetuning.shared
        set_clusters(self.parameters, clusters)
        before = _Snapshot(self.model, self.task.evaluate)
        self.progress.start("fine-tuning the shared centroids", options.steps)
        tuned = finetune_shared(
            self.model,
            self.finetuning.batches(),
            self.finetuning.loss,
            clusters=clusters,
            options=options,
            on_step=lambda _: self.progress.advance(),
        )
        tuned = recode_clusters(tuned)
        set_clusters(self.parameters, tuned)
        return clusters if before.restore_if_better() else tuned


class _Snapshot:
    """A model's weights and loss at one moment, to go back to."""

    def __init__(self, model: nn.Module, evaluate: Callable[[nn.Module], float]) -> None:
        self._model = model
        self._evaluate = evaluate
        self._state = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
        self._loss = evaluate(model)

    def restore_if_better(self) -> bool:
        """Go back if the loss was smaller then; whether it was."""
        if self._evaluate(self._model) <= self._loss:
            return False
        self._model.load_state_dict(self._state)
        return True
