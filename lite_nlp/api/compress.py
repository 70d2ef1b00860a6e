"""Compression of a MODEL, scored at its own task, behind ``lite-nlp compress``. Needs torch when it runs."""

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from lite_nlp.api.compression_subject import compression_subject, guide_compression, macs_counter
from lite_nlp.api.compression_work import model_work_key
from lite_nlp.api.smaller_models import with_smaller_models
from lite_nlp.artifacts.models import LoadedModel, load_model, read_config, resolve_source
from lite_nlp.compress.compressed import LEDGER_FILES, CompressedModel, write_ledger
from lite_nlp.core.bounds import MAX_ACCUMULATION, MAX_CYCLES, MAX_STEPS, MAX_THREADS, check_loss, check_range
from lite_nlp.core.errors import TargetSizeError, UsageError
from lite_nlp.core.extras import needs_extra
from lite_nlp.core.files import atomic_directory
from lite_nlp.core.outputs import check_output_directory
from lite_nlp.core.progress import Progress, SilentProgress
from lite_nlp.core.suggestions import expected_one_of
from lite_nlp.tasks.changed_outputs import find_changes
from lite_nlp.tasks.usefulness import CompressionFacts, compression_warnings

if TYPE_CHECKING:
    from torch import nn

    from lite_nlp.budget.gate.enforcement import BudgetGate
    from lite_nlp.compress.ledger import StageRow
    from lite_nlp.compress.prune.structure import Structure
    from lite_nlp.compress.weight_tuner import Finetuning
    from lite_nlp.models.build import Model
    from lite_nlp.tasks.calibration import Guidance
    from lite_nlp.tasks.changed_outputs import ChangedOutputs

__all__ = ["Effort", "compress_model"]

#: Divergence from the original's predictions, in nats per prediction, that the plan may cause without a target size or
#: ratio; tuning recovers a part of it.
_TOLERANCE: Final = 0.015

#: Steps of tuning by effort, for a model of ``_REFERENCE_MACS``; those of more Mult-Adds take fewer and longer ones, so
#: that two cores take about 3, 20 and 180 minutes in all.
_STEPS: Final = {"quick": 150, "normal": 2_000, "thorough": 5_000}
#: Batches of a step by effort. A long tuning is a training at full rate, whose noise, the gradients', is half as large
#: with four: at 18.2x the model of 4.6M weights is then 0.48 BLEU below the original, and 1.03 where each step has one.
_BATCHES: Final = {"quick": 1, "normal": 1, "thorough": 4}
_REFERENCE_MACS: Final = 96_000_000
_FEWEST_STEPS: Final = 20
#: On the package's own sentences, which 150 steps learn by heart: BLEU on other text was 0.5 lower than after 60.
_MOST_STEPS_ON_FEW: Final = 60

#: How long to fine-tune.
Effort = Literal["quick", "normal", "thorough"]


