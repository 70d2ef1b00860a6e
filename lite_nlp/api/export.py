"""Export of a MODEL to a bundle, behind ``lite-nlp export``."""

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

from lite_nlp.api.compression_subject import guide_compression
from lite_nlp.api.int8_quality import DEFAULT_MAX_LOSS, QualityGate, QualityLoss
from lite_nlp.artifacts.bundle_export import write_model_bundle
from lite_nlp.artifacts.classes import SENTENCES
from lite_nlp.artifacts.input_length import cut_bound
from lite_nlp.artifacts.models import LoadedModel, Source, load_model, resolve_source
from lite_nlp.core.bounds import MAX_COUNT, MAX_STEPS, MAX_THREADS, MAX_TOKENS, check_range, plain_integer
from lite_nlp.core.errors import UsageError
from lite_nlp.core.extras import needs_extra
from lite_nlp.core.files import atomic_file
from lite_nlp.core.outputs import check_output_file
from lite_nlp.core.progress import Progress
from lite_nlp.core.suggestions import expected_one_of
from lite_nlp.export.runtime.layout import Precision

if TYPE_CHECKING:
    from lite_nlp.budget.gate.enforcement import BudgetGate
    from lite_nlp.compress.compressed import CompressedModel
    from lite_nlp.export.runtime.executorch_methods import MethodCalls
    from lite_nlp.export.runtime.manifest import Manifest

__all__ = ["MIN_BOUND", "ExportedModel", "export_model"]

#: The least tokens that a bundle may be bounded to: models are traced with sizes up to that.
MIN_BOUND: Final = 8


