"""Compression of any ``nn.Module`` by a score of the caller's own, and the way back from the file to the module."""

import copy
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.utils._pytree import tree_leaves

from lite_nlp.budget.traced.counter import count_work
from lite_nlp.compress.callbacks import (
    Score,
    differentiable,
    finetuning_of,
    guiding_batches,
    mean_loss,
    negative,
    no_loss,
    one_score,
    score_module,
    worst_if_undefined,
)
from lite_nlp.compress.compressed import LEDGER_FILES, CompressedModel, write_ledger
from lite_nlp.compress.ledger import CompressionSubject, ReferenceModel, StageRow, reference_model
from lite_nlp.compress.lnlp.container import read_container
from lite_nlp.compress.lnlp.header import is_plain_file_name
from lite_nlp.compress.metric import Metric
from lite_nlp.compress.pipeline import COMPRESSION_FILES, CompressionOptions, run_pipeline
from lite_nlp.compress.prune.resizing import SHAPES_FILE, fit_shapes, former_shapes, read_former_shapes
from lite_nlp.compress.prune.structure import Structure
from lite_nlp.compress.significance import Scored
from lite_nlp.compress.stages import model_tensors
from lite_nlp.compress.tuning import TuningOptions
from lite_nlp.compress.weight_tuner import Finetuning
from lite_nlp.compress.work import resumable_work, work_key
from lite_nlp.core.bounds import MAX_STEPS, check_range
from lite_nlp.core.errors import ModelError, UsageError
from lite_nlp.core.extras import needs_extra
from lite_nlp.core.files import atomic_directory
from lite_nlp.core.outputs import check_output_directory
from lite_nlp.core.progress import Progress, SilentProgress

__all__ = ["compress_module", "load_compressed"]

Batch = TypeVar("Batch")
ModuleT = TypeVar("ModuleT", bound=nn.Module)

#: Largest increase of that loss by pruning where no target is given, as a fraction of its value.
_RELATIVE_TOLERANCE: Final = 0.01
_FINETUNE_STEPS: Final = 200