@needs_extra("compress", "train")
def compress_model(
    model: str | Path | LoadedModel | None = None,
    *,
    out: str | Path,
    data: str | Path | None = None,
    target_bytes: int | None = None,
    target_ratio: float | None = None,
    max_loss: float | None = None,
    finetune: bool = True,
    finetune_steps: int | None = None,
    gradient_accumulation: int | None = None,
    cycles: int | None = None,
    effort: Effort | None = None,
    own_outputs: bool = False,
    structured: float | None = None,
    reference: str | Path | LoadedModel | None = None,
    threads: int | None = None,
    gate: "BudgetGate | None" = None,
    force: bool = False,
    progress: Progress | None = None,
    warn: Callable[[str], None] = lambda _: None,
) -> CompressedModel:
    """Compress a model stage by stage; every figure is measured on the file that the stage wrote.

    A model is scored as by ``evaluate_model``: with its task's own metric and its own ``[decoding]`` section.

    Args:
        model: A MODEL (path or shipped name) or a loaded model; None is the default shipped model.
        out: Directory for the files; ``model.lnlp`` is the one to keep.
        data: Data directory to score on (valid) and finetune on (train). Encoder-decoders may use the package's own
            everyday sentences instead.
        target_bytes: Largest size of the final file, in bytes.
        target_ratio: Smallest ratio of the fp32 file to the final one, above 1.
        max_loss: Largest loss, at least 0, in the unit of the metric: points of BLEU or ROUGE, increase in perplexity,
            or percentage points of accuracy.
        finetune: Whether to finetune while pruning and quantization tighten.
        finetune_steps: Finetuning steps, at least 1; None chooses by the effort and the model's Mult-Adds.
        gradient_accumulation: Batches of some 2,048 tokens a side in each finetuning step, 1 to 1,024; None is 4 with
            the effort ``thorough`` and 1 else.
        cycles: How often the learning rate falls during the finetuning, 1 to 100 and at most once a step; None is 1.
        effort: How long to finetune: in all about 3 (quick), 20 (normal) or 180 minutes (thorough) on two cores. None
            is quick, the only one without ``data``.
        own_outputs: Whether to finetune on the model's own translations of the training sources, in place of the data's
            targets: of a well trained model more of them stay what they are.
        structured: Fraction of the Mult-Adds to remove first, above 0 and below 1: whole channels, heads and layers of
            the least loss.
        reference: A MODEL, or a loaded one, of the same task: sizes are also compared with its fp32 file, and scores
            with its own on the same examples.
        threads: Threads of torch, 1 to 512; None chooses them by a short measurement.
        gate: The limits of the model and the final file; None sets no limits.
        force: Overwrite ``out``.
        progress: Receives the progress.
        warn: Receives at once what makes the result doubtful before there is one; it is among the warnings of the
            result too.

    Returns:
        The ledger: a row of figures for each file (``stages``), and the ``path`` of the one to keep.

    Raises:
        UsageError: If an argument is out of range, the model's task needs data and there is none, or its outputs, which
            it is to be finetuned on, are no text.
        TargetSizeError: If a target cannot be met; the message says by how much, what takes the bytes, and which
            smaller dimensions would do.
        ModelError: If there is nothing to compress, or the largest loss or the fraction of Mult-Adds cannot be met.
        OverBudgetError: If the model or the final file is over a limit of the gate; no file is left behind.
        DataError: If the data is damaged or does not fit the model.
        OutputError: If ``out`` exists and ``force`` is false, or the system refuses a write.
    """
    if target_ratio is not None and not 1 < target_ratio < math.inf:
        raise UsageError(f"--target-ratio: expected more than 1, found {target_ratio}")
    check_loss("--max-loss", max_loss)
    if structured is not None and not 0 < structured < 1:
        raise UsageError(f"--structured: expected a fraction between 0 and 1, found {structured}")
    check_range("--finetune-steps", finetune_steps, 1, MAX_STEPS)
    check_range("--gradient-accumulation", gradient_accumulation, 1, MAX_ACCUMULATION)
    check_range("--cycles", cycles, 1, MAX_CYCLES)
    check_range("--threads", threads, 1, MAX_THREADS)
    of_finetuning = {
        "--finetune-steps": finetune_steps,
        "--gradient-accumulation": gradient_accumulation,
        "--cycles": cycles,
        "--own-outputs": own_outputs,
        "--effort": effort,
    }
    for option, value in of_finetuning.items():
        if not finetune and value:
            raise UsageError(f"--no-finetune and {option}: expected one of them")
    if effort is not None and finetune_steps is not None:
        raise UsageError("--effort and --finetune-steps: expected one of them")
    if effort is not None and effort not in _STEPS:
        raise UsageError(f"--effort: {expected_one_of(_STEPS, effort)}")
    if effort not in (None, "quick") and data is None:
        raise UsageError(
            f"--effort {effort}: expected --data with it: the package's sentences are learned by heart sooner"
        )
    out = Path(out)

    from lite_nlp.budget.gate.enforcement import BudgetGate
    from lite_nlp.compress.pipeline import COMPRESSION_FILES, CompressionOptions, run_pipeline
    from lite_nlp.compress.stages import STRUCTURED
    from lite_nlp.compress.work import resumable_work
    from lite_nlp.tasks.calibration import information_loss, inspect_calibration
    from lite_nlp.tasks.shrinking.choice import check_shrinkable, shrink_model
    from lite_nlp.training.arithmetic import fast_arithmetic
    from lite_nlp.training.device import best_device, device_of
    from lite_nlp.training.threads import threads_restored

    owned = (*COMPRESSION_FILES, *LEDGER_FILES)
    check_output_directory(out, force=force, owned=owned)
    progress = progress or SilentProgress()
    loaded = load_model(model)
    if isinstance(model, LoadedModel):
        # The mode and the frozen parameters of the caller's model are for what he does with it.
        loaded = replace(loaded, model=copy.deepcopy(loaded.model).eval().requires_grad_(True))
    else:
        loaded.model.to(best_device())
    device = device_of(loaded.model)
    named = loaded.name if model is None or isinstance(model, LoadedModel) else str(model)
    count_macs, lengths = macs_counter(gate), (gate or BudgetGate()).lengths(loaded.config.model)
    if structured is not None:
        check_shrinkable(loaded, structured, count_macs)
    elif gate is not None:
        gate.check_model(loaded.config.model, target=named)
    guidance = guide_compression(loaded, None if data is None else Path(data))
    say = guidance.own_outputs if own_outputs else None
    if own_outputs and say is None:
        raise UsageError(
            f"--own-outputs: expected a model that writes text of its input, of the architecture 'encoder-decoder', "
            f"found {loaded.config.model.architecture!r}"
        )
    other = None if reference is None else load_model(reference)
    options = CompressionOptions(
        tolerance=_TOLERANCE,
        target_bytes=target_bytes,
        target_ratio=target_ratio,
        max_loss=max_loss,
    )
    steps = finetune_steps or _steps_of(loaded, effort or "quick", few=data is None)
    if cycles is not None and cycles > steps:
        raise UsageError(f"--cycles: expected at most the number of finetuning steps, {steps:,}, found {cycles:,}")
    batches = gradient_accumulation or _BATCHES[effort or "quick"]
    finetuning = _finetuning(loaded, guidance, steps, batches, cycles or 1) if finetune else None
    candidates: list[StageRow] = []
    structure: Structure | None = None
    given = None if data is None else Path(data)
    key = model_work_key(loaded, given, options, finetuning, own_outputs, structured, lengths)
    with (
        resumable_work(Path(out), None if finetuning is None else key, progress) as work,
        threads_restored(),
        fast_arithmetic(device),
        atomic_directory(out, force=force, owned=owned) as directory,
    ):
        _set_threads(loaded, guidance, threads)
        doubts = inspect_calibration(guidance, loaded, given=data is not None, finetuned=finetune)
        for doubt in doubts:
            warn(doubt)
        subject = compression_subject(loaded, guidance, progress, gate, other)
        if finetuning is not None and work is not None and say is not None:
            said = partial(say, steps * batches, work.keep, progress)
            finetuning = replace(finetuning, batches=_when_wanted(said))

        def shrink(_: "nn.Module") -> "Model":
            nonlocal structure
            fraction = structured or 0.0
            # With labels of its own: those that planning draws are then the same where this choice was made before.
            of_units = replace(subject, information=information_loss(guidance.predict))
            smaller, structure = shrink_model(
                loaded, fraction, subject=of_units, count_macs=count_macs, work=work, progress=progress
            )
            if gate is not None:
                gate.check_model(smaller.config, target=named)
            return smaller

        try:
            rows = run_pipeline(
                loaded.model,
                out=directory,
                subject=subject,
                options=options,
                shrink=None if structured is None else shrink,
                finetuning=finetuning,
                work=work,
                progress=progress,
                on_dropped=candidates.append,
            )
        except TargetSizeError as error:
            raise with_smaller_models(error, loaded.config.model) from error
        if gate is not None:
            # Before the directory is put in place, so that a file that is too large is not left behind.
            file = directory / rows[-1].file
            config = read_config(resolve_source(file))
            gate.check_size(config.model, target=named, size_bytes=file.stat().st_size)
        facts = CompressionFacts(
            targeted=target_bytes is not None or target_ratio is not None,
            finetune_steps=None if finetuning is None else steps,
            batches_per_step=batches,
            effort=effort,
            own_data=data is not None,
            structured=None if structured is None else STRUCTURED,
            sparsity=rows[-1].sparsity,
            kept=rows[-1].plan is None,
        )
        compressed = CompressedModel(
            name=loaded.name,
            out=out,
            text=guidance.name,
            metric=guidance.metric,
            stages=tuple(rows),
            structure=structure,
            candidates=tuple(candidates),
            reference=subject.reference,
            changed_outputs=_changed_outputs(guidance, rows),
            warnings=(*doubts, *_warnings(guidance, rows, facts)),
        )
        write_ledger(compressed, directory)
    return compressed


