"""Export of a model to a bundle: trace, convert for every runtime, write, compare, put in place."""

import json
import logging
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
from torch import nn

from lite_nlp.budget.traced.graphs import GraphWork
from lite_nlp.budget.traced.reconciliation import MERGED, MODEL
from lite_nlp.core.errors import BundleError, ModelError
from lite_nlp.core.outputs import check_output_file
from lite_nlp.core.parsing import parsing
from lite_nlp.core.progress import Progress, SilentProgress
from lite_nlp.core.special_tokens import SPECIAL_TOKENS
from lite_nlp.decoding.options import SearchOptions
from lite_nlp.decoding.step_models import BeamModel, GreedyModel, RowsModel, StepModel
from lite_nlp.decoding.torch_model import SteppedModel, TorchStepModel
from lite_nlp.export.bundle_writer import describe_files, write_proven
from lite_nlp.export.collection import rare_collections
from lite_nlp.export.counting.bundle import check_agreement
from lite_nlp.export.counting.torch_programs import count_merged_work, count_model_work
from lite_nlp.export.exporter import RuntimeGraphs
from lite_nlp.export.exporters import EXPORTERS, choose_runtimes, package_versions, product_calls
from lite_nlp.export.matrices import Rounding
from lite_nlp.export.mixed.plan import PlannedMatrix, plan_forms, planned_forms, write_accepted
from lite_nlp.export.mixed.translation import TranslationDivergence
from lite_nlp.export.onnx_graphs import ENTRY
from lite_nlp.export.packing import Packing, pack_members
from lite_nlp.export.parity import BATCH, BeamCalls, Reference, StepByStep, compare_engines, require_parity
from lite_nlp.export.runtime.bundle import Bundle
from lite_nlp.export.runtime.engine import create_engine
from lite_nlp.export.runtime.layout import DEFAULT_BOUNDS, Bounds, Precision
from lite_nlp.export.runtime.manifest import (
    CONFIG_FILE,
    METRICS_FILE,
    TOKENIZER_FILE,
    DecodingDefaults,
    Languages,
    Manifest,
    Vocabulary,
)
from lite_nlp.export.runtime.recipes import Packed
from lite_nlp.export.tracing import TracedModel, trace_model

__all__ = ["PLAN_KEY", "PROOF_STEPS", "STORED", "ModelCard", "Proof", "export_bundle"]

#: Members that a compact bundle stores as they are: they are short.
STORED: Final = (CONFIG_FILE, METRICS_FILE)

#: What ``metrics.json`` calls the forms of a mixed precision's matrices.
PLAN_KEY: Final = "mixed_precision"

#: Limit of the divergence of all matrices of a mixed precision together, in nats per token, in the first plan.
_MOST_DIVERGENCE: Final = 0.01

#: Random sources of the usual proof, and the most decoder steps compared.
_PROOF_SOURCES: Final = 48
PROOF_STEPS: Final = 64

#: Hypotheses of a sentence where steps of beam search are compared, and the last of the sources, with which they are.
_PROOF_BEAM: Final = 3
_PROOF_BEAM_SOURCES: Final = 12


@dataclass(frozen=True, kw_only=True)
class ModelCard:
    """Description of a model in its bundle, beside the graphs.

    Attributes:
        name: Of the model.
        tokenizer_json: Its tokenizer, in the format of Hugging Face ``tokenizers``, with ``<pad>``, ``<s>`` and
            ``</s>`` as ids 0, 1 and 2.
        vocabulary: Sizes of its vocabularies; None if both are the tokenizer's.
        config_toml: Its configuration, with a ``[model]`` section; None for its name alone, which is enough for
            ``create_engine``, but not for the commands.
        languages: None if unknown.
        decoding: None if its configuration has no such section.
        metrics: What training and compression recorded; kept as ``metrics.json`` if there is any.
        budget: Parameters and Mult-Adds.
        scores: Metrics by test set; empty if unknown.
    """

    name: str
    tokenizer_json: bytes
    vocabulary: Vocabulary | None = None
    config_toml: bytes | None = None
    languages: Languages | None = None
    decoding: DecodingDefaults | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict)
    budget: dict[str, Any] = field(default_factory=dict)
    scores: dict[str, dict[str, Any]] = field(default_factory=dict)

    def planned_metrics(self, plan: Sequence[PlannedMatrix]) -> bytes:
        """``metrics.json`` with the plan of a mixed precision; empty where there is neither."""
        planned = {PLAN_KEY: [matrix.to_json() for matrix in plan]} if plan else {}
        content = {**self.metrics, **planned}
        return (json.dumps(content, ensure_ascii=False, indent=2) + "\n").encode("utf-8") if content else b""


@dataclass(frozen=True, kw_only=True)
class Proof:
    """Sentences that an exported model has to translate as the model itself does.

    Attributes:
        reference: The model itself.
        src_rows: Token ids of the sentences, without special ids; at least one.
        options: Search options.
    """

    reference: StepModel
    src_rows: Sequence[Sequence[int]]
    options: SearchOptions = field(default_factory=SearchOptions)


