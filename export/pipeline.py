"""From a model to a bundle: trace, convert for both runtimes, write, prove, put in place."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from torch import nn

from lite_nlp import __version__
from lite_nlp.budget.traced.graphs import GraphWork
from lite_nlp.budget.traced.reconciliation import MERGED
from lite_nlp.core.errors import ModelError
from lite_nlp.core.files import atomic_file, check_output
from lite_nlp.decoding.search import SearchOptions, StepModel
from lite_nlp.export.bundle_writer import describe_files, write_archive
from lite_nlp.export.counting.bundle import check_agreement
from lite_nlp.export.counting.onnx_walk import count_onnx_work
from lite_nlp.export.counting.torch_programs import count_merged_work, count_model_work
from lite_nlp.export.executorch_program import export_executorch
from lite_nlp.export.onnx_graphs import NEW_PREFIX, OPSET, OnnxFiles, export_onnx
from lite_nlp.export.packing import Packing, pack_members
from lite_nlp.export.parity import compare_engines, require_parity
from lite_nlp.export.runtime.bundle import Bundle, open_bundle
from lite_nlp.export.runtime.engine import RUNTIMES, create_engine
from lite_nlp.export.runtime.manifest import (
    CONFIG_FILE,
    EXECUTORCH_FILE,
    METRICS_FILE,
    ONNX_DECODE_STEP_FILE,
    ONNX_ENCODE_FILE,
    ONNX_WEIGHTS_FILE,
    TOKENIZER_FILE,
    Bounds,
    DecodingDefaults,
    ExecuTorchEntry,
    Languages,
    Manifest,
    OnnxEntry,
    Vocabulary,
)
from lite_nlp.export.runtime.recipes import Packed
from lite_nlp.export.tracing import TracedModel, trace_model

__all__ = ["ModelCard", "Proof", "export_bundle"]

#: Members that a compact bundle stores as they are: they are short.
_STORED: Final = (CONFIG_FILE, METRICS_FILE)

#: Packages whose version decides whether a runtime can read the files.
_PACKAGES: Final = ("torch", "executorch", "onnx", "onnxruntime")


@dataclass(frozen=True, kw_only=True)
class ModelCard:
    """What a bundle says about its model beside the graphs.

    Attributes:
        name: Of the model.
        config_toml: Its configuration.
        tokenizer_json: Its tokenizer.
        vocabulary: Sizes of its vocabularies.
        languages: None if unknown.
        decoding: None if its configuration has no such section.
        metrics: What training and compression recorded; kept as ``metrics.json`` if there is any.
        budget: Parameters and Mult-Adds.
        scores: Metrics by test set; empty if unknown.
    """

    name: str
    config_toml: bytes
    tokenizer_json: bytes
    vocabulary: Vocabulary
    languages: Languages | None = None
    decoding: DecodingDefaults | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict)
    budget: dict[str, Any] = field(default_factory=dict)
    scores: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Proof:
    """With what an export is proven.

    Attributes:
        reference: The model itself.
        src_rows: Token ids of sentences to translate, without special ids; at least one.
        options: How to search.
    """

    reference: StepModel
    src_rows: Sequence[Sequence[int]]
    options: SearchOptions = field(default_factory=SearchOptions)


def export_bundle(
    path: Path,
    *,
    model: nn.Module,
    card: ModelCard,
    bounds: Bounds,
    proof: Proof,
    packing: Packing | None = None,
    force: bool = False,
    report: Callable[[str], None] = lambda message: None,
    accept: Callable[[Path], None] = lambda bundle: None,
) -> Manifest:
    """Export a model; the bundle appears only after both runtimes gave the model's own tokens from it.

    Args:
        path: The ``.zip`` file to write.
        model: An ``export.tracing.SteppedModel`` in evaluation mode, on the CPU, in fp32.
        card: What else the bundle holds.
        bounds: Largest sizes that its graphs accept; not beyond the model's own.
        proof: Sentences to prove it with.
        packing: What to make a compact bundle with; None for a plain one.
        force: Whether an existing file may be overwritten.
        report: Told of each stage as it begins.
        accept: Given the finished bundle before it takes its place; whatever it raises keeps the bundle from doing so.

    Returns:
        The manifest of the bundle.

    Raises:
        OutputError: If ``path`` exists and ``force`` is false, or the system refuses the write.
        ModelError: If the model cannot be exported.
        CountError: If the work of the model or of a graph cannot be told.
        BundleError: If a runtime's graphs do other work than the model, or give other tokens.
    """
    check_output(path, force=force)
    report("tracing the encoder and the decoder step")
    traced = trace_model(model, bounds)
    if traced.tgt_vocab_size != card.vocabulary.tgt_size:
        raise ModelError(
            f"{card.name}: expected logits over {card.vocabulary.tgt_size} types, found {traced.tgt_vocab_size}"
        )
    report("converting to ONNX")
    onnx_files = export_onnx(traced)
    report("lowering to ExecuTorch with XNNPACK")
    program = export_executorch(traced)
    report("counting the work of the graphs")
    columns = {
        "torch": count_model_work(model, traced.state, bounds),
        "onnx": count_onnx_work(encode=onnx_files.encode, decode_step=onnx_files.decode_step, bounds=bounds),
        "executorch": program.work,
    }
    merged = count_merged_work(traced)
    check_agreement(columns, merged=merged, source=str(path))
    files = _collect_files(card, onnx_files, program.content)
    packed = None
    if packing is not None:
        report("looking for the weights in both runtimes' files")
        files, packed = pack_members(files, [name for name in files if name not in _STORED], packing)
    manifest = _describe(traced, card, files, packed, {**columns, MERGED: merged})
    decode = None if packing is None else packing.decode
    with atomic_file(path) as partial:
        write_archive(partial, manifest=manifest, files=files)
        bundle = open_bundle(partial, decode=decode)
        manifest = manifest.model_copy(update={"parity": _prove(bundle, proof, report)})
        write_archive(partial, manifest=manifest, files=files)
        open_bundle(partial, decode=decode)
        accept(partial)
    return manifest


def _collect_files(card: ModelCard, onnx_files: OnnxFiles, program: bytes) -> dict[str, bytes]:
    recorded = {METRICS_FILE: (json.dumps(card.metrics, indent=2) + "\n").encode("utf-8")} if card.metrics else {}
    return {
        TOKENIZER_FILE: card.tokenizer_json,
        CONFIG_FILE: card.config_toml,
        **recorded,
        ONNX_ENCODE_FILE: onnx_files.encode,
        ONNX_DECODE_STEP_FILE: onnx_files.decode_step,
        ONNX_WEIGHTS_FILE: onnx_files.weights,
        EXECUTORCH_FILE: program,
    }


def _describe(
    traced: TracedModel,
    card: ModelCard,
    files: dict[str, bytes],
    packed: Packed | None,
    graphs: dict[str, GraphWork],
) -> Manifest:
    versions = {package: version(package) for package in _PACKAGES}
    return Manifest(
        name=card.name,
        versions={"lite_nlp": __version__, **versions, "opset": str(OPSET)},
        precision="fp32",
        languages=card.languages,
        vocabulary=card.vocabulary,
        bounds=traced.bounds,
        decoding=card.decoding,
        state=traced.state,
        onnx=OnnxEntry(
            encode=ONNX_ENCODE_FILE,
            decode_step=ONNX_DECODE_STEP_FILE,
            weights=ONNX_WEIGHTS_FILE,
            new_prefix=NEW_PREFIX,
        ),
        executorch=ExecuTorchEntry(program=EXECUTORCH_FILE),
        budget=card.budget,
        graphs={name: work.to_json() for name, work in graphs.items()},
        scores=card.scores,
        files=describe_files(files),
        packed=packed,
    )


def _prove(bundle: Bundle, proof: Proof, report: Callable[[str], None]) -> dict[str, Any]:
    """Translate from the file just written, in each runtime, and compare with the model."""
    parity = {}
    for runtime in RUNTIMES:
        report(f"comparing {runtime} with the model on {len(proof.src_rows)} sentences")
        engine = create_engine(bundle, runtime=runtime, threads=1)
        found = compare_engines(proof.reference, engine, proof.src_rows, proof.options)
        require_parity(found, runtime=runtime)
        parity[runtime] = found.to_json()
    return parity