def _set_threads(loaded: LoadedModel, guidance: "Guidance", threads: int | None) -> None:
    """Set torch's threads to the caller's number, or the one that is fastest at the predictions of the scan.

    An accelerator does not depend on their number, and is left with what torch has.
    """
    import torch

    from lite_nlp.training.device import device_of
    from lite_nlp.training.threads import fixed_threads, measure_threads

    def predict() -> float:
        with torch.inference_mode():
            return float(len(guidance.predict(loaded.model, guidance.scan[0])[1]))

    choice = fixed_threads(threads)
    if choice is None and device_of(loaded.model).type == "cpu":
        choice = measure_threads(predict)
    if choice is not None:
        torch.set_num_threads(choice.threads)


def _warnings(guidance: "Guidance", rows: "Sequence[StageRow]", facts: CompressionFacts) -> list[str]:
    """What there is to say against the final file."""
    found = compression_warnings(guidance.metric, [(row.stage, row.scores) for row in rows], facts)
    if not found and guidance.inspect is not None:
        found += guidance.inspect(rows[-1].scored)
    return found


def _changed_outputs(guidance: "Guidance", rows: "Sequence[StageRow]") -> "ChangedOutputs | None":
    """What the last file says of the scored examples beside what the first says; nothing is decoded again."""
    before, after = rows[0].scored.outputs, rows[-1].scored.outputs
    if guidance.texts is None or before is None or after is None:
        return None
    return find_changes(before, after, guidance.texts)