@rare_collections()
def export_bundle(
    path: str | Path,
    *,
    model: nn.Module,
    card: ModelCard,
    search_form: nn.Module | None = None,
    precision: Precision = "fp32",
    calibration: Sequence[Sequence[int]] = (),
    bounds: Bounds = DEFAULT_BOUNDS,
    runtimes: Sequence[str] | None = None,
    proof: Proof | None = None,
    packing: Packing | None = None,
    force: bool = False,
    progress: Progress | None = None,
    accept: Callable[[Path], None] = lambda bundle: None,
) -> Manifest:
    """Export an encoder-decoder; in fp32 the bundle appears only after every runtime gave the model's own tokens.

    Args:
        path: The ``.zip`` file to write.
        model: A module with the methods of :class:`~lite_nlp.decoding.torch_model.SteppedModel`, in evaluation mode,
            on the CPU, in fp32.
        card: What else the bundle holds.
        search_form: The same model with steps written in the operators of :mod:`lite_nlp.export.contrib`, for the graph
            of searches; None where there is no such form, and the searches take the model's own steps.
        precision: Of the weights. In int8 and mixed, tokens may differ from the model's: the manifest says how many do,
            and what that costs is for ``accept`` to measure. In mixed, ``metrics.json`` has the form of each matrix.
        calibration: Token ids of the sources, without special ids, on which a mixed precision measures the loss of each
            matrix; none for those of the proof.
        bounds: Largest sizes that its graphs accept; not beyond the model's own.
        runtimes: Names of the runtimes to export for; None for all that have the precision.
        proof: Sentences to prove the export with; None draws random ones of all lengths.
        packing: What to make a compact bundle with; None for a plain one.
        force: Whether an existing file may be overwritten.
        progress: Receives each stage as it begins.
        accept: Given the finished bundle before it takes its place; whatever it raises keeps the bundle from doing so.

    Returns:
        The manifest of the bundle.

    Raises:
        UsageError: If a runtime is unknown.
        OutputError: If ``path`` exists and ``force`` is false, or the system refuses the write.
        ModelError: If the model cannot be exported, or a configuration has no ``[model]`` section.
        CountError: If the work of the model or of a graph cannot be told.
        BundleError: If a runtime's graphs do other work than the model, or give other tokens, or the tokenizer is not
            the model's.
    """
    path = Path(path)
    progress = progress or SilentProgress()
    check_output_file(path, force=force)
    _check_config(card)
    chosen = choose_runtimes(runtimes, precision, EXPORTERS)
    vocabulary = card.vocabulary or _read_vocabulary(card)
    progress.start("tracing the encoder and the decoder step", None)
    traced = trace_model(model, bounds)
    if traced.tgt_vocab_size != vocabulary.tgt_size:
        raise ModelError(
            f"{card.name}: expected logits over {vocabulary.tgt_size} types, found {traced.tgt_vocab_size}"
        )
    proof = proof or _random_proof(model, vocabulary, bounds)
    progress.start("counting the work of the model", None)
    columns = {MODEL: count_model_work(model, traced.state, bounds)}
    merged = count_merged_work(traced)

    def write(plan: Sequence[PlannedMatrix]) -> Manifest:
        rounding = Rounding(precision=precision, forms=planned_forms(plan))
        graphs = {}
        for runtime in chosen:
            progress.start(EXPORTERS[runtime].task, None)
            exporter = EXPORTERS[runtime]
            graphs[runtime] = exporter.export(traced, search_form or model, rounding, compact=packing is not None)
        work = columns | {runtime: found.work for runtime, found in graphs.items()}
        searches = {f"{name} {kind}": one for name, found in graphs.items() for kind, one in found.search_work.items()}
        check_agreement({**work, **searches}, merged=merged, source=str(path))
        files, packed = _collect_files(card, graphs, plan), None
        if packing is not None:
            progress.start("looking for the weights in the files of the runtimes", None)
            files, packed = pack_members(files, [name for name in files if name not in STORED], packing, rounding)
        manifest = _describe(traced, card, vocabulary, graphs, files, packed, {**work, MERGED: merged}, precision)
        return write_proven(
            path,
            manifest=manifest,
            files=files,
            decode=None if packing is None else packing.decode,
            prove=lambda bundle: _prove(bundle, proof, progress),
            accept=accept,
            force=force,
        )

    plans: Iterable[Sequence[PlannedMatrix]] = [()]
    if precision == "mixed":
        progress.start("converting the model to measure it", None)
        plans = plan_forms(
            TranslationDivergence(traced, calibration or proof.src_rows),
            steps=[ENTRY.decode_step],
            limit=_MOST_DIVERGENCE,
            product_calls=product_calls(chosen),
            parameters={**traced.encode.state_dict, **traced.decode_step.state_dict},
            progress=progress,
        )
    return write_accepted(plans, write)


