"""``lite-nlp classify``: the label of each line, in order, as soon as it is known."""

from typing import Annotated

import typer

from lite_nlp.artifacts.classifiers import open_classifier
from lite_nlp.cli.console import ProgressBars, print_json, warn
from lite_nlp.cli.line_files import ForceOption, InputOption, OutputOption, open_input, write_lines
from lite_nlp.cli.options import BatchOption, NamedModelArgument, RuntimeOption, ThreadsOption
from lite_nlp.core.outputs import check_output_file
from lite_nlp.decoding.classify import Classification

__all__ = ["classify"]


def classify(
    model: NamedModelArgument,
    text: Annotated[
        list[str] | None,
        typer.Option(
            "--text", help="Text to classify instead of a file; of a pair, each sentence.", show_default=False
        ),
    ] = None,
    runtime: RuntimeOption = None,
    input_path: InputOption = None,
    output: OutputOption = None,
    batch: BatchOption = 16,
    threads: ThreadsOption = None,
    force: ForceOption = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object, with the probabilities of all labels.")
    ] = False,
) -> None:
    """Classify lines of text, or of two sentences with a tab between them: label, tab and probability per line."""
    from lite_nlp.decoding.classify import split_sentences
    from lite_nlp.decoding.lines import read_chunks

    if output is not None:
        check_output_file(output, force=force)
    with (
        open_input(["\t".join(text)] if text else None, input_path) as (stream, name),
        ProgressBars() as progress,
        open_classifier(model, runtime=runtime, threads=threads, batch=batch, warn=warn, progress=progress) as opened,
    ):
        examples = split_sentences(read_chunks(stream, name), sentences=opened.sentences, name=name)
        found = opened.classify_chunks(examples)
        if not as_json:
            write_lines(map(_line, found), output, force=force)
            return
        outputs = list(found)
        if output is not None:
            write_lines(map(_line, outputs), output, force=force)
    print_json(
        {
            "model": opened.name,
            "runtime": opened.runtime,
            "labels": list(opened.labels),
            "outputs": [
                {
                    "label": None if one is None else one.label,
                    "probability": None if one is None else one.probability,
                    "probabilities": None if one is None else one.probabilities,
                }
                for one in outputs
            ],
        }
    )


def _line(found: Classification | None) -> str:
    """Label and probability; nothing for a blank line."""
    return "" if found is None else f"{found.label}\t{found.probability:.4f}"