def compress_module(
    module: nn.Module,
    *,
    out: str | Path,
    score: Callable[[nn.Module], Score],
    metric: str = "score",
    lower_is_better: bool = False,
    batches: Iterable[Batch] | None = None,
    loss: Callable[[nn.Module, Batch], Tensor] | None = None,
    evaluate: Callable[[nn.Module], float] | None = None,
    example_inputs: tuple[Any, ...] | None = None,
    name: str | None = None,
    files: Mapping[str, bytes] | None = None,
    quantizer: str | None = None,
    tolerance: float | None = None,
    target_bytes: int | None = None,
    target_ratio: float | None = None,
    max_loss: float | None = None,
    finetune_steps: int | None = None,
    learning_rate: float = 2e-4,
    gradient_accumulation: int = 1,
    cycles: int = 1,
    structured: float | None = None,
    reference: nn.Module | None = None,
    resume: bool = False,
    force: bool = False,
    progress: Progress | None = None,
) -> list[StageRow]:
    """Compress any module: sensitivity scan, pruning, fine-tuning, quantization, entropy coding.

    Matrices and convolution kernels of at least 512 weights are pruned and quantized, whatever layer they belong to;
    biases and norms are stored with 5 to 8 bits where that is harmless, all else as fp16, whole numbers exactly.

    Args:
        module: Not changed: a copy in evaluation mode is compressed. Frozen parameters are compressed, and fine-tuned,
            like others.
        out: Directory to write: a ``.lnlp`` file for each stage, of which ``model.lnlp`` is the one to keep, and the
            ledger as JSON, page and pictures, as ``lite-nlp compress`` writes them.
        score: Quality of a module, for the ledger and for ``max_loss``. Called without gradients, in evaluation mode.
            It returns a number, or the score of each example, always in the same order: their mean is the score, and
            the ledger then has its interval and a paired test against the original.
        metric: Name of that score.
        lower_is_better: Whether a smaller score is better, as for perplexity.
        batches: Training batches, such as a ``DataLoader`` or a list; gone through again and again.
        loss: Scalar loss of a module on a batch. With ``batches`` it guides pruning and is what fine-tuning minimizes.
        evaluate: What guides pruning instead, lower is better; by default the mean loss on the first 8 batches or,
            without a loss, the score. It is called a few times for each matrix. What is not finite counts as the
            worst, but for the module itself.
        example_inputs: Arguments of one forward call; Mult-Adds are counted for these.
        name: Name of the model in the file and in messages; by default that of its class.
        files: Small files to embed, by plain file name; ``shapes.json`` is taken.
        quantizer: A name of ``lite_nlp.compress.quantizers``; None compares them.
        tolerance: Largest increase of ``evaluate`` by pruning where no target is given; by default 1 % of its value
            or, where that is 0, ``max_loss`` if it is given.
        target_bytes: Largest size of the final file.
        target_ratio: Smallest ratio of the fp32 file to the final one.
        max_loss: Largest loss of quality from the fp32 file to the final one, in the unit of the score.
        finetune_steps: Steps of fine-tuning while quantization tightens, and half as many while pruning does; 0 for
            none. By default 200 where there is a loss.
        learning_rate: Adam's highest learning rate for what is not quantized, such as biases.
        gradient_accumulation: Batches whose mean loss each step of fine-tuning goes down.
        cycles: How often the learning rate falls over the fine-tuning, each time over as many of its steps.
        structured: Fraction of the Mult-Adds to remove first, with whole channels: of Linear layers, convolutions,
            tables and LSTMs, where fewer of them compute what all compute with the others at zero. Needs
            ``example_inputs``, for which the module is followed.
        reference: Another module, which the score is computed of too: the ledger compares each file with its size as
            fp32, its Mult-Adds and its score.
        resume: Whether to go on from an interrupted call with the same module and options. Fine-tuning keeps its state
            every half minute in ``OUT.partial``, beside ``out``, until it is done. Of the functions and batches nobody
            sees whether they are the same: without ``resume`` the call begins anew.
        force: Whether ``out`` may be overwritten.
        progress: Receiver of progress reports.

    Returns:
        The ledger: one row for each stage, measured on the stage's file after reading it back into a copy of the
        module.

    Raises:
        UsageError: If arguments contradict each other or are out of range.
        ModelError: If there is nothing to compress, the module cannot be copied, the score of the module or of a file
            is not finite, or a target or the largest loss cannot be met.
        CountError: If the Mult-Adds cannot be counted.
        OutputError: If ``out`` exists already or cannot be written; nothing is left behind then.
    """
    out = Path(out)
    owned = (*COMPRESSION_FILES, *LEDGER_FILES)
    check_output_directory(out, force=force, owned=owned)
    check_range("finetune_steps", finetune_steps, 0, MAX_STEPS)
    check_range("gradient_accumulation", gradient_accumulation, 1, MAX_STEPS)
    check_range("cycles", cycles, 1, MAX_STEPS)
    if structured is not None:
        if not (isinstance(structured, int | float) and 0 < structured < 1):
            raise UsageError(f"structured: expected a fraction above 0 and below 1, found {structured!r}")
        if example_inputs is None:
            raise UsageError("structured: expected example_inputs with it, found none")
    if not 0 < learning_rate < math.inf:
        raise UsageError(f"learning_rate: expected a number above 0, found {learning_rate}")
    options = CompressionOptions(
        quantizer=quantizer,
        tolerance=tolerance or 0.0,
        target_bytes=target_bytes,
        target_ratio=target_ratio,
        max_loss=max_loss,
    )
    for file in files or {}:
        if not is_plain_file_name(file):
            raise UsageError(f"files: expected plain file names, found {file!r}")
    if others := [file for file, content in (files or {}).items() if not isinstance(content, bytes)]:
        raise UsageError(f"files: expected bytes, found others in {', '.join(others)}")
    if SHAPES_FILE in (files or {}):
        raise UsageError(f"files: expected no {SHAPES_FILE}, which says what channels were removed")
    title = name or type(module).__name__
    for option, text in (("name", title), ("metric", metric)):
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raise UsageError(f"{option}: expected Unicode text, found {text!r}") from None
    working = _copied(module, title)
    finetuning: Finetuning | None = None
    guiding: list[Batch] = []
    if loss is not None and batches is not None:
        guiding = guiding_batches(batches)
        guided_by, guide = "loss", one_score(mean_loss(loss, guiding), title, "loss")
        tuning = TuningOptions(
            steps=_FINETUNE_STEPS if finetune_steps is None else finetune_steps,
            free_learning_rate=learning_rate,
            batches_per_step=gradient_accumulation,
            cycles=cycles,
        )
        if cycles > max(1, tuning.steps):
            raise UsageError(f"cycles: expected at most the number of steps, {tuning.steps:,}, found {cycles:,}")
        finetuning = finetuning_of(loss, batches, tuning)
    elif loss is not None or batches is not None:
        raise UsageError("loss and batches: expected both or neither, found one of them")
    elif finetune_steps or gradient_accumulation > 1 or cycles > 1:
        raise UsageError(
            f"finetune_steps = {finetune_steps}, gradient_accumulation = {gradient_accumulation}, cycles = {cycles}: "
            "expected a loss and batches to fine-tune with, found none"
        )
    else:
        judge = one_score(score, title, metric)
        guided_by, guide = metric, judge if lower_is_better else negative(judge)
    if resume and finetuning is None:
        raise UsageError("resume: expected a loss, batches and steps to fine-tune with, since nothing else is kept")
    if evaluate is not None:
        guided_by = "value of evaluate"
        guide = one_score(evaluate, title, guided_by)
    before = guide(working)
    if not math.isfinite(before):
        raise ModelError(f"{title}: expected a finite {guided_by}, found {before}")
    if tolerance is None:
        allowed = _RELATIVE_TOLERANCE * abs(before)
        if not allowed and target_bytes is None and target_ratio is None:
            # Of nothing there is no fraction: the search for the largest loss begins with that loss itself.
            allowed = max_loss or 0.0
        options = replace(options, tolerance=allowed)
    subject = CompressionSubject(
        name=title,
        files=lambda model: {**(files or {}), **_shapes_file(working, model)},
        load=lambda path: _rebuilt(working, path),
        metric=Metric(name=metric, label=metric, unit=f"of {metric}", lower_is_better=lower_is_better),
        score=lambda model: score_module(score, model, title, metric),
        evaluate=worst_if_undefined(guide),
        # Without a loss all weights matter alike, but for what the scan of single matrices measures.
        informing=lambda: guiding,
        information=no_loss if loss is None else differentiable(loss),
        count_macs=lambda model: _count_macs(model, example_inputs),
    )
    if reference is not None:
        subject = replace(subject, reference=_reference(reference, subject))
    key = None
    if finetuning is not None:
        shapes = [value.shape for value in tree_leaves(example_inputs) if isinstance(value, Tensor)]
        told = title, subject.metric, options, finetuning.options, guided_by, structured, shapes
        key = work_key(model_tensors(working).tensors, subject.files(working), *told)
    candidates: list[StageRow] = []
    structure: Structure | None = None
    with (
        resumable_work(out, key, progress or SilentProgress(), anew=not resume) as work,
        atomic_directory(out, force=force, owned=owned) as directory,
    ):

        def shrink(whole: nn.Module) -> nn.Module:
            with needs_extra("structured", "export", whole=False):
                from lite_nlp.compress.prune.channel_choice import remove_channels

            nonlocal structure
            smaller, structure = remove_channels(
                whole,
                structured or 0.0,
                subject=subject,
                example_inputs=example_inputs or (),
                work=work,
                progress=progress or SilentProgress(),
            )
            return smaller

        rows = run_pipeline(
            working,
            out=directory,
            subject=subject,
            options=options,
            shrink=None if structured is None else shrink,
            finetuning=finetuning,
            work=work,
            progress=progress,
            on_dropped=candidates.append,
        )
        compressed = CompressedModel(
            name=title,
            out=out,
            text="",
            metric=subject.metric,
            stages=tuple(rows),
            structure=structure,
            candidates=tuple(candidates),
            reference=subject.reference,
        )
        write_ledger(compressed, directory)
    return rows


