"""The records that a MODEL keeps beside its config: cards, metrics, ledgers, manifests, logs. Imports no torch."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lite_nlp.artifacts.model_files import MODEL_FILES
from lite_nlp.artifacts.models import LoadedModel, Source, list_shipped
from lite_nlp.budget.reporting.history import TrainingHistory
from lite_nlp.budget.reporting.plan import read_plan
from lite_nlp.budget.reporting.records import ModelRecord, read_scores
from lite_nlp.compress.compressed import LEDGER_FILE
from lite_nlp.core.errors import ContainerError, ModelError
from lite_nlp.core.parsing import parse_json_object, read_document

__all__ = ["read_record"]


def read_record(model: Source | LoadedModel) -> ModelRecord:
    """The record that ``model`` keeps of itself.

    Raises:
        ModelError: If a file of a model directory is damaged.
        ContainerError: If a container is damaged.
        BundleError: If a bundle is damaged.
    """
    if isinstance(model, LoadedModel):
        return ModelRecord(
            kind="loaded",
            scores=read_scores(model.metrics),
            metrics=_training(model.metrics),
            card=_describe(model.metrics),
        )
    if model.kind == "directory":
        return _read_directory(model.path)
    card = next((shipped.card for shipped in list_shipped() if shipped.path == model.path), {})
    return _read_container(model.path, card) if model.kind == "container" else _read_bundle(model.path, card)


def _read_directory(path: Path) -> ModelRecord:
    metrics = _parse(path / "metrics.json") if (path / "metrics.json").is_file() else {}
    return ModelRecord(
        kind="directory",
        path=str(path),
        files={name: (path / name).stat().st_size for name in MODEL_FILES if (path / name).is_file()},
        scores=read_scores(metrics),
        metrics=_training(metrics),
        history=TrainingHistory.read(path / "log.jsonl"),
        card=_describe(metrics),
    )


def _read_container(path: Path, card: Mapping[str, Any]) -> ModelRecord:
    from lite_nlp.compress.lnlp.container import read_container

    container = read_container(path)
    metrics = parse_json_object(
        container.files.get("metrics.json", b"{}"), source=f"{path}: metrics.json", error=ContainerError
    )
    files = {name: len(content) for name, content in container.files.items()}
    tensors = sum(len(tensor.payload) for tensor in container.tensors.values())
    ledger = _read_ledger(path, container.metadata)
    return ModelRecord(
        kind="container",
        path=str(path),
        files={"tensors": tensors, **files},
        scores=_card_scores(card) or read_scores(metrics) or _ledger_scores(ledger),
        stages=_rows(ledger, "stages"),
        candidates=_rows(ledger, "candidates"),
        plan=read_plan(ledger.get("plan")),
        metrics=_training(metrics),
        card={**_origin(container.metadata), **_describe({**metrics, **card})},
    )


def _read_bundle(path: Path, card: Mapping[str, Any]) -> ModelRecord:
    from lite_nlp.export.runtime import open_stored

    manifest = open_stored(path).manifest
    languages = {} if manifest.languages is None else {"languages": manifest.languages.model_dump()}
    return ModelRecord(
        kind="bundle",
        path=str(path),
        files={name: entry.size_bytes for name, entry in manifest.files.items()},
        scores=_card_scores(card) or manifest.scores,
        card=_describe({**languages, **card}),
        versions=manifest.versions,
    )


def _describe(facts: Mapping[str, Any]) -> dict[str, str | tuple[str, ...]]:
    """The facts of a card or of ``metrics.json`` that say what a model is, by their name for people."""
    found: dict[str, str | tuple[str, ...]] = {}
    languages, labels, data, lesson = (facts.get(key) for key in ("languages", "labels", "data", "distillation"))
    if isinstance(languages, Mapping) and {"src", "tgt"} <= set(languages):
        same = languages["src"] == languages["tgt"]
        found["languages"] = str(languages["src"]) if same else f"{languages['src']} to {languages['tgt']}"
    if isinstance(labels, list) and labels:
        found["labels"] = ", ".join(map(str, labels))
    if isinstance(data, list):
        found["data and licences"] = tuple(map(str, data))
    if isinstance(lesson, Mapping) and {"teacher", "level"} <= set(lesson):
        found["distilled from"] = f"{lesson['teacher']}, level {lesson['level']}"
    return found


def _card_scores(card: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The scores of a shipped model's card: its own, then those of the weights that it was compressed from."""
    before = {f"{name}, before compression": figures for name, figures in read_scores(card, "fp32_scores").items()}
    return {**read_scores(card), **before}


def _read_ledger(path: Path, metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """The ledger of a compression up to a container: the rows of the earlier stages, which it holds, and its own.

    The container's own scores, and the text that all were measured on, are in the ledger beside it alone; without that,
    the last row has nothing but the size of the file.
    """
    earlier, size_bytes = list(_rows(metadata, "stages")), path.stat().st_size
    try:
        beside = _parse(path.with_name(LEDGER_FILE))
    except ModelError:
        beside = {}
    every = list(_rows(beside, "stages"))
    rows = every[: len(earlier) + 1]
    # The container holds some figures of each row, the ledger beside it all of them.
    known = [{name: row.get(name) for name in held} for row, held in zip(rows, earlier, strict=False)]
    itself = (rows[-1].get("file"), rows[-1].get("size_bytes")) if rows else None
    if len(rows) == len(earlier) + 1 and known == earlier and itself == (path.name, size_bytes):
        # The plan is that of the last file.
        return {**beside, "stages": rows, "plan": beside.get("plan") if len(rows) == len(every) else None}
    if not earlier:
        return {}
    first = earlier[0].get("size_bytes")
    row: dict[str, Any] = {"stage": str(metadata.get("stage", "")), "file": path.name, "size_bytes": size_bytes}
    if isinstance(first, int):
        row["ratio"] = round(first / size_bytes, 3)
    return {"stages": [*earlier, row]}


def _training(metrics: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part of ``metrics.json`` that training wrote; compression keeps it under a key of its own."""
    found = metrics.get("uncompressed", metrics)
    return found if isinstance(found, Mapping) else {}


def _ledger_scores(ledger: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The scores of the last file of a ledger, by the text that they were measured on."""
    rows = _rows(ledger, "stages")
    scores = rows[-1].get("scores") if rows else None
    return {str(ledger.get("text", "")): scores} if isinstance(scores, Mapping) else {}


def _origin(metadata: Mapping[str, Any]) -> dict[str, str]:
    """What a container was made of."""
    return {"compressed from": str(metadata["name"])} if metadata.get("name") else {}


def _rows(content: Mapping[str, Any], key: str) -> tuple[Mapping[str, Any], ...]:
    """The rows of a ledger; scores that are no figures by name are left out."""
    rows = content.get(key)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        return ()
    return tuple(row if isinstance(row.get("scores", {}), dict) else {**row, "scores": {}} for row in rows)


def _parse(path: Path) -> dict[str, Any]:
    content = read_document(path, expected="a JSON object", error=ModelError)
    return parse_json_object(content, source=str(path), error=ModelError)
