"""``lite-nlp export``: a model as a bundle that runs without this code, proven to give the same tokens."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.table import Table

from lite_nlp.artifacts.models import LoadedModel, Source, list_shipped, load_model, resolve_source
from lite_nlp.artifacts.translators import longest_input
from lite_nlp.cli.budget_options import (
    MAX_MACS,
    MAX_PARAMS,
    AllowOption,
    CountParamsOption,
    MaxMacsOption,
    MaxParamsOption,
    MaxSizeOption,
    SrcLenOption,
    TgtLenOption,
    read_gate,
)
from lite_nlp.cli.console import err, out, print_json
from lite_nlp.core.errors import RuntimeUnavailableError
from lite_nlp.core.files import check_output

if TYPE_CHECKING:
    from lite_nlp.config.preset import Config
    from lite_nlp.export.pipeline import ModelCard
    from lite_nlp.export.runtime.manifest import DecodingDefaults, Languages, Manifest

__all__ = ["Precision", "export"]

#: Longest source by default; translation cuts longer lines into sentences first.
_MAX_SRC_TOKENS: Final = 256

#: Most decoder steps by default: twice the source, which is as long as the search lets a translation become.
_MAX_TGT_TOKENS: Final = 512

#: Rows of one ExecuTorch call: its memory is planned for the largest sizes.
_EXECUTORCH_BATCH: Final = 8

#: Everyday sentences to prove the export with, spread over the file; and the longest translation compared.
_PROOF_SENTENCES: Final = 48
_PROOF_STEPS: Final = 64

#: What a manifest holds of the budget's object; the rest follows from the config.
_BUDGET_KEYS: Final = ("target", "family", "lengths", "params", "macs", "limits", "within_budget")

_SENTENCES = Path(__file__).parent.parent / "assets" / "everyday.en-de.tsv"


class Precision(StrEnum):
    """Of the weights of the Linear layers."""

    FP32 = "fp32"
    INT8 = "int8"


def export(
    output: Annotated[Path, typer.Option("--out", metavar="FILE.zip", help="The bundle to write.")],
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="MODEL",
            help="A model directory, .lnlp file or shipped model; else the default model.",
            show_default=False,
        ),
    ] = None,
    precision: Annotated[
        Precision, typer.Option("--precision", help="Of the Linear layers' weights.")
    ] = Precision.FP32,
    max_src_tokens: Annotated[
        int, typer.Option("--max-src-tokens", min=8, help="Longest source, end mark included.")
    ] = _MAX_SRC_TOKENS,
    max_tgt_tokens: Annotated[
        int, typer.Option("--max-tgt-tokens", min=8, help="Longest translation, end mark included.")
    ] = _MAX_TGT_TOKENS,
    compact: Annotated[
        bool, typer.Option("--compact", help="Hold the weights once, as compressed as in MODEL, for both runtimes.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite --out.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
    max_macs: MaxMacsOption = MAX_MACS,
    max_params: MaxParamsOption = MAX_PARAMS,
    count_params: CountParamsOption = "paper",
    max_size: MaxSizeOption = None,
    src_len: SrcLenOption = None,
    tgt_len: TgtLenOption = None,
    allow_over_budget: AllowOption = False,
) -> None:
    """Export a model to a bundle: ONNX and ExecuTorch graphs, tokenizer, config and manifest in one .zip file.

    The bundle appears only after both runtimes have translated sentences to the very tokens that the model gives. A
    model over budget, or a bundle over --max-size, ends it with exit code 3 unless --allow-over-budget is given.
    """
    if output.suffix != ".zip":
        raise typer.BadParameter(f"--out: expected a name that ends in .zip, found {output}")
    if precision is Precision.INT8:
        raise RuntimeUnavailableError("--precision int8: expected fp32, the only precision that export writes so far")
    gate = read_gate(
        max_macs=max_macs, max_params=max_params, count_params=count_params, max_size=max_size, src_len=src_len,
        tgt_len=tgt_len, allow=allow_over_budget,
    )  # fmt: skip
    check_output(output, force=force)
    try:
        from lite_nlp.export.pipeline import Proof, export_bundle
    except ModuleNotFoundError as error:
        raise RuntimeUnavailableError(
            f"export needs {error.name}, which is not installed; expected the extra lite-nlp[export]"
        ) from error
    from lite_nlp.artifacts.bundles import packing_of
    from lite_nlp.decoding.search import SearchOptions
    from lite_nlp.decoding.torch_model import TorchStepModel
    from lite_nlp.export.runtime.manifest import Bounds

    source = resolve_source(model)
    loaded = load_model(model)
    named = model or loaded.name
    gate.check_model(loaded.config.model, target=named)
    positions = loaded.config.model.max_positions
    bounds = Bounds(
        source=min(max_src_tokens, positions),
        capacity=min(max_tgt_tokens, positions),
        executorch_batch=_EXECUTORCH_BATCH,
    )
    proof = Proof(
        reference=TorchStepModel(loaded.encoder_decoder),
        src_rows=_proof_rows(loaded, bounds.source),
        options=SearchOptions(max_steps=min(_PROOF_STEPS, bounds.capacity)),
    )

    def accept(bundle: Path) -> None:
        size_bytes = bundle.stat().st_size
        gate.check_size(loaded.config.model, target=named, size_bytes=size_bytes, bundle=True)

    manifest = export_bundle(
        output,
        model=loaded.encoder_decoder,
        card=_describe(loaded, _scores(source, loaded)),
        bounds=bounds,
        proof=proof,
        packing=packing_of(source, loaded) if compact else None,
        force=force,
        report=lambda message: err.print(message, markup=False, soft_wrap=True),
        accept=accept,
    )
    if as_json:
        print_json(_to_json(output, manifest))
    else:
        out.print(_to_table(output, manifest))


def _proof_rows(loaded: LoadedModel, max_source: int) -> list[list[int]]:
    """Everyday sentences, a source of one token, and one of the greatest length."""
    lines = _SENTENCES.read_text(encoding="utf-8").splitlines()
    chosen = lines[:: max(1, len(lines) // _PROOF_SENTENCES)][:_PROOF_SENTENCES]
    # The end mark takes a place too.
    rows = [loaded.tokenizer.encode(line.split("\t")[0])[: max_source - 1] for line in chosen]
    joined = [token for row in rows for token in row]
    longest = (joined * (max_source // len(joined) + 1))[: max_source - 1]
    return [*rows, rows[0][:1], longest]


def _describe(loaded: LoadedModel, scores: dict[str, dict[str, Any]]) -> "ModelCard":
    from lite_nlp.config.preset import dump_config
    from lite_nlp.export.pipeline import ModelCard
    from lite_nlp.export.runtime.manifest import Vocabulary

    config = loaded.config.model
    return ModelCard(
        name=loaded.name,
        config_toml=dump_config(loaded.config).encode("utf-8"),
        tokenizer_json=loaded.tokenizer.to_json(),
        vocabulary=Vocabulary(src_size=config.src_vocab_size, tgt_size=config.tgt_vocab_size),
        languages=_languages(loaded.metrics),
        decoding=_decoding(loaded.config),
        metrics=loaded.metrics,
        budget=_budget(loaded),
        scores=scores,
    )


def _decoding(config: "Config") -> "DecodingDefaults | None":
    from lite_nlp.export.runtime.manifest import DecodingDefaults

    if config.decoding is None:
        return None
    longest = longest_input(config, config.decoding.long_input)
    return DecodingDefaults(**config.decoding.model_dump(), max_source_tokens=longest)


def _languages(metrics: dict[str, Any]) -> "Languages | None":
    from lite_nlp.export.runtime.manifest import Languages

    found = metrics.get("languages")
    if not isinstance(found, dict) or not {"src", "tgt"} <= set(found):
        return None
    return Languages(src=str(found["src"]), tgt=str(found["tgt"]))


def _scores(source: Source, loaded: LoadedModel) -> dict[str, dict[str, Any]]:
    """Scores by test set from a shipped model's card, else from ``metrics.json``; empty if neither has any."""
    cards = [shipped.card for shipped in list_shipped() if shipped.path == source.path]
    found = (cards[0] if cards else loaded.metrics).get("scores")
    if not isinstance(found, dict) or not all(isinstance(scores, dict) for scores in found.values()):
        return {}
    return found


