"""``lite-nlp translate``: one output line per input line, in order, as soon as it is translated."""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from lite_nlp.artifacts.translators import open_translator
from lite_nlp.cli.console import ProgressBars, warn
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
from lite_nlp.core.files import atomic_file
from lite_nlp.core.outputs import check_output_file

__all__ = ["translate"]


def translate(
    model: ModelArgument = None,
    text: Annotated[str | None, typer.Option("--text", help="Text to translate instead of a file.")] = None,
    runtime: RuntimeOption = None,
    input_path: Annotated[
        Path | None, typer.Option("--input", metavar="FILE", help="Text file, .gz or not; else standard input.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="Text file to write; else standard output.")
    ] = None,
    beam: BeamOption = 1,
    batch: BatchOption = 16,
    threads: ThreadsOption = None,
    length_penalty: LengthPenaltyOption = None,
    no_repeat_ngram: NgramOption = None,
    min_length: MinLengthOption = None,
    max_length: MaxLengthOption = None,
    long_input: LongInputOption = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite --output.")] = False,
) -> None:
    """Translate lines of text: one output line per input line, in order."""
    if text is not None and input_path is not None:
        raise typer.BadParameter("--text and --input: expected one of them, found both")
    from lite_nlp.decoding.lines import read_chunks

    if output is not None:
        check_output_file(output, force=force)
    with _open_input(text, input_path) as (stream, name), ProgressBars() as progress:
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
        translations = opened.translate_chunks(read_chunks(stream, name))
        if output is None:
            _write(translations, sys.stdout.buffer)
            return
        with atomic_file(output, force=force) as partial, partial.open("wb") as file:
            _write(translations, file)


@contextmanager
def _open_input(text: str | None, path: Path | None) -> Iterator[tuple[BinaryIO, str]]:
    from lite_nlp.decoding.lines import open_lines

    if text is not None:
        # The bytes as they were typed: Python escapes those that are not UTF-8 in the argument.
        yield io.BytesIO(os.fsencode(text)), "--text"
        return
    with open_lines(path) as opened:
        yield opened


def _write(lines: Iterator[str], stream: BinaryIO) -> None:
    """Write each line as soon as it is translated, in UTF-8 whatever the locale."""
    for line in lines:
        stream.write(line.encode("utf-8") + b"\n")
        stream.flush()