def _check_config(card: ModelCard) -> None:
    """Say now what whoever opens the bundle would find out.

    Raises:
        ModelError: If the configuration is no TOML, or has no ``[model]`` section.
    """
    if card.config_toml is None:
        logging.getLogger("lite_nlp").warning(
            f"{card.name}: no configuration is given: create_engine runs the bundle, but lite-nlp's commands and "
            "open_translator, which read [model] from it, do not"
        )
        return
    try:
        content = tomllib.loads(card.config_toml.decode("utf-8"))
    except ValueError as error:
        raise ModelError(f"{card.name}: {CONFIG_FILE}: expected TOML, found an error: {error}") from error
    if not isinstance(content.get("model"), dict):
        raise ModelError(
            f"{card.name}: {CONFIG_FILE}: expected a [model] section, which lite-nlp's commands read, found "
            f"{', '.join(content) or 'nothing'}; without a configuration, create_engine still runs the bundle"
        )


def _read_vocabulary(card: ModelCard) -> Vocabulary:
    """Sizes of the tokenizer; opening the bundle checks the rest of it."""
    try:
        size = len(json.loads(card.tokenizer_json)["model"]["vocab"])
    except (ValueError, KeyError, TypeError) as error:
        raise BundleError(
            f"{card.name}: {TOKENIZER_FILE}: expected a tokenizer with a vocabulary, found a damaged one: {error}"
        ) from error
    return Vocabulary(src_size=size, tgt_size=size)


def _collect_files(
    card: ModelCard, graphs: Mapping[str, RuntimeGraphs], plan: Sequence[PlannedMatrix]
) -> dict[str, bytes]:
    config = f"name = {json.dumps(card.name)}\n".encode() if card.config_toml is None else card.config_toml
    files = {TOKENIZER_FILE: card.tokenizer_json, CONFIG_FILE: config}
    if metrics := card.planned_metrics(plan):
        files[METRICS_FILE] = metrics
    for found in graphs.values():
        files.update(found.files)
    return files


def _describe(
    traced: TracedModel,
    card: ModelCard,
    vocabulary: Vocabulary,
    graphs: Mapping[str, RuntimeGraphs],
    files: Mapping[str, bytes],
    packed: Packed | None,
    work: Mapping[str, GraphWork],
    precision: Precision,
) -> Manifest:
    # Whatever a reader would refuse, such as state beyond its limits, is refused here.
    with parsing(f"{card.name}: the bundle", "what the format allows", BundleError):
        return Manifest(
            name=card.name,
            versions=package_versions(EXPORTERS[runtime] for runtime in graphs),
            precision=precision,
            languages=card.languages,
            vocabulary=vocabulary,
            bounds=traced.bounds,
            decoding=card.decoding,
            state=traced.state,
            runtimes={runtime: found.entry for runtime, found in graphs.items()},
            budget=card.budget,
            graphs={name: counted.to_json() for name, counted in work.items()},
            scores=card.scores,
            files=describe_files(files),
            packed=packed,
        )


def _random_proof(model: nn.Module, vocabulary: Vocabulary, bounds: Bounds) -> Proof:
    """Random sources of lengths from one token to the most that the bundle takes."""
    random = np.random.default_rng(0)
    # The end mark takes a place too.
    lengths = np.linspace(1, bounds.source - 1, _PROOF_SOURCES).astype(int)
    first = len(SPECIAL_TOKENS)
    return Proof(
        reference=TorchStepModel(cast(SteppedModel, model)),
        src_rows=[random.integers(first, vocabulary.src_size, length).tolist() for length in lengths],
        options=SearchOptions(max_steps=min(PROOF_STEPS, bounds.capacity)),
    )


def _prove(bundle: Bundle, proof: Proof, progress: Progress) -> dict[str, Any]:
    """Translate from the file just written, in each runtime, and compare with the model."""
    parity = {}
    sources = Reference(proof.reference, proof.src_rows)
    of_beams = Reference(proof.reference, proof.src_rows[-_PROOF_BEAM_SOURCES:])
    for runtime in bundle.manifest.runtimes:
        progress.start(f"comparing {runtime} with the model on {len(proof.src_rows)} sentences", None)
        engine = create_engine(bundle, runtime=runtime, threads=1)
        # Each way to search runs other graphs, and of one sentence perhaps others than of several.
        ways: list[tuple[Reference, StepModel, SearchOptions, int]] = [
            (sources, StepByStep(engine), proof.options, BATCH)
        ]
        if isinstance(engine, GreedyModel):
            greedy = replace(proof.options, beam_size=1)
            ways += [(sources, engine, greedy, batch) for batch in (BATCH, 1)]
        if isinstance(engine, (BeamModel, RowsModel)):
            beams = replace(proof.options, beam_size=_PROOF_BEAM)
            searching = BeamCalls(engine) if isinstance(engine, BeamModel) else engine
            ways.append((of_beams, searching, beams, BATCH))
        reports = [compare_engines(reference, model, options, batch=batch) for reference, model, options, batch in ways]
        if bundle.manifest.precision == "fp32":
            for report in reports:
                require_parity(report, runtime=runtime)
        parity[runtime] = min(reports, key=lambda report: report.agreement).to_json()
    return parity
