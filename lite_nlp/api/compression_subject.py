"""What compression asks of a model's task: scores, predictions, batches, Mult-Adds and the files that go with it."""

import json
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from lite_nlp.artifacts.models import LoadedModel, load_model
from lite_nlp.core.errors import LiteNlpError, UsageError
from lite_nlp.core.progress import Progress
from lite_nlp.tasks.registry import task_of_architecture, task_of_data

if TYPE_CHECKING:
    from torch import nn

    from lite_nlp.budget.gate.enforcement import BudgetGate
    from lite_nlp.compress.ledger import CompressionSubject, ReferenceModel
    from lite_nlp.config.model import ModelConfig
    from lite_nlp.models.build import Model
    from lite_nlp.tasks.calibration import Guidance

__all__ = ["compression_subject", "embedded_files", "guide_compression", "macs_counter"]

#: Batches of the fine-tuning data by which the importance of the weights is measured.
_INFORMING_BATCHES: Final = 20

#: The processor that the time of an output is estimated for, and the digits of the milliseconds.
_PHONE: Final = "cortex-a72"
_DIGITS: Final = 3


def guide_compression(loaded: LoadedModel, data: Path | None) -> "Guidance":
    """The guidance of the data's task, or of the model's default task, which refuses data that it cannot use."""
    architecture = loaded.config.model.architecture
    task = task_of_architecture(architecture)
    if data is not None and architecture in (found := task_of_data(data)).architectures:
        task = found
    return task.room().guide(loaded, data)


def compression_subject(
    loaded: LoadedModel,
    guidance: "Guidance",
    progress: Progress,
    gate: "BudgetGate | None",
    reference: LoadedModel | None,
) -> "CompressionSubject":
    """The callbacks to the model's task, on which compression itself does not depend."""
    from lite_nlp.budget.closed_form.roofline import PROCESSORS, least_ms
    from lite_nlp.budget.gate.enforcement import BudgetGate
    from lite_nlp.compress.ledger import CompressionSubject
    from lite_nlp.tasks.calibration import divergence_from, information_loss
    from lite_nlp.training.device import device_of

    device = device_of(loaded.model)
    count_macs, lengths = macs_counter(gate), (gate or BudgetGate()).lengths

    def count_model(model: "nn.Module") -> int:
        return count_macs(cast("Model", model).config)

    def estimate_ms(model: "nn.Module") -> float:
        config = cast("Model", model).config
        src_len, tgt_len = lengths(config)
        return round(least_ms(config, PROCESSORS[_PHONE], src_len=src_len, tgt_len=tgt_len), _DIGITS)

    return CompressionSubject(
        name=loaded.name,
        files=lambda model: embedded_files(loaded, cast("Model", model)),
        load=lambda path: load_model(path).model.to(device),
        metric=guidance.metric,
        score=lambda model: guidance.score(model, progress),
        evaluate=divergence_from(guidance.predict, loaded.model, guidance.scan),
        informing=lambda: list(islice(guidance.tuning(), _INFORMING_BATCHES)),
        information=information_loss(guidance.predict),
        count_macs=count_model,
        estimate_ms=estimate_ms,
        reference=None if reference is None else _reference(reference, guidance, progress, count_model),
        stored=loaded.stored,
    )


def macs_counter(gate: "BudgetGate | None") -> "Callable[[ModelConfig], int]":
    """Counts the Mult-Adds of a config at the lengths of the gate."""
    from lite_nlp.budget.closed_form.formulas import count_config
    from lite_nlp.budget.gate.enforcement import BudgetGate

    lengths = (gate or BudgetGate()).lengths

    def count_macs(config: "ModelConfig") -> int:
        src_len, tgt_len = lengths(config)
        return count_config(config, src_len=src_len, tgt_len=tgt_len).macs_paper

    return count_macs


def _reference(
    reference: LoadedModel, guidance: "Guidance", progress: Progress, count_macs: "Callable[[nn.Module], int]"
) -> "ReferenceModel":
    """The figures of a model to compare with, its size that of a file with every weight as fp32.

    Raises:
        UsageError: If it cannot be scored on the same examples.
    """
    from lite_nlp.compress.ledger import reference_model

    if guidance.score_other is None:
        raise UsageError(f"--reference {reference.name}: the task of this model compares no models")
    recorded = reference.metrics.get("languages")
    if guidance.languages is not None and isinstance(recorded, dict):
        found = (recorded.get("src"), recorded.get("tgt"))
        if found != guidance.languages:
            raise UsageError(
                f"--reference {reference.name}: expected a model of the languages of the scored text, "
                f"{' to '.join(guidance.languages)}, found one of {' to '.join(map(str, found))}"
            )
    try:
        scored = guidance.score_other(reference, progress)
    except LiteNlpError as error:
        raise UsageError(f"--reference {reference.name}: expected a model of the same task: {error}") from error
    return reference_model(
        reference.model,
        name=reference.name,
        files=embedded_files(reference, reference.model),
        macs=count_macs(reference.model),
        scored=scored,
    )


def embedded_files(loaded: LoadedModel, model: "Model") -> dict[str, bytes]:
    """The files that a container of ``model``, made from ``loaded``, embeds: config, metrics, tokenizer."""
    from lite_nlp.config.preset import dump_config

    config = loaded.config.model_copy(update={"model": model.config})
    # The model's own scores are those before compression and must not be taken for the file's.
    metrics = loaded.metrics
    if "uncompressed" not in metrics:
        kept: dict[str, Any] = {key: metrics[key] for key in ("languages", "labels") if key in metrics}
        metrics = {**kept, "uncompressed": metrics}
    return {
        "config.toml": dump_config(config).encode("utf-8"),
        "metrics.json": json.dumps(metrics, ensure_ascii=False).encode("utf-8"),
        "tokenizer.json": loaded.tokenizer.to_json(),
    }
