"""Distillation of a trained model into a smaller one, behind ``lite-nlp distill``. Needs torch when it runs."""

import copy
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lite_nlp.api.train import (
    TrainedModel,
    check_options,
    check_resume,
    check_start,
    fit_data,
    open_data,
    train_fitted,
)
from lite_nlp.artifacts.fingerprint import model_sha256
from lite_nlp.artifacts.models import LoadedModel, load_model
from lite_nlp.config.preset import Config, load_config
from lite_nlp.core.errors import ModelError, TrainingError, UsageError
from lite_nlp.core.extras import needs_extra
from lite_nlp.core.outputs import refusals
from lite_nlp.core.progress import Progress, SilentProgress
from lite_nlp.core.suggestions import expected_one_of
from lite_nlp.tasks.distillation import BEAM, LEVELS, Lesson, Level, SequenceTargets, TeacherModel, Teaching
from lite_nlp.tasks.registry import task_of_data
from lite_nlp.training.destination import HYPOTHESES_DIRECTORY, check_destination, check_sources
from lite_nlp.training.interruption import TimeLimit
from lite_nlp.training.soft_targets import SoftTargets

if TYPE_CHECKING:
    from rich.console import Console

    from lite_nlp.budget.gate.enforcement import BudgetGate

__all__ = ["distill_model"]

#: Time that is left to training where the teacher has used all of it: enough for one step.
_LEAST_MINUTES = 1e-3


