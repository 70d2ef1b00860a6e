"""Training of a preset or config on a data directory, behind ``lite-nlp train``. Needs torch when it runs."""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from lite_nlp.artifacts.fingerprint import model_sha256
from lite_nlp.artifacts.models import LoadedModel, load_model
from lite_nlp.config.preset import Config, dump_config, load_config, parse_config
from lite_nlp.core.bounds import MAX_THREADS, check_range
from lite_nlp.core.errors import ConfigError, TrainingError, UsageError
from lite_nlp.core.extras import needs_extra
from lite_nlp.core.files import sha256_bytes
from lite_nlp.data.directory import content_digest
from lite_nlp.tasks.registry import task_of_data
from lite_nlp.tasks.room import TrainingData
from lite_nlp.tasks.usefulness import training_warnings
from lite_nlp.training.destination import check_destination, check_sources

if TYPE_CHECKING:
    from rich.console import Console
    from torch import nn

    from lite_nlp.budget.gate.enforcement import BudgetGate
    from lite_nlp.models.build import Model

__all__ = [
    "TrainedModel",
    "check_options",
    "check_resume",
    "check_start",
    "fit_data",
    "open_data",
    "train_fitted",
    "train_model",
]


@dataclass(frozen=True, kw_only=True)
class TrainedModel:
    """A finished run.

    Attributes:
        path: The model directory.
        metrics: Content of its ``metrics.json``.
        labels: Display names of the validation scores beside the loss, by name.
    """

    path: Path
    metrics: dict[str, Any]
    labels: dict[str, str]


@needs_extra("train", "train")
def train_model(
    config: str | Path | Config,
    *,
    data: str | Path,
    out: str | Path,
    overrides: Sequence[str] = (),
    resume: bool = False,
    force: bool = False,
    init_from: str | Path | LoadedModel | None = None,
    vectors: str | Path | None = None,
    threads: int | None = None,
    max_minutes: float | None = None,
    gate: "BudgetGate | None" = None,
    console: "Console | None" = None,
) -> TrainedModel | None:
    """Train a model; under ``accelerate launch`` or ``torchrun`` every process calls this with the same arguments.

    Args:
        config: Name of a preset, a config file, a model directory with one, or a config. Vocabulary and number of
            classes are those of the data.
        data: Data directory of the kind that the architecture is trained on.
        out: Directory of the run, then of the model.
        overrides: ``section.key=value`` strings that change one key of the config each.
        resume: Resume the run in ``out``, if there is one.
        force: Overwrite the run in ``out``.
        init_from: A model with the initial weights: the same model but for dropout, with the tokenizer of the data or
            one that begins with its types; a run that is not resumed needs another ``out``.
        vectors: File of pretrained word vectors (GloVe's format) at which a classifier's embeddings are frozen.
        threads: Threads of each process; None chooses them by a short measurement, or resumes with those of the run.
        max_minutes: Wall time after which this call ends the run, as ``training.max_steps`` would; above 0.
        gate: The limits that the model is checked against before training; None sets no limits.
        console: For progress and notes; None is silent.

    Returns:
        The finished run in the first process, None in the others.

    Raises:
        UsageError: If ``resume`` and ``force``, or ``vectors`` and ``init_from``, are both given, a number is out of
            range, or a new run would replace ``init_from``.
        OverBudgetError: If the model is over a limit of the gate.
        DataError: If the data is damaged or of a kind that the architecture is not trained on.
        ConfigError: If the config is invalid, or there are vectors for a model that takes none.
        TrainingError: If training cannot start, resume or continue, or a signal stopped it after writing a checkpoint.
        OutputError: If ``out`` is not empty, or a write fails.
    """
    check_options(resume=resume, force=force, threads=threads, max_minutes=max_minutes)
    if vectors is not None and init_from is not None:
        raise UsageError("--vectors and --init-from, which both set the embeddings: expected one of them, found both")
    if not resume:
        check_sources(Path(out), [("that of --init-from", init_from)])
    loaded = load_config(config, overrides)
    # Launchers number the processes: while the others start, the first may have begun to write.
    if os.environ.get("RANK", "0") == "0":
        check_destination(Path(out), resume=resume, force=force)
    opened = open_data(Path(data), loaded, vectors=None if vectors is None else Path(vectors))
    fitted = fit_data(loaded, opened)
    if gate is not None:
        target = fitted.name if isinstance(config, Config) else str(config)
        gate.check_model(fitted.model, target=target, vocabulary_of_data=True)
    return train_fitted(
        fitted,
        opened,
        out=Path(out),
        resume=resume,
        force=force,
        init_from=init_from,
        vectors=None if vectors is None else Path(vectors),
        threads=threads,
        max_minutes=max_minutes,
        console=console,
        announce=fitted != loaded,
    )