def load_compressed(path: str | Path, module: ModuleT) -> ModuleT:
    """Put the weights of a ``.lnlp`` file into a module, in place.

    Args:
        path: A file of any stage.
        module: Of the architecture that was compressed; on any device and in any mode, which stay as they are. Layers
            become as narrow as structured pruning has left them.

    Returns:
        The module.

    Raises:
        ContainerError: If the file is missing or damaged.
        ModelError: If the weights do not fit the module, which is then unchanged.
    """
    if lazy := [name for name, parameter in module.named_parameters() if is_lazy(parameter)]:
        raise ModelError(f"{path}: expected a module whose weights have a shape, found {', '.join(lazy)}: call it once")
    if unreal := [name for name, tensor in module.state_dict().items() if tensor.is_meta]:
        raise ModelError(
            f"{path}: expected a module whose weights are in memory, found {', '.join(unreal)} on the device meta"
        )
    container = read_container(Path(path))
    state = {name: torch.from_numpy(array) for name, array in container.state_dict().items()}
    former = read_former_shapes(container.files.get(SHAPES_FILE, b"{}"), source=str(path))
    expected = module.state_dict()
    narrower = {name for name, shape in former.items() if _is_narrower(state.get(name), expected.get(name), shape)}
    problems = [f"{name} missing" for name in expected if name not in state]
    problems += [f"{name} unknown" for name in state if name not in expected]
    problems += [
        f"{name} of shape {list(state[name].shape)} in place of {list(tensor.shape)}"
        for name, tensor in expected.items()
        if name in state and state[name].shape != tensor.shape and name not in narrower
    ]
    if problems:
        raise ModelError(f"{path}: expected the weights of {type(module).__name__}, found {', '.join(problems)}")
    fit_shapes(module, {name: state[name] for name in narrower})
    try:
        module.load_state_dict(state)
    except RuntimeError as error:
        raise ModelError(f"{path}: expected a module whose weights can be set: {error}") from error
    return module