@needs_extra("distill", "train")
def distill_model(
    teacher: str | Path | LoadedModel,
    config: str | Path | Config,
    *,
    data: str | Path,
    out: str | Path,
    ensemble: Sequence[str | Path | LoadedModel] = (),
    level: Level | None = None,
    temperature: float | None = None,
    label_weight: float | None = None,
    beam: int | None = None,
    n_best: int | None = None,
    interpolation: bool = False,
    reference_weight: float | None = None,
    hypotheses: str | Path | None = None,
    runtime: str | None = None,
    overrides: Sequence[str] = (),
    resume: bool = False,
    force: bool = False,
    init_from: str | Path | LoadedModel | None = None,
    threads: int | None = None,
    max_minutes: float | None = None,
    gate: "BudgetGate | None" = None,
    progress: AbstractContextManager[Progress] | None = None,
    console: "Console | None" = None,
) -> TrainedModel | None:
    """Train a student on the outputs of a trained teacher.

    At word level it learns from the teacher's distribution of every target token, or class (Hinton et al. 2015; Kim and
    Rush 2016, section 3.1); at sequence level the teacher translates the training sources first and the student learns
    from its translations (Kim and Rush 2016, sections 3.2 and 3.3). Processes are as in ``train_model``.

    Args:
        teacher: A MODEL (path or shipped name) or a loaded model.
        config: The student: name of a preset, a config file, a model directory with one, or a config.
        data: Data directory of the kind that the student is trained on.
        out: Directory of the run, then of the model; a new run needs another one than ``teacher``, ``ensemble`` and
            ``init_from``.
        ensemble: Further teachers of the same vocabulary, which translate together with ``teacher``, each word by the
            mean of their probabilities; sequence level alone.
        level: ``word``, ``sequence`` or ``both``; None is ``both`` for sentence pairs, ``sequence`` where the student
            has another vocabulary than the teacher or may read more tokens, or there are several, and ``word`` for
            language models and classifiers.
        temperature: By which the logits of both are divided at word level, 0.1 to 100; None is 1.
        label_weight: Weight of the labels at word level, from 0 to less than 1; None is 0.5.
        beam: Hypotheses of the teacher's search at sequence level, 1 to 256; None is 5.
        n_best: How many of them are used, weighted by their probabilities; None is 1, with ``interpolation`` all.
        interpolation: Use the one of them that is nearest to the reference, by sentence BLEU.
        reference_weight: Weight of the data's own targets at sequence level, from 0 to less than 1; None is 0.
        hypotheses: Directory of the teacher's translations outside ``out``, where another student finds them; None is
            ``hypotheses`` in ``out``.
        runtime: Runtime of the teacher's search: ``torch``, on an accelerator if there is one, or one of bundles, to
            which a teacher that is none is exported once; None is ``torch``.
        overrides: ``section.key=value`` strings that change one key of the config each.
        resume: Resume the run in ``out``, if there is one.
        force: Overwrite the run in ``out``, and translations in ``hypotheses`` that are damaged, or of another teacher,
            data or search.
        init_from: A model with the initial weights: the student but for dropout, or with more types after its own.
        threads: Threads of the teacher's search and of each process of the training; None chooses them.
        max_minutes: Wall time after which this call ends, the teacher's translations included; above 0.
        gate: The limits that the student is checked against before training; None sets no limits.
        progress: A context that receives the progress of the teacher's search; left before training begins.
        console: For the progress of training and notes; None is silent.

    Returns:
        The finished run in the first process, None in the others.

    Raises:
        UsageError: If options exclude each other, do not go with the level, or are out of range, ``hypotheses`` is
            elsewhere in ``out``, or a new run would replace a model that it reads.
        ModelError: If the teacher cannot be loaded, or is of another architecture than the data asks for.
        DataError: If the data is damaged, does not fit student or teacher, or ``hypotheses`` are others or damaged.
        ConfigError: If the config is invalid.
        OverBudgetError: If the student is over a limit of the gate.
        TrainingError: If the student cannot learn from this teacher at the level, ``out`` cannot be resumed, or a
            signal or the end of the time stopped the call; the same call goes on from there, with ``resume`` once
            training has begun.
        OutputError: If ``out`` or ``hypotheses`` hold something else, or a write fails.
    """
    check_options(resume=resume, force=force, threads=threads, max_minutes=max_minutes)
    soft = {"temperature": temperature, "label_weight": label_weight}
    targets: dict[str, Any] = {"beam": beam, "n_best": n_best, "reference_weight": reference_weight}
    targets |= {"interpolation": interpolation or None, "hypotheses": hypotheses, "runtime": runtime}
    if level is not None and level not in LEVELS:
        raise UsageError(f"--level: {expected_one_of(LEVELS, level)}")
    _check_level(level, soft=soft, targets=targets)
    # Both are made, whatever the level, so that a value out of range is told before anything else.
    softened, sequence = _soft_targets(soft), _sequence_targets(targets)
    limit = TimeLimit(max_minutes)
    first = os.environ.get("RANK", "0") == "0"
    place = Path(out) / HYPOTHESES_DIRECTORY if hypotheses is None else Path(hypotheses)
    _check_place(place, Path(out))
    if not resume:
        members = (("that of --ensemble", member) for member in ensemble)
        check_sources(Path(out), [("the teacher's", teacher), *members, ("that of --init-from", init_from)])
    if first:
        from lite_nlp.tasks.translation.hypotheses import check_hypotheses

        check_destination(Path(out), resume=resume, force=force)
        if hypotheses is not None:
            check_hypotheses(place)
    student = load_config(config, overrides)
    opened = open_data(Path(data), student)
    fitted = fit_data(student, opened)
    if opened.teaching is None:
        raise TrainingError(
            f"{data}: expected data of a task that has distillation, found {task_of_data(opened.path).name}"
        )
    teachers = _load_teachers((teacher, *ensemble), opened.teaching)
    chosen, reason = (level, None) if level else _default_level(opened.teaching, teachers, fitted)
    _check_possible(chosen, opened.teaching, teachers, fitted, targets=targets)
    _check_level(chosen, soft=soft, targets=targets, reason=reason)
    initial = None if init_from is None else load_model(init_from)
    check_start(fitted, opened, init_from=initial)
    if gate is not None:
        target = fitted.name if isinstance(config, Config) else str(config)
        gate.check_model(fitted.model, target=target, vocabulary_of_data=True)

    def say(text: str) -> None:
        if console is not None and first:
            console.print(text, markup=False, soft_wrap=True)

    warnings: list[str] = []

    def warn(text: str) -> None:
        say(f"warning: {text}")
        warnings.append(text)

    with progress if progress is not None and first else nullcontext(SilentProgress()) as receiver:
        lesson = Lesson(
            teachers=teachers,
            runtime=runtime or "torch",
            soft=None if chosen == "sequence" else softened,
            targets=None if chosen == "word" else sequence,
            hypotheses=place,
            resume=resume,
            force=force,
            first=first,
            threads=threads,
            limit=limit,
            progress=receiver,
            say=say,
            warn=warn,
        )
        if resume and first:
            check_resume(fitted, opened, out=Path(out), distillation=lesson.identity, init_from=initial)
        say(f"distillation from {lesson.name}, level {chosen}")
        if reason is not None:
            say(f"level {chosen} alone; {reason}")
        objective = opened.teaching.objective(lesson)
    left = limit.seconds_left
    return train_fitted(
        fitted,
        replace(opened, objective=objective, warnings=tuple(warnings)),
        out=Path(out),
        resume=resume,
        force=force,
        init_from=initial,
        threads=threads,
        max_minutes=None if left is None else max(left / 60.0, _LEAST_MINUTES),
        console=console,
        announce=fitted != student,
    )