def _finetuning(loaded: LoadedModel, guidance: "Guidance", steps: int, batches: int, cycles: int) -> "Finetuning":
    from lite_nlp.compress.tuning import TuningOptions
    from lite_nlp.compress.weight_tuner import Finetuning
    from lite_nlp.tasks.calibration import distillation_loss, projected_distillation_loss
    from lite_nlp.training.arithmetic import has_bf16_units
    from lite_nlp.training.device import device_of

    original, weight = copy.deepcopy(loaded.model), guidance.label_weight
    # Gradients then differ by 3 %, far less than those of two batches do. On an accelerator, models of this size gain
    # nothing: starting its operations takes longer than they do.
    in_bf16 = device_of(original).type == "cpu" and has_bf16_units()
    precision: Literal["fp32", "bf16"] = "bf16" if in_bf16 else "fp32"
    if guidance.project is None:
        loss = distillation_loss(guidance.predict, original, weight, precision=precision)
    else:
        loss = projected_distillation_loss(guidance.project, original, weight, precision=precision)
    options = TuningOptions(steps=steps, batches_per_step=batches, cycles=cycles)
    return Finetuning(batches=guidance.tuning, loss=loss, options=options)


def _when_wanted(make: Callable[[], Callable[[], Iterator[Any]]]) -> Callable[[], Iterator[Any]]:
    """Batches that are made when the first training begins: a target may be refused, or need none."""
    made = cache(make)
    return lambda: made()()


def _steps_of(loaded: LoadedModel, effort: Effort, *, few: bool) -> int:
    """Steps of finetuning that take about as long as the effort says; not many on few sentences."""
    macs = macs_counter(None)(loaded.config.model)
    steps = max(_FEWEST_STEPS, round(_STEPS[effort] * min(1.0, _REFERENCE_MACS / macs)))
    return min(steps, _MOST_STEPS_ON_FEW) if few else steps
