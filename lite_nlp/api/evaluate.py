"""Evaluation of a model at its task, behind ``lite-nlp evaluate``."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from lite_nlp.artifacts.models import LoadedModel, read_config, resolve_source
from lite_nlp.artifacts.translators import SearchChoices
from lite_nlp.core.bounds import MAX_BATCH, MAX_THREADS, check_range, plain_integer
from lite_nlp.core.display import displayable
from lite_nlp.core.errors import UsageError
from lite_nlp.core.extras import needs_extra
from lite_nlp.core.files import write_text
from lite_nlp.core.outputs import check_output_file
from lite_nlp.core.progress import Progress, SilentProgress
from lite_nlp.data.directory import read_overlaps
from lite_nlp.decoding.translate import LongInput
from lite_nlp.tasks.registry import Task, task_of_architecture, task_of_data, task_of_metric
from lite_nlp.tasks.room import Evaluation, EvaluationRequest
from lite_nlp.tasks.usefulness import overlap_warnings

__all__ = ["evaluate_model"]

_BATCH: Final = 64


@needs_extra("evaluate", "train")
def evaluate_model(
    model: str | Path | LoadedModel | None = None,
    *,
    data: str | Path | None = None,
    split: str | None = None,
    source: str | Path | None = None,
    reference: str | Path | None = None,
    metric: str | None = None,
    runtime: str | None = None,
    threads: int | None = None,
    beam: int = 1,
    batch: int | None = None,
    length_penalty: float | None = None,
    no_repeat_ngram: int | None = None,
    min_length: int | None = None,
    max_length: int | None = None,
    long_input: LongInput | None = None,
    lowercase: bool = False,
    window: int | None = None,
    context: int | None = None,
    output: str | Path | None = None,
    force: bool = False,
    progress: Progress | None = None,
    warn: Callable[[str], None] | None = None,
) -> Evaluation:
    """Score a model at its task: BLEU and chrF, ROUGE, perplexity or accuracy.

    The search is that of ``open_translator`` with the same options, so the model's ``[decoding]`` section applies here
    too. An option that does not apply to the task is refused.

    Args:
        model: A MODEL (path or shipped name) or a loaded model; None is the default shipped model.
        data: Data directory of the test set.
        split: Split of the data directory; None is ``test``.
        source: Text file of sources, in place of a data directory; for sentence pairs only.
        reference: Text file of their references, line by line.
        metric: ``bleu`` or ``rouge``; None is the metric of the data's task.
        runtime: Runtime of the model; None picks onnx for a bundle and torch for anything else.
        threads: Threads of the runtime, 1 to 512; None is ``OMP_NUM_THREADS``, or one per core.
        beam: Hypotheses kept per sentence, 1 to 256.
        batch: Most sentences decoded at once, 1 to 65,536; None is 64.
        length_penalty: Exponent of the length penalty. This and the next four are described in ``open_translator``.
        no_repeat_ngram: No run of so many tokens occurs twice in an output.
        min_length: Fewest tokens of an output.
        max_length: Most tokens of an output.
        long_input: An input too long for the model: ``split`` it into pieces or ``truncate`` it.
        lowercase: Ignore case.
        window: Tokens that a language model reads at once; None is as in training.
        context: Least context of a scored token of a language model; None is half of the window.
        output: File for the translations or labels, one for each example.
        force: Overwrite ``output``.
        progress: Receives the progress.
        warn: Receives warnings about lines of text; None logs them.

    Returns:
        ``scores`` by name: BLEU, chrF, ROUGE and accuracy from 0 to 100, perplexity per token, and the ends of 95 %
        intervals. ``facts`` is what ``lite-nlp evaluate --json`` prints, ``predictions`` are the outputs, and
        ``warnings`` say what is wrong with the model by these.

    Raises:
        UsageError: If no test set is named, a number is out of range, or an option does not apply to the task.
        OutputError: If ``output`` exists and ``force`` is false, or the system refuses the write.
        LiteNlpError: If the model or the test set is damaged, or one does not fit the other.
    """
    check_range("--threads", threads, 1, MAX_THREADS)
    check_range("--batch", batch, 1, MAX_BATCH)
    if output is not None:
        check_output_file(Path(output), force=force)
        for option, read in (("--input", source), ("--reference", reference)):
            if read is not None and Path(output).exists() and Path(read).exists() and Path(output).samefile(read):
                raise UsageError(
                    f"--output: expected another file than {option}, found {displayable(str(output))} in both"
                )
    architecture = (
        model.config.model.architecture
        if isinstance(model, LoadedModel)
        else read_config(resolve_source(model)).model.architecture
    )
    path = None if data is None else Path(data)
    in_files = source is not None or reference is not None
    task = _find_task(architecture, None if in_files else path, metric)
    given = {
        "input": source, "reference": reference, "output": output, "metric": metric,
        "runtime": None if runtime == "torch" else runtime, "beam": None if beam == 1 else beam, "batch": batch,
        "length_penalty": length_penalty, "no_repeat_ngram": no_repeat_ngram, "min_length": min_length,
        "max_length": max_length, "long_input": long_input, "lowercase": lowercase or None, "window": window,
        "context": context,
    }  # fmt: skip
    for option, value in given.items():
        if value is not None and option not in task.options:
            raise UsageError(f"--{option.replace('_', '-')} does not go with a model of architecture {architecture}.")
    request = EvaluationRequest(
        model=model,
        data=path,
        split=split,
        source=None if source is None else Path(source),
        reference=None if reference is None else Path(reference),
        runtime=runtime,
        threads=threads,
        batch=batch or _BATCH,
        choices=SearchChoices(
            beam=plain_integer(beam),
            length_penalty=length_penalty,
            no_repeat_ngram=no_repeat_ngram,
            min_length=min_length,
            max_length=max_length,
            long_input=long_input,
        ),
        lowercase=lowercase,
        window=plain_integer(window),
        context=plain_integer(context),
        progress=progress or SilentProgress(),
        warn=warn,
    )
    found = task.room().evaluate(request)
    if path is not None:
        overlaps = read_overlaps(path, split or "test")
        found = replace(found, warnings=(*found.warnings, *overlap_warnings(split or "test", overlaps)))
    found = replace(found, facts={**found.facts, "warnings": list(found.warnings)})
    if output is not None:
        write_text(Path(output), "".join(f"{line}\n" for line in found.predictions), force=force)
    return found


def _find_task(architecture: str, data: Path | None, metric: str | None) -> Task:
    """The scored task: that of the metric, else that of the data, else the architecture's default."""
    own = task_of_architecture(architecture)
    if metric is not None and "metric" in own.options:
        asked = task_of_metric(metric)
        if architecture not in asked.architectures:
            raise UsageError(f"--metric {metric} does not go with a model of architecture {architecture}.")
        return asked
    if data is not None:
        found = task_of_data(data)
        if architecture in found.architectures:
            return found
    return own