def check_options(*, resume: bool, force: bool, threads: int | None, max_minutes: float | None) -> None:
    """Refuse options of a run that exclude each other or are out of range; they are as in :func:`train_model`.

    Raises:
        UsageError: If so.
    """
    if resume and force:
        raise UsageError("--resume and --force: expected one of them, found both")
    check_range("--threads", threads, 1, MAX_THREADS)
    if max_minutes is not None and not 0 < max_minutes < math.inf:
        raise UsageError(f"--max-minutes: expected more than 0, found {max_minutes:g}")


def open_data(path: Path, config: Config, *, vectors: Path | None = None) -> TrainingData:
    """Open a data directory of the kind that a config's model is trained on.

    Raises:
        DataError: If it is damaged or of another kind.
        ConfigError: If there are vectors for a model that takes none.
    """
    task, architecture = task_of_data(path), config.model.architecture
    task.check_architecture(architecture, path)
    if vectors is not None and not task.takes_vectors:
        raise ConfigError(f"--vectors: expected a classifier, found model.architecture = {architecture!r}")
    return task.room().open_training_data(path, vectors=vectors)


def fit_data(config: Config, data: TrainingData) -> Config:
    """The config with the vocabulary and the labels of the data; two vocabularies both become the joint one.

    Raises:
        ConfigError: If another key of the config does not fit the size of the vocabulary.
    """
    size = data.tokenizer.vocab_size
    overrides = [f"model.{key}={size}" for key in config.model.vocab_sizes]
    return parse_config(
        dump_config(config),
        name=f"{config.name} with the vocabulary of {data.path}",
        overrides=[*overrides, *data.overrides],
    )


def check_start(config: Config, data: TrainingData, *, init_from: LoadedModel | None) -> None:
    """Find what would keep a run from starting, before long work that comes before it; arguments as there.

    Raises:
        DataError: If a split is missing or damaged.
        TrainingError: If nothing of a split can be used, the measure of early stopping is none of the task, or the
            initial weights are of another model.
    """
    from lite_nlp.training.validation import check_metric

    objective = data.objective(config)
    check_metric(objective, config.training)
    for split in ("train", "valid"):
        objective.batches(split, batches_per_step=1, say=lambda _: None)
    if init_from is not None:
        _initial_weights(init_from, config, data)


def check_resume(
    config: Config,
    data: TrainingData,
    *,
    out: Path,
    distillation: Mapping[str, Any],
    init_from: LoadedModel | None,
) -> None:
    """Find what would keep a distillation from being resumed, as far as it is known before the teacher's long work.

    Args:
        config: The config that :func:`fit_data` gave.
        data: The data.
        out: Directory of the run.
        distillation: The identity of the lesson.
        init_from: A model with the initial weights.

    Raises:
        TrainingError: If the run in ``out`` is another one, or has a finished model and no checkpoint, or damaged
            checkpoints alone.
        DataError: If the data cannot be read.
    """
    from lite_nlp.training.run_directory import RunDirectory
    from lite_nlp.training.state import RunIdentity

    tokenizer_json = data.tokenizer.to_json()
    # Damaged checkpoints are told when training begins.
    checkpoint = RunDirectory(out, config=config, tokenizer_json=tokenizer_json).load_latest(lambda _: None)
    if checkpoint is None:
        return
    saved = checkpoint.identity
    known = {
        "sha256": content_digest(data.path),
        "tokenizer_sha256": sha256_bytes(tokenizer_json),
        "distillation": dict(distillation),
    }
    # What depends on the teacher's outputs and on the processes is compared when training begins.
    RunIdentity.of(
        config,
        data={**saved.data, **known},
        batches_per_step=saved.batches_per_step,
        init_from=None if init_from is None else model_sha256(init_from),
    ).check_resumable(saved)