def _copied(module: nn.Module, title: str) -> nn.Module:
    """A copy in evaluation mode, of which all weights have gradients: those of frozen modules matter and are tuned too.

    Raises:
        ModelError: If it cannot be copied, was never called and has weights without a shape, or has tensors that a
            file cannot hold.
    """
    try:
        copied = copy.deepcopy(module).eval()
    except (RuntimeError, TypeError) as error:
        raise ModelError(f"{title}: expected a module that copy.deepcopy can copy: {error}") from error
    if lazy := [name for name, parameter in copied.named_parameters() if is_lazy(parameter)]:
        raise ModelError(f"{title}: expected weights that have a shape, found {', '.join(lazy)}: call the module once")
    # Refused before it is called.
    model_tensors(copied)
    _tie_alike(copied, module)
    for parameter in copied.parameters():
        parameter.requires_grad_(parameter.is_floating_point())
    for part in copied.modules():
        if isinstance(part, nn.Embedding | nn.EmbeddingBag):
            # Sparse gradients can neither be squared nor be passed on to what tables are computed from.
            part.sparse = False
    return copied


def _tie_alike(copied: nn.Module, module: nn.Module) -> None:
    """Tie those parameters of a copy that are different objects on the same memory: a copy gives each its own."""
    first: dict[tuple[object, ...], str] = {}
    for name, parameter in module.named_parameters():
        place = parameter.data_ptr(), tuple(parameter.shape), parameter.stride(), parameter.dtype
        earlier = first.setdefault(place, name)
        if earlier != name and parameter.numel():
            owner, _, attribute = name.rpartition(".")
            setattr(copied.get_submodule(owner), attribute, copied.get_parameter(earlier))


def _rebuilt(module: nn.Module, path: Path) -> nn.Module:
    return load_compressed(path, copy.deepcopy(module))


def _is_narrower(found: Tensor | None, tensor: Tensor | None, former: tuple[int, ...]) -> bool:
    """Whether a tensor of a file is what structured pruning left of one of this module."""
    if found is None or tensor is None or tensor.shape != former or found.dim() != tensor.dim():
        return False
    return all(size <= before for size, before in zip(found.shape, tensor.shape, strict=True))


def _shapes_file(working: nn.Module, model: nn.Module) -> dict[str, bytes]:
    content = former_shapes(working, model)
    return {} if content is None else {SHAPES_FILE: content}


def _reference(module: nn.Module, subject: CompressionSubject) -> ReferenceModel:
    """The figures of a module to compare with.

    Raises:
        ModelError: If it cannot be copied, or its score is no number.
    """
    name = type(module).__name__
    copied = _copied(module, name)
    scored, macs = Scored.of(subject.score(copied)), subject.count_macs(copied)
    return reference_model(copied, name=name, files={}, macs=macs, scored=scored)


def _count_macs(model: nn.Module, example_inputs: tuple[Any, ...] | None) -> int | None:
    # A copy: a module that keeps a tensor of the call would be left with one that has no numbers.
    return None if example_inputs is None else count_work(copy.deepcopy(model), *example_inputs).macs