def _budget(loaded: LoadedModel) -> dict[str, Any]:
    from lite_nlp.budget.closed_form.formulas import count_config
    from lite_nlp.budget.gate.limits import Limits, check_limits
    from lite_nlp.budget.reporting.report import BudgetReport

    # The mobile setting's sentence, as far as the model's positions reach.
    length = min(30, loaded.config.model.max_positions)
    count = count_config(loaded.config.model, src_len=length, tgt_len=length)
    report = BudgetReport(
        target=loaded.name,
        model=loaded.config.model,
        count=count,
        limits=Limits(),
        verdicts=check_limits(count, Limits()),
    )
    content = report.to_json()
    return {key: content[key] for key in _BUDGET_KEYS}


def _to_json(path: Path, manifest: "Manifest") -> dict[str, Any]:
    return {
        "file": str(path),
        "size_bytes": path.stat().st_size,
        "precision": manifest.precision,
        "files": [{"name": name, "size_bytes": entry.size_bytes} for name, entry in manifest.files.items()],
        "made": [{"name": name, "size_bytes": size} for name, size in _made_sizes(manifest).items()],
        "bounds": manifest.bounds.model_dump(),
        "parity": manifest.parity,
    }


def _to_table(path: Path, manifest: "Manifest") -> Table:
    table = Table("file", title=str(path))
    table.add_column("bytes", justify="right")
    for name, entry in manifest.files.items():
        table.add_row(name, f"{entry.size_bytes:,}")
    table.add_section()
    table.add_row("the bundle", f"{path.stat().st_size:,}")
    if made := _made_sizes(manifest):
        table.add_section()
        for name, size_bytes in made.items():
            table.add_row(f"{name}, made from it", f"{size_bytes:,}")
    return table


def _made_sizes(manifest: "Manifest") -> dict[str, int]:
    """Sizes of the members that a compact bundle describes; none in a plain one."""
    members = {} if manifest.packed is None else manifest.packed.members
    return {name: member.size_bytes for name, member in members.items()}