def train_fitted(
    config: Config,
    data: TrainingData,
    *,
    out: Path,
    resume: bool,
    force: bool,
    init_from: str | Path | LoadedModel | None,
    vectors: Path | None = None,
    threads: int | None,
    max_minutes: float | None,
    console: "Console | None",
    announce: bool,
) -> TrainedModel | None:
    """Train a config that :func:`fit_data` gave, in this process; the rest is as in :func:`train_model`.

    Args:
        config: The config.
        data: The data.
        out: Directory of the run.
        resume: Resume the run in it.
        force: Overwrite the run in it.
        init_from: A model with the initial weights.
        vectors: File of pretrained word vectors.
        threads: Threads of this process.
        max_minutes: Wall time.
        console: For progress and notes.
        announce: Whether to print that the vocabulary is that of the data.
    """
    import torch
    from rich.console import Console

    from lite_nlp.artifacts.directory import check_sizes
    from lite_nlp.models.build import build_model, plan_model
    from lite_nlp.models.pretrained import load_first_types
    from lite_nlp.training.loop import TrainingJob, train
    from lite_nlp.training.processes import start_processes

    accelerator = start_processes()
    main = accelerator.is_main_process
    console = console if main and console is not None else Console(quiet=True)

    def say(text: str) -> None:
        console.print(text, markup=False, soft_wrap=True)

    try:
        if announce:
            say(f"vocabulary: {data.tokenizer.vocab_size} types, as in {data.path}")
            for note in data.notes:
                say(note)
        # As for every model that is loaded: what would be refused there is not worth training.
        check_sizes(plan_model(config.model), config.name)
        torch.manual_seed(config.training.seed)
        model = build_model(config.model)
        init_sha256 = None
        if init_from is not None:
            initial = _initial_weights(init_from, config, data)
            init_sha256 = model_sha256(initial)
            load_first_types(model, initial.model.state_dict())
            if initial.tokenizer.vocab_size > data.tokenizer.vocab_size:
                say(f"weights: of the first of {initial.tokenizer.vocab_size} types of {initial.name}")
        if vectors is not None:
            _fix_vectors(model, vectors, config, data, say)
        objective = data.objective(config)
        job = TrainingJob(
            config=config,
            model=model,
            objective=objective,
            tokenizer_json=data.tokenizer.to_json(),
            data_sha256=content_digest(data.path),
            out=out,
            console=console,
            resume=resume,
            force=force,
            threads=threads,
            max_minutes=max_minutes,
            judge=_judge(config, data, fresh=init_from is None),
            init_sha256=init_sha256,
        )
        metrics = train(job, accelerator)
        return TrainedModel(path=out, metrics=metrics, labels=dict(objective.measures)) if main else None
    finally:
        accelerator.end_training()


def _judge(
    config: Config, data: TrainingData, *, fresh: bool
) -> "Callable[[nn.Module, Mapping[str, Any], Sequence[float]], list[str]]":
    """A function that warns of a final model of no use."""
    tokens = None if config.model.architecture.endswith("classifier") else data.tokenizer.vocab_size

    def judge(model: "nn.Module", metrics: Mapping[str, Any], losses: Sequence[float]) -> list[str]:
        warmup_steps = config.training.warmup_steps
        found = training_warnings(metrics, losses=losses, vocab_size=tokens, warmup_steps=warmup_steps, fresh=fresh)
        # What has not learned even that needs no look at its outputs, which would take long.
        found = found or ([] if data.inspect is None else list(data.inspect(config, cast("Model", model))))
        return [*data.warnings, *found]

    return judge


def _initial_weights(source: str | Path | LoadedModel, config: Config, data: TrainingData) -> LoadedModel:
    """The model ``source``: the config's but for dropout and init, with the types of the data first among its own."""
    loaded = load_model(source)
    name = f"--init-from {loaded.name if isinstance(source, LoadedModel) else source}"
    if not loaded.tokenizer.begins_with(data.tokenizer):
        raise TrainingError(
            f"{name}: expected a model with the tokenizer of {data.path}, or with one that begins with its types, "
            "found one with another; prepare the data with the model's tokenizer"
        )
    expected, found = config.model.model_dump(), loaded.config.model.model_dump()
    sizes = config.model.vocab_sizes
    differences = [
        f"model.{key} is {found.get(key)!r}, the config has {expected.get(key)!r}"
        for key in found | expected
        if found.get(key) != expected.get(key) and key not in sizes and key != "init" and not key.endswith("dropout")
    ]
    if differences:
        raise TrainingError(f"{name}: expected a model of the config, found: {'; '.join(differences)}")
    return loaded


def _fix_vectors(model: "Model", path: Path, config: Config, data: TrainingData, say: Callable[[str], None]) -> None:
    """Freeze a classifier's embeddings at the word vectors in a file."""
    import torch

    from lite_nlp.data.vectors import read_vectors
    from lite_nlp.models.build import as_classifier
    from lite_nlp.models.pretrained import fix_embeddings

    classifier = as_classifier(model, source="--vectors")
    vectors = read_vectors(path, data.tokenizer, dim=config.model.table_dim, seed=config.training.seed)
    fix_embeddings(classifier.embedding, torch.from_numpy(vectors.table))
    found, types = int(vectors.found.sum()), len(vectors.found)
    say(f"vectors: {found} of {types} types are words of {path}, the others stay random")
