"""Export of a language model or classifier to a bundle: trace, convert, count, write, compare, put in place."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
from torch import nn

from lite_nlp.budget.traced.reconciliation import MERGED, MODEL
from lite_nlp.core.errors import BundleError
from lite_nlp.core.outputs import check_output_file
from lite_nlp.core.parsing import parsing
from lite_nlp.core.progress import Progress, SilentProgress
from lite_nlp.core.special_tokens import SPECIAL_TOKENS
from lite_nlp.decoding.torch_model import SteppedText, TorchClassifier, TorchTextModel
from lite_nlp.export.bundle_writer import describe_files, write_proven
from lite_nlp.export.collection import rare_collections
from lite_nlp.export.counting.bundle import check_agreement
from lite_nlp.export.counting.task_graphs import count_modules, count_programs
from lite_nlp.export.executorch_program import has_loops
from lite_nlp.export.exporters import EXPORTERS, choose_runtimes, package_versions, product_calls
from lite_nlp.export.matrices import Rounding
from lite_nlp.export.mixed.plan import PlannedMatrix, plan_forms, planned_forms, write_accepted
from lite_nlp.export.packing import Packing, pack_members
from lite_nlp.export.pipeline import STORED, ModelCard
from lite_nlp.export.runtime.bundle import Bundle
from lite_nlp.export.runtime.layout import Bounds, Layout, Precision
from lite_nlp.export.runtime.manifest import CONFIG_FILE, METRICS_FILE, TOKENIZER_FILE, Manifest, Vocabulary
from lite_nlp.export.runtime.programs import READING, Classes, Programs, Task, program_signatures
from lite_nlp.export.runtime.task_engines import create_classifier_engine, create_text_engine
from lite_nlp.export.searches.in_place_step import trace_read_in_place, trace_text_rows_in_place
from lite_nlp.export.task_tracing import describe_text_state, task_graphs, trace_task_graph
from lite_nlp.export.tasks.divergence import ClassDivergence, TextDivergence
from lite_nlp.export.tasks.executorch import export_task_executorch
from lite_nlp.export.tasks.files import TaskExport, TaskFiles, TracedTask
from lite_nlp.export.tasks.onnx import export_task_onnx
from lite_nlp.export.tasks.parity import TaskParity, compare_classifiers, compare_language_models

__all__ = ["TaskModel", "export_task_bundle"]

#: By the name of the runtime.
_EXPORTS: Final[Mapping[str, TaskExport]] = {"onnx": export_task_onnx, "executorch": export_task_executorch}

#: Limit of the divergence of all matrices of a mixed precision together, in nats per token or example, in the first
#: plan. In so many nats a perplexity of 100 rises by 0.2.
_MOST_DIVERGENCE: Final[Mapping[Task, float]] = {"language-modelling": 0.002, "classification": 0.01}

#: Random texts of the proof, of all lengths, and the most tokens of a continuation.
_PROOF_ROWS: Final = 24
_PROOF_TOKENS: Final = 32


@dataclass(frozen=True, kw_only=True)
class TaskModel:
    """A language model or a classifier.

    Attributes:
        module: In evaluation mode, on the CPU, in fp32: a :class:`~lite_nlp.decoding.torch_model.SteppedText` that also
            gives the logits (B, T, V) of a text (B, T); or a module that gives logits (B, C) for tokens and mask, both
            (B, T), of each sentence.
        task: What it does.
        vocab_size: Types of its vocabulary.
        classes: Of a classifier.
        proof: Token ids of sentences, without special ids, that are compared beside random ones.
        step_form: Of a language model, the same in a form that runtimes read fastest: its caches, which have the
            tokens in their third dimension, are changed by :func:`~lite_nlp.export.contrib.attend_in_slots` alone,
            wherever that has an operator. None if there is none.
    """

    module: nn.Module
    task: Task
    vocab_size: int
    classes: Classes | None = None
    proof: Sequence[Sequence[int]] = ()
    step_form: nn.Module | None = None


@rare_collections()
def export_task_bundle(
    path: Path,
    *,
    model: TaskModel,
    card: ModelCard,
    bounds: Bounds,
    precision: Precision = "fp32",
    calibration: Sequence[Sequence[Sequence[int]]] = (),
    runtimes: Sequence[str] | None = None,
    packing: Packing | None = None,
    portable: bool = False,
    force: bool = False,
    progress: Progress | None = None,
    accept: Callable[[Path], None] = lambda bundle: None,
) -> Manifest:
    """Export a model; in fp32 the bundle appears only after every runtime gave the model's results from the file.

    These are, for a language model, the tokens of greedy continuations and the log-probabilities of whole texts, and
    for a classifier the labels and log-probabilities: see :mod:`lite_nlp.export.tasks.parity`.

    Args:
        path: The ``.zip`` file to write.
        model: The model.
        card: What else the bundle holds; its configuration among it.
        bounds: Largest sizes that its graphs accept, not beyond the model's own: ``source`` is the longest sentence of
            a classifier, end mark included, or the longest text that a language model scores at once; ``capacity`` the
            most steps of a language model, or the longest second sentence.
        precision: Of the weights. In int8 and mixed, results may differ from the model's: the manifest says how far,
            and what that costs is for ``accept`` to measure. In mixed, ``metrics.json`` has the form of each matrix.
        calibration: Of each sentence of an example, or of texts, token ids without special ids, on which a mixed
            precision measures the loss of each matrix; none for those of the proof.
        runtimes: Names of the runtimes to export for; None for all that can run the model. ExecuTorch cannot run
            recurrent layers, which is logged.
        packing: What to make a compact bundle with; None for a plain one.
        portable: Whether the ONNX graphs have operators of the ONNX standard alone.
        force: Whether an existing file may be overwritten.
        progress: Receives each stage as it begins.
        accept: Given the finished bundle before it takes its place; whatever it raises keeps the bundle from doing so.

    Returns:
        The manifest of the bundle.

    Raises:
        UsageError: If a runtime is unknown.
        OutputError: If ``path`` exists and ``force`` is false, or the system refuses the write.
        ModelError: If the model cannot be exported.
        CountError: If the work of the model or of a graph cannot be told.
        BundleError: If the graphs do other work than the model, or give other results.
    """
    progress = progress or SilentProgress()
    check_output_file(path, force=force)
    chosen = choose_runtimes(runtimes, precision, {name: EXPORTERS[name] for name in _EXPORTS})
    state = describe_text_state(model.module) if model.task == "language-modelling" else ()
    signatures = program_signatures(model.task, Layout(state, bounds, model.vocab_size), model.classes)
    graphs = task_graphs(model.module, signatures, state)
    progress.start(f"tracing {', '.join(graphs)}", None)
    programs = {name: trace_task_graph(name, graph, bounds) for name, graph in graphs.items()}
    if runtimes is None and has_loops(programs.values()):
        chosen.remove("executorch")
        logging.getLogger("lite_nlp").warning(
            f"{card.name}: the bundle has graphs for ONNX Runtime alone: ExecuTorch cannot run recurrent layers"
        )
    traced = TracedTask(programs=programs, signatures=signatures, bounds=bounds)
    if model.step_form is not None:
        if "onnx" in chosen and not portable:
            read = task_graphs(model.step_form, {"read": signatures["read"]}, state)["read"]
            traced = replace(traced, read=trace_task_graph("read", read, bounds, least=1))
        if "executorch" in chosen:
            traced = replace(traced, read_in_place=trace_read_in_place(model.step_form, state, bounds))
            # Of a compact bundle as of a translator's: an app has one text at a time.
            if packing is None and bounds.executorch_batch > 1:
                rows = trace_text_rows_in_place(model.step_form, state, bounds)
                traced = replace(traced, rows_in_place=rows)
    progress.start("counting the work of the model", None)
    columns = {MODEL: count_modules(graphs, bounds)}
    merged = count_programs(programs, graphs, bounds)

    def write(plan: Sequence[PlannedMatrix]) -> Manifest:
        rounding = Rounding(precision=precision, forms=planned_forms(plan))
        found = {}
        for runtime in chosen:
            progress.start(EXPORTERS[runtime].task, None)
            found[runtime] = _EXPORTS[runtime](traced, rounding)
        work = columns | {runtime: made.work for runtime, made in found.items()}
        rows = {f"{runtime} rows": made.rows_work for runtime, made in found.items() if made.rows_work is not None}
        check_agreement({**work, **rows}, merged=merged, source=str(path))
        files, packed = _collect_files(card, found.values(), plan), None
        if packing is not None:
            progress.start("looking for the weights in the files of the runtimes", None)
            files, packed = pack_members(files, [name for name in files if name not in STORED], packing, rounding)
        # Whatever a reader would refuse, such as state beyond its limits, is refused here.
        with parsing(f"{card.name}: the bundle", "what the format allows", BundleError):
            manifest = Manifest(
                task=model.task,
                name=card.name,
                versions=package_versions(EXPORTERS[runtime] for runtime in chosen),
                precision=precision,
                languages=card.languages,
                vocabulary=Vocabulary(src_size=model.vocab_size, tgt_size=model.vocab_size),
                bounds=bounds,
                state=state,
                classes=model.classes,
                programs=Programs.model_validate({runtime: made.entry for runtime, made in found.items()}),
                budget=card.budget,
                graphs={name: each.to_json() for name, each in {**work, MERGED: merged}.items()},
                scores=card.scores,
                files=describe_files(files),
                packed=packed,
            )
        return write_proven(
            path,
            manifest=manifest,
            files=files,
            decode=None if packing is None else packing.decode,
            prove=lambda bundle: {
                runtime: _prove(bundle, runtime, model, bounds, progress).to_json() for runtime in chosen
            },
            accept=accept,
            force=force,
        )

    plans: Iterable[Sequence[PlannedMatrix]] = [()]
    if precision == "mixed":
        progress.start("converting the model to measure it", None)
        sides = calibration or _proof_sides(model, bounds)
        texts = model.task == "language-modelling"
        plans = plan_forms(
            TextDivergence(traced, state, sides[0]) if texts else ClassDivergence(traced, sides),
            steps=READING,
            limit=_MOST_DIVERGENCE[model.task],
            product_calls=product_calls(chosen),
            parameters={name: value for program in programs.values() for name, value in program.state_dict.items()},
            progress=progress,
        )
    return write_accepted(plans, write)


def _collect_files(card: ModelCard, found: Iterable[TaskFiles], plan: Sequence[PlannedMatrix]) -> dict[str, bytes]:
    files = {TOKENIZER_FILE: card.tokenizer_json, CONFIG_FILE: card.config_toml or b""}
    if metrics := card.planned_metrics(plan):
        files[METRICS_FILE] = metrics
    for made in found:
        files |= made.files
    return files


def _proof_sides(model: TaskModel, bounds: Bounds) -> list[list[list[int]]]:
    """Texts that are compared: of a language model, or of each sentence of an example."""
    random = np.random.default_rng(0)
    longest = _longest_text(model, bounds)

    def rows() -> list[list[int]]:
        # The end mark takes a place too.
        lengths = np.linspace(0, longest - 1, _PROOF_ROWS).astype(int)
        drawn = [random.integers(len(SPECIAL_TOKENS), model.vocab_size, length).tolist() for length in lengths]
        return [*(list(row[: longest - 1]) for row in model.proof), *drawn]

    # The second sentences in another order, so that short ones meet long ones.
    sides = [rows(), rows()[::-1]]
    return sides[: 1 if model.classes is None else model.classes.sentences]


def _longest_text(model: TaskModel, bounds: Bounds) -> int:
    return min(bounds.source, bounds.capacity) if model.task == "language-modelling" else bounds.source


def _prove(bundle: Bundle, runtime: str, model: TaskModel, bounds: Bounds, progress: Progress) -> TaskParity:
    """Run the file just written in a runtime and compare with the model."""
    options: dict[str, Any] = {"runtime": runtime, "threads": 1}
    sides = _proof_sides(model, bounds)
    progress.start(f"comparing {runtime} with the model on {len(sides[0])} texts", None)
    if model.task == "language-modelling":
        parity = compare_language_models(
            TorchTextModel(cast(SteppedText, model.module)),
            create_text_engine(bundle, **options),
            sides[0],
            max_tokens=_PROOF_TOKENS,
            max_positions=_longest_text(model, bounds),
        )
    else:
        engine = create_classifier_engine(bundle, **options)
        parity = compare_classifiers(TorchClassifier(model.module), engine, sides)
    if bundle.manifest.precision == "fp32":
        parity.require(runtime=runtime)
    return parity