def _soft_targets(values: Mapping[str, Any]) -> SoftTargets:
    return SoftTargets(**{name: value for name, value in values.items() if value is not None})


def _sequence_targets(values: Mapping[str, Any]) -> SequenceTargets:
    fields = SequenceTargets.__dataclass_fields__
    given = {name: value for name, value in values.items() if value is not None and name in fields}
    if given.get("interpolation"):
        given.setdefault("n_best", given.get("beam", BEAM))
    return SequenceTargets(**given)


def _check_place(hypotheses: Path, out: Path) -> None:
    """Refuse translations in the directory of the run, which would then not be empty when the run begins."""
    with refusals(hypotheses):
        place, run = (Path(os.path.realpath(path)) for path in (hypotheses, out))
    if place.is_relative_to(run) and not place.is_relative_to(run / HYPOTHESES_DIRECTORY):
        raise UsageError(
            f"--hypotheses: expected a directory outside --out {out}, or {HYPOTHESES_DIRECTORY} in it, "
            f"found {hypotheses}"
        )


def _check_level(
    level: Level | None, *, soft: Mapping[str, Any], targets: Mapping[str, Any], reason: str | None = None
) -> None:
    """Refuse options that have no effect at a level; ``reason`` is why it is this one, where nobody named it."""
    useless = {"word": targets, "sequence": soft}.get(level or "both", {})
    for name, value in useless.items():
        if value is not None:
            other = "sequence" if level == "word" else "word"
            chosen = level if reason is None else f"{level}, the default here: {reason}"
            raise UsageError(f"--{name.replace('_', '-')}: expected with --level {other} or both, found {chosen}")


def _load_teachers(sources: Sequence[str | Path | LoadedModel], teaching: Teaching) -> tuple[TeacherModel, ...]:
    """Load the teachers; several have to be able to translate together."""
    teachers = []
    for source in sources:
        loaded = load_model(source)
        if isinstance(source, LoadedModel):
            loaded = replace(loaded, model=copy.deepcopy(loaded.model).eval())
        teaching.check_teacher(loaded)
        teachers.append(TeacherModel(model=loaded, source=source, sha256=model_sha256(loaded)))
    first, *others = (teacher.model for teacher in teachers)
    for other in others:
        if other.tokenizer.to_json() != first.tokenizer.to_json():
            raise ModelError(
                f"--ensemble {other.name}: expected the vocabulary of {first.name}, with which it is to translate, "
                "found another one"
            )
    return tuple(teachers)


def _default_level(teaching: Teaching, teachers: Sequence[TeacherModel], student: Config) -> tuple[Level, str | None]:
    """The level where none was asked for, and why it is not the usual one of the task."""
    if "sequence" not in teaching.levels:
        return "word", None
    if len(teachers) > 1:
        return "sequence", "with --ensemble the teachers translate together"
    reason = teaching.refuses_words(teachers[0].model, student, outputs=True)
    return ("both", None) if reason is None else ("sequence", f"at word level: {reason}")


def _check_possible(
    level: Level,
    teaching: Teaching,
    teachers: Sequence[TeacherModel],
    student: Config,
    *,
    targets: Mapping[str, Any],
) -> None:
    """Refuse a level that the task does not have, or whose condition teachers and student do not meet."""
    architecture = f"model.architecture = {student.model.architecture!r}"
    if level not in teaching.levels:
        raise UsageError(f"--level: expected {' or '.join(teaching.levels)} with {architecture}, found {level}")
    if "sequence" not in teaching.levels:
        given = [name for name, value in targets.items() if value is not None]
        for name in ("ensemble", *given) if len(teachers) > 1 else given:
            option = f"--{name.replace('_', '-')}"
            raise UsageError(f"{option}: expected a student that learns from sentence pairs, found {architecture}")
    if len(teachers) > 1 and level != "sequence":
        raise UsageError(f"--ensemble: expected --level sequence, at which several teachers translate, found {level}")
    outputs = level == "both"
    reason = None if level == "sequence" else teaching.refuses_words(teachers[0].model, student, outputs=outputs)
    if reason is not None:
        raise TrainingError(f"--level {level}: {reason}")
