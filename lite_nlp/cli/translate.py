"""``lite-nlp translate``: one output line per input line, in order, as soon as it is translated."""

from typing import Annotated

import typer

from lite_nlp.artifacts.translators import open_translator
from lite_nlp.cli.console import ProgressBars, warn
from lite_nlp.cli.line_files import ForceOption, InputOption, OutputOption, open_input, write_lines
from lite_nlp.cli.options import (
    BatchOption,
    BeamOption,
    LengthPenaltyOption,
    LongInputOption,
    MaxLengthOption,
    MinLengthOption,
    ModelArgument,
    NgramOption,
    RuntimeOption,
    ThreadsOption,
)
from lite_nlp.core.outputs import check_output_file

__all__ = ["translate"]


def translate(
    model: ModelArgument = None,
    text: Annotated[
        list[str] | None, typer.Option("--text", help="Text to translate instead of a file; repeatable.")
    ] = None,
    runtime: RuntimeOption = None,
    input_path: InputOption = None,
    output: OutputOption = None,
    beam: BeamOption = 1,
    batch: BatchOption = 16,
    threads: ThreadsOption = None,
    length_penalty: LengthPenaltyOption = None,
    no_repeat_ngram: NgramOption = None,
    min_length: MinLengthOption = None,
    max_length: MaxLengthOption = None,
    long_input: LongInputOption = None,
    force: ForceOption = False,
) -> None:
    """Translate lines of text: one output line per input line, in order."""
    from lite_nlp.decoding.lines import read_chunks

    if output is not None:
        check_output_file(output, force=force)
    with open_input(text, input_path) as (stream, name), ProgressBars() as progress:
        opened = open_translator(
            model,
            runtime=runtime,
            threads=threads,
            beam=beam,
            batch=batch,
            length_penalty=length_penalty,
            no_repeat_ngram=no_repeat_ngram,
            min_length=min_length,
            max_length=max_length,
            long_input=None if long_input is None else long_input.value,
            warn=warn,
            progress=progress,
        )
        write_lines(opened.translate_chunks(read_chunks(stream, name)), output, force=force)
