"""The records that a MODEL keeps beside its config: cards, metrics, ledgers, manifests, logs. Imports no torch."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from lite_nlp.artifacts.models import LoadedModel, Source, list_shipped
from lite_nlp.budget.reporting.records import ModelRecord, read_scores
from lite_nlp.core.errors import ModelError

__all__ = ["LEDGER_FILE", "read_record"]

#: What ``compress`` writes beside its files: what it prints with ``--json``.
LEDGER_FILE: Final = "ledger.json"

#: Files of a model directory that belong to the model.
_MODEL_FILES: Final = ("config.toml", "model.safetensors", "tokenizer.json", "metrics.json")


def read_record(model: Source | LoadedModel) -> ModelRecord:
    """The record that ``model`` keeps of itself.

    Raises:
        ModelError: If a file of a model directory is damaged.
        ContainerError: If a container is damaged.
        BundleError: If a bundle is damaged.
    """
    if isinstance(model, LoadedModel):
        return ModelRecord(kind="loaded", scores=read_scores(model.metrics), metrics=_training(model.metrics))
    if model.kind == "directory":
        return _read_directory(model.path)
    card = next((shipped.card for shipped in list_shipped() if shipped.path == model.path), {})
    return _read_container(model.path, card) if model.kind == "container" else _read_bundle(model.path, card)


def _read_directory(path: Path) -> ModelRecord:
    metrics = _parse(path / "metrics.json") if (path / "metrics.json").is_file() else {}
    return ModelRecord(
        kind="directory",
        path=str(path),
        files={name: (path / name).stat().st_size for name in _MODEL_FILES if (path / name).is_file()},
        scores=read_scores(metrics),
        metrics=_training(metrics),
        validations=_read_validations(path / "log.jsonl"),
    )


def _read_container(path: Path, card: Mapping[str, Any]) -> ModelRecord:
    from lite_nlp.compress.lnlp.container import read_container

    container = read_container(path)
    metrics: dict[str, Any] = json.loads(container.files.get("metrics.json", b"{}"))
    files = {name: len(content) for name, content in container.files.items()}
    tensors = sum(len(tensor.payload) for tensor in container.tensors.values())
    return ModelRecord(
        kind="container",
        path=str(path),
        files={"tensors": tensors, **files},
        scores=_card_scores(card) or read_scores(metrics),
        stages=_stages(container.metadata, path),
        metrics=_training(metrics),
    )


def _read_bundle(path: Path, card: Mapping[str, Any]) -> ModelRecord:
    from lite_nlp.artifacts.bundles import open_any_bundle

    manifest = open_any_bundle(path).manifest
    return ModelRecord(
        kind="bundle",
        path=str(path),
        files={name: entry.size_bytes for name, entry in manifest.files.items()},
        scores=_card_scores(card) or manifest.scores,
    )


def _card_scores(card: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The scores of a shipped model's card: its own, then those of the weights that it was compressed from."""
    before = {f"{name}, before compression": figures for name, figures in read_scores(card, "fp32_scores").items()}
    return {**read_scores(card), **before}


def _stages(metadata: Mapping[str, Any], path: Path) -> tuple[Mapping[str, Any], ...]:
    """The ledger in a container: the rows of the earlier stages, and one of its own size."""
    rows = metadata.get("stages")
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        return ()
    size_bytes, first = path.stat().st_size, rows[0].get("size_bytes")
    if beside := _read_ledger(path, rows):
        return beside
    own: dict[str, Any] = {"stage": str(metadata.get("stage", "")), "file": path.name, "size_bytes": size_bytes}
    if isinstance(first, int):
        own["ratio"] = round(first / size_bytes, 3)
    return (*rows, own)


def _read_ledger(path: Path, earlier: Sequence[Any]) -> tuple[Mapping[str, Any], ...]:
    """The rows up to ``path`` in the ledger beside it; empty if there is none, or if it is that of another file."""
    try:
        rows = _parse(path.with_name(LEDGER_FILE)).get("stages")
    except ModelError:
        return ()
    if not isinstance(rows, list) or len(rows) <= len(earlier) or rows[: len(earlier)] != earlier:
        return ()
    own = rows[len(earlier)]
    fits = isinstance(own, dict) and (own.get("file"), own.get("size_bytes")) == (path.name, path.stat().st_size)
    return tuple(rows[: len(earlier) + 1]) if fits else ()


def _training(metrics: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part of ``metrics.json`` that training wrote; compression keeps it under a key of its own."""
    found = metrics.get("uncompressed", metrics)
    return found if isinstance(found, Mapping) else {}


def _read_validations(path: Path) -> tuple[dict[str, Any], ...]:
    """The validations in a run's log; an incomplete line of a killed run is skipped."""
    if not path.is_file():
        return ()
    found = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            content = json.loads(line)
        except ValueError:
            continue
        if isinstance(content, dict) and content.get("event") == "valid":
            found.append({key: value for key, value in content.items() if key != "event"})
    return tuple(found)


def _parse(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: expected a JSON object, found: {error}") from error
    if not isinstance(content, dict):
        raise ModelError(f"{path}: expected a JSON object, found {type(content).__name__}")
    return content
