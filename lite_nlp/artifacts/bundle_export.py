"""Export of this project's models by ``lite_nlp.export``, which does not depend on them."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lite_nlp.artifacts.input_length import longest_input, source_bound
from lite_nlp.artifacts.models import LoadedModel, Source, list_shipped
from lite_nlp.core.errors import BundleError
from lite_nlp.core.parsing import parsing
from lite_nlp.core.progress import Progress
from lite_nlp.data.pairs.everyday import read_everyday_sentences
from lite_nlp.export.runtime import open_stored
from lite_nlp.export.runtime.layout import DEFAULT_BOUNDS, Bounds, Precision
from lite_nlp.export.runtime.limits import MAX_TOKENS

if TYPE_CHECKING:
    from lite_nlp.artifacts.fused_decoder import FusedDecoder
    from lite_nlp.config.preset import Config
    from lite_nlp.export.pipeline import ModelCard
    from lite_nlp.export.runtime.manifest import DecodingDefaults, Languages, Manifest
    from lite_nlp.models.transformer import EncoderDecoder

__all__ = ["write_model_bundle"]

#: Everyday sentences that verify an export, spread over the file.
_PROOF_SENTENCES: Final = 48

#: Keys of the budget that a manifest holds; the rest follows from the config.
_BUDGET_KEYS: Final = ("target", "family", "lengths", "params", "macs", "limits", "within_budget")


def write_model_bundle(
    path: Path,
    loaded: LoadedModel,
    *,
    source: Source | None = None,
    max_src_tokens: int | None = None,
    max_tgt_tokens: int | None = None,
    compact: bool = False,
    portable: bool = False,
    precision: Precision = "fp32",
    calibration: Sequence[Sequence[Sequence[int]]] = (),
    runtimes: Sequence[str] | None = None,
    force: bool = False,
    progress: Progress | None = None,
    accept: Callable[[Path], None] = lambda bundle: None,
) -> "Manifest":
    """Export a model and verify the bundle on everyday sentences.

    Args:
        path: The ``.zip`` file to write.
        loaded: A model of any architecture.
        source: Origin of the model: a shipped model's card or a bundle's manifest has its scores, and a compact bundle
            keeps the encodings of its file. None if it was not loaded from a file.
        max_src_tokens: Longest source, end mark included; lowered to the model's positions. None is 256, or what a
            model reads that cuts its input off, if that is more. For other architectures see
            :mod:`lite_nlp.artifacts.task_bundles`.
        max_tgt_tokens: Most decoder steps; lowered likewise. None is 512, or all that a language model has positions
            for.
        compact: Whether to store the weights once, for all runtimes.
        portable: Whether the ONNX graphs have operators of the ONNX standard alone.
        precision: Of the weights.
        calibration: Token ids of texts on which a mixed precision measures the loss of each matrix, of each sentence of
            an example the rows; none for the package's own.
        runtimes: Names of the runtimes to export for; None for all that can run the model.
        force: Whether an existing file may be overwritten.
        progress: Receives each stage as it begins.
        accept: Called with the finished bundle before it replaces ``path``; if it raises, nothing is written.

    Returns:
        The manifest of the bundle.

    Raises:
        MissingExtraError: If a package that exporting needs is not installed.
        ModelError: If the model cannot be exported.
        DataError: If a classifier does not record the names of its labels.
        BundleError: If a runtime's graphs do other work than the model, or give other results.
        OutputError: If ``path`` exists and ``force`` is false, or the system refuses the write.
    """
    from lite_nlp.artifacts.packing import packing_of
    from lite_nlp.decoding.search import SearchOptions
    from lite_nlp.decoding.torch_model import TorchStepModel
    from lite_nlp.export.pipeline import PROOF_STEPS, Proof, export_bundle

    card, packing = _describe(loaded, source, precision), packing_of(source, loaded) if compact else None
    exported = loaded
    if precision != "fp32" and loaded.stored:
        from lite_nlp.artifacts.column_steps import move_column_steps

        moved = move_column_steps(loaded.model, loaded.stored)
        exported = replace(loaded, model=moved.model)
        packing = None if packing is None else replace(packing, scalings=moved.scalings)
    if loaded.config.model.architecture != "encoder-decoder":
        from lite_nlp.artifacts.task_bundles import write_task_bundle

        return write_task_bundle(
            path,
            exported,
            card=card,
            packing=packing,
            portable=portable,
            max_src_tokens=max_src_tokens,
            max_tgt_tokens=max_tgt_tokens,
            precision=precision,
            calibration=calibration,
            runtimes=runtimes,
            force=force,
            progress=progress,
            accept=accept,
        )
    model = exported.encoder_decoder
    positions = loaded.config.model.max_positions
    bounds = Bounds(
        source=source_bound(loaded.config, max_src_tokens),
        capacity=min(DEFAULT_BOUNDS.capacity if max_tgt_tokens is None else max_tgt_tokens, positions, MAX_TOKENS),
        executorch_batch=DEFAULT_BOUNDS.executorch_batch,
    )
    proof = Proof(
        reference=TorchStepModel(loaded.encoder_decoder),
        src_rows=_proof_rows(loaded, bounds.source),
        options=SearchOptions(max_steps=min(PROOF_STEPS, bounds.capacity)),
    )
    return export_bundle(
        path,
        model=model,
        search_form=None if portable else _fused(loaded.name, model),
        card=card,
        precision=precision,
        calibration=calibration[0] if calibration else (),
        bounds=bounds,
        runtimes=runtimes,
        proof=proof,
        packing=packing,
        force=force,
        progress=progress,
        accept=accept,
    )


def _fused(name: str, model: "EncoderDecoder") -> "FusedDecoder":
    from lite_nlp.artifacts.fused_decoder import FusedDecoder

    fused = FusedDecoder(model)
    if fused.plain_blocks:
        logging.getLogger("lite_nlp").warning(
            f"{name}: {', '.join(fused.plain_blocks)}: expected blocks with a form in ONNX Runtime's operators, found "
            "others: their own steps are used"
        )
    return fused


def _proof_rows(loaded: LoadedModel, max_source: int) -> list[list[int]]:
    """Everyday sentences of the model's source language, a source of one token, and one of the maximum length."""
    languages = _languages(loaded.metrics)
    sentences = read_everyday_sentences(None if languages is None else languages.src)
    chosen = sentences[:: max(1, len(sentences) // _PROOF_SENTENCES)][:_PROOF_SENTENCES]
    # The end mark takes a place too.
    rows = [loaded.tokenizer.encode(sentence)[: max_source - 1] for sentence in chosen]
    joined = [token for row in rows for token in row]
    longest = (joined * (max_source // len(joined) + 1))[: max_source - 1]
    return [*rows, rows[0][:1], longest]


def _describe(loaded: LoadedModel, source: Source | None, precision: Precision) -> "ModelCard":
    """What a bundle says of the model: no scores where its weights are rounded, and no plan of a former bundle's."""
    from lite_nlp.config.preset import dump_config
    from lite_nlp.export.pipeline import PLAN_KEY, ModelCard
    from lite_nlp.export.runtime.manifest import Vocabulary

    sizes = loaded.config.model.vocab_sizes
    only = next(iter(sizes.values()))
    return ModelCard(
        name=loaded.name,
        tokenizer_json=loaded.tokenizer.to_json(),
        vocabulary=Vocabulary(src_size=sizes.get("src_vocab_size", only), tgt_size=sizes.get("tgt_vocab_size", only)),
        config_toml=dump_config(loaded.config).encode("utf-8"),
        languages=_languages(loaded.metrics),
        decoding=_decoding(loaded.config),
        metrics={key: value for key, value in loaded.metrics.items() if key != PLAN_KEY},
        budget=_budget(loaded),
        scores=_scores(loaded, source) if precision == "fp32" else {},
    )


def _decoding(config: "Config") -> "DecodingDefaults | None":
    from lite_nlp.export.runtime.manifest import DecodingDefaults

    if config.decoding is None:
        return None
    longest = min(longest_input(config, config.decoding.long_input), MAX_TOKENS)
    return DecodingDefaults(**config.decoding.model_dump(), max_source_tokens=longest)


def _languages(metrics: dict[str, Any]) -> "Languages | None":
    from lite_nlp.export.runtime.manifest import Languages

    found = metrics.get("languages")
    if not isinstance(found, dict) or not {"src", "tgt"} <= set(found):
        return None
    with parsing("metrics.json: languages", "what the format of bundles allows", BundleError):
        return Languages(src=str(found["src"]), tgt=str(found["tgt"]))


def _scores(loaded: LoadedModel, source: Source | None) -> dict[str, dict[str, Any]]:
    """Scores by test set from a shipped model's card, a bundle's manifest or ``metrics.json``; empty without any."""
    cards = [shipped.card for shipped in list_shipped() if source is not None and shipped.path == source.path]
    if not cards and source is not None and source.kind == "bundle":
        return open_stored(source.path).manifest.scores
    found = (cards[0] if cards else loaded.metrics).get("scores")
    if not isinstance(found, dict) or not all(isinstance(scores, dict) for scores in found.values()):
        return {}
    return found


def _budget(loaded: LoadedModel) -> dict[str, Any]:
    from lite_nlp.budget.closed_form.formulas import count_config
    from lite_nlp.budget.gate.enforcement import BudgetGate
    from lite_nlp.budget.gate.limits import Limits, check_limits
    from lite_nlp.budget.reporting.report import BudgetReport

    config = loaded.config.model
    src_len, tgt_len = BudgetGate().lengths(config)
    count = count_config(config, src_len=src_len, tgt_len=tgt_len)
    verdicts = check_limits(count, Limits())
    report = BudgetReport(target=loaded.name, model=config, count=count, limits=Limits(), verdicts=verdicts)
    content = report.to_json()
    return {key: content[key] for key in _BUDGET_KEYS}