@dataclass(frozen=True, kw_only=True)
class ExportedModel:
    """A bundle that was written.

    Attributes:
        path: The ``.zip`` file.
        size_bytes: Its size.
        manifest: Its table of contents.
        plan: The form of each matrix where the precision is mixed, as ``metrics.json`` has it; empty else.
        compressed: The compression by which it reached its target; None if there was none. Its files are gone.
        quality: What integer weights cost; None in fp32, which costs nothing.
        doubts: About the lengths that it takes, and the text that it was measured on.
    """

    path: Path
    size_bytes: int
    manifest: "Manifest"
    plan: tuple[Mapping[str, Any], ...] = ()
    compressed: "CompressedModel | None" = None
    quality: QualityLoss | None = None
    doubts: tuple[str, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """What compression lost, and what to try; what is doubtful about the bundle and what it was measured on."""
        return self.doubts if self.compressed is None else (*self.doubts, *self.compressed.warnings)

    @property
    def made_bytes(self) -> dict[str, int]:
        """Sizes of the files that are made from a compact bundle, by name; empty for a plain one."""
        packed = self.manifest.packed
        return {} if packed is None else {name: member.size_bytes for name, member in packed.members.items()}

    @property
    def calls(self) -> "dict[str, MethodCalls]":
        """What each method of the ExecuTorch program calls in every run; empty for a bundle without one."""
        from lite_nlp.export.runtime.executorch import ExecuTorchEntry
        from lite_nlp.export.runtime.programs import ExecuTorchPrograms

        entry = self.manifest.entries.get("executorch")
        return entry.calls if isinstance(entry, ExecuTorchEntry | ExecuTorchPrograms) else {}

    def as_dict(self) -> dict[str, Any]:
        """The bundle's files and proof, as JSON takes them."""
        manifest = self.manifest
        return {
            "file": str(self.path),
            "size_bytes": self.size_bytes,
            "precision": manifest.precision,
            "files": [{"name": name, "size_bytes": entry.size_bytes} for name, entry in manifest.files.items()],
            "made": [{"name": name, "size_bytes": size} for name, size in self.made_bytes.items()],
            "bounds": manifest.bounds.model_dump(),
            "parity": manifest.parity,
            "plan": list(self.plan),
            "quality": None if self.quality is None else self.quality.as_dict(),
            "compression": None if self.compressed is None else self.compressed.as_dict(),
            "warnings": list(self.warnings),
        }


@needs_extra("export", "export")
def export_model(
    model: str | Path | LoadedModel | None = None,
    *,
    out: str | Path,
    precision: Precision = "fp32",
    compact: bool = False,
    portable: bool = False,
    max_src_tokens: int | None = None,
    max_tgt_tokens: int | None = None,
    target_bytes: int | None = None,
    data: str | Path | None = None,
    max_loss: float | None = None,
    finetune: bool = True,
    finetune_steps: int | None = None,
    threads: int | None = None,
    gate: "BudgetGate | None" = None,
    force: bool = False,
    progress: Progress | None = None,
) -> ExportedModel:
    """Export a model to a bundle: graphs, tokenizer, config and manifest in one file.

    The bundle has graphs for every runtime, of a recurrent model for ONNX Runtime alone. In fp32 it is written only if
    each runtime gives the model's own tokens, or labels and probabilities, for test sentences.

    Args:
        model: A MODEL (path or shipped name) or a loaded model; None is the default shipped model.
        out: The ``.zip`` file to write.
        precision: Of the weights. ``int8`` and ``mixed`` are refused if they lose more than ``max_loss``. ``mixed``
            gives each matrix fp32, 8 or 4 bits, by measured loss and time.
        compact: Whether to store the weights once for all runtimes, as compressed as in the model's file.
        portable: Whether the ONNX graphs have operators of the ONNX standard alone: for older versions of ONNX Runtime,
            and for other programs.
        max_src_tokens: Longest source or sentence, end mark included, or longest text that a language model scores at
            once; at least 8, lowered to the model's positions. None is 256, or what a model reads that cuts its input
            off, if that is more.
        max_tgt_tokens: Longest output, end mark included, or most tokens that a language model reads and writes;
            likewise. None is 512, or all that a language model has positions for. A classifier writes nothing, and
            takes no such bound.
        target_bytes: Largest size of a compact bundle, for which the model is compressed as far as it takes;
            ``finetune`` and ``finetune_steps`` are for that alone.
        data: Data directory to score and finetune on, or to score integer weights on; None is the package's own
            sentences.
        max_loss: Largest loss of ``int8`` and ``mixed``, in the unit of the task's metric; None is 0.3.
        finetune: Whether to finetune.
        finetune_steps: Finetuning steps after pruning; None chooses by the amount of data.
        threads: Threads of torch; None is ``OMP_NUM_THREADS``, or else one, and a short measurement chooses them while
            compressing.
        gate: The limits of the model and the bundle; None sets no limits.
        force: Whether an existing file may be overwritten.
        progress: Receives each stage as it begins.

    Returns:
        The bundle that was written: ``path``, ``size_bytes``, ``manifest``, and ``warnings``.

    Raises:
        UsageError: If ``out`` does not end in ``.zip``, or options exclude each other, mean nothing for the model, or
            are out of range.
        TargetSizeError: If no bundle is as small as ``target_bytes``.
        RuntimeUnavailableError: If a package that exporting needs is missing.
        ModelError: If the model is missing, damaged, cannot be exported, or loses more than ``max_loss``.
        DataError: If a classifier does not record the names of its labels.
        BundleError: If a runtime's graphs do other work than the model, or give other results.
        OverBudgetError: If the model or the bundle is over a limit of the gate; no file is left behind.
        OutputError: If ``out`` exists and ``force`` is false, or the system refuses the write.
    """
    path = Path(out)
    if path.suffix != ".zip":
        raise UsageError(f"--out: expected a name that ends in .zip, found {path}")
    for option, number, least, most in (
        ("--max-src-tokens", max_src_tokens, MIN_BOUND, MAX_TOKENS),
        ("--max-tgt-tokens", max_tgt_tokens, MIN_BOUND, MAX_TOKENS),
        ("--target-size", target_bytes, 1, MAX_COUNT),
        ("--finetune-steps", finetune_steps, 1, MAX_STEPS),
        ("--threads", threads, 1, MAX_THREADS),
    ):
        check_range(option, number, least, most)
    max_src_tokens, max_tgt_tokens = plain_integer(max_src_tokens), plain_integer(max_tgt_tokens)
    _check_precision(precision, target_bytes=target_bytes, portable=portable, max_loss=max_loss)
    _check_target(target_bytes, compact=compact, finetune=finetune, finetune_steps=finetune_steps)
    if data is not None and target_bytes is None and precision == "fp32":
        raise UsageError("--data: expected --target-size, or --precision int8 or mixed, with it, which need a text")
    check_output_file(path, force=force)
    source = None if isinstance(model, LoadedModel) else resolve_source(model)
    loaded = load_model(model if isinstance(model, LoadedModel) else source)
    if max_tgt_tokens is not None and loaded.config.model.architecture in SENTENCES:
        raise UsageError(
            f"--max-tgt-tokens: expected none with a classifier, which writes nothing, found {max_tgt_tokens}"
        )
    named = loaded.name if model is None or isinstance(model, LoadedModel) else str(model)
    if gate is not None:
        gate.check_model(loaded.config.model, target=named)

    doubts = _shortened(loaded, max_src_tokens)
    quality = None
    if precision != "fp32":
        quality = QualityGate(
            loaded,
            None if data is None else Path(data),
            precision=precision,
            max_loss=DEFAULT_MAX_LOSS if max_loss is None else max_loss,
            progress=progress,
        )
    measured: list[QualityLoss] = []

    def accept(bundle: Path) -> None:
        if quality is not None:
            measured.append(quality.measure(bundle))
        if gate is not None:
            size_bytes = bundle.stat().st_size
            gate.check_size(loaded.config.model, target=named, size_bytes=size_bytes, bundle=True)

    def write(path: Path, loaded: LoadedModel, source: Source | None, *, final: bool = False) -> "Manifest":
        with _few_threads(threads):
            return write_model_bundle(
                path,
                loaded,
                source=source,
                max_src_tokens=max_src_tokens,
                max_tgt_tokens=max_tgt_tokens,
                compact=compact,
                portable=portable,
                precision=precision,
                calibration=quality.calibration if quality is not None and precision == "mixed" else (),
                force=force or not final,
                progress=progress,
                accept=accept if final else lambda bundle: None,
            )

    if target_bytes is None:
        manifest = write(path, loaded, source, final=True)
        return ExportedModel(
            path=path,
            size_bytes=path.stat().st_size,
            manifest=manifest,
            plan=_read_plan(path) if precision == "mixed" else (),
            quality=measured[0] if measured else None,
            doubts=doubts if quality is None else (*doubts, *quality.warnings),
        )
    from lite_nlp.api.sized_export import bundle_of_size

    # The first bundle, which takes a minute, tells whether the model must be compressed.
    guide_compression(loaded, None if data is None else Path(data))
    options = {"data": data, "finetune": finetune, "finetune_steps": finetune_steps, "threads": threads}
    with bundle_of_size(loaded, source, target_bytes=target_bytes, write=write, progress=progress, **options) as made:
        accept(made.path)
        with atomic_file(path, force=force) as partial:
            shutil.copyfile(made.path, partial)
    size_bytes = path.stat().st_size
    return ExportedModel(
        path=path, size_bytes=size_bytes, manifest=made.manifest, compressed=made.compressed, doubts=doubts
    )


def _shortened(loaded: LoadedModel, max_src_tokens: int | None) -> tuple[str, ...]:
    """A warning if the bundle is to read less of an input than the model."""
    read = cut_bound(loaded.config)
    if max_src_tokens is None or max_src_tokens >= read:
        return ()
    return (
        f"--max-src-tokens: the bundle reads the first {max_src_tokens - 1} tokens of a text, and the model the first "
        f"{read - 1}: for longer texts their outputs differ",
    )


@contextmanager
def _few_threads(threads: int | None) -> Iterator[None]:
    """One thread unless the caller or the environment asks for another number.

    Tracing runs small operators one by one, which threads slow.
    """
    import torch

    from lite_nlp.training.threads import fixed_threads, threads_restored

    with threads_restored():
        choice = fixed_threads(threads)
        torch.set_num_threads(1 if choice is None else choice.threads)
        yield


def _read_plan(path: Path) -> tuple[Mapping[str, Any], ...]:
    """The form of each matrix of a mixed bundle."""
    from lite_nlp.export.pipeline import PLAN_KEY
    from lite_nlp.export.runtime import open_stored
    from lite_nlp.export.runtime.manifest import METRICS_FILE

    return tuple(json.loads(open_stored(path).read(METRICS_FILE))[PLAN_KEY])


def _check_precision(precision: str, *, target_bytes: int | None, portable: bool, max_loss: float | None) -> None:
    """Refuse an unknown precision, and options that do not go with one."""
    if precision not in (known := get_args(Precision)):
        raise UsageError(f"--precision: {expected_one_of(known, precision)}")
    if precision == "fp32":
        if max_loss is not None:
            raise UsageError("--max-loss: expected --precision int8 or mixed with it: fp32 loses nothing")
        return
    if portable:
        raise UsageError(f"--precision {precision}: expected no --portable with it, which is for fp32 weights")
    if target_bytes is not None:
        raise UsageError(
            f"--precision {precision}: expected no --target-size with it: compress the model first, and export the "
            "file that it makes, so that each loss is measured by itself"
        )


def _check_target(
    target_bytes: int | None,
    *,
    compact: bool,
    finetune: bool,
    finetune_steps: int | None,
) -> None:
    """Refuse options of a compression that is not asked for."""
    if target_bytes is not None and not compact:
        raise UsageError("--target-size: expected --compact with it: a plain bundle has every weight in fp32")
    given = {"--no-finetune": not finetune, "--finetune-steps": finetune_steps}
    alone = [name for name, value in given.items() if value]
    if not finetune and finetune_steps is not None:
        raise UsageError("--no-finetune and --finetune-steps: expected one of them")
    if target_bytes is None and alone:
        raise UsageError(f"{alone[0]}: expected --target-size with it, for which the model is compressed")
