"""``lite-nlp generate``: each line continued by a language model, in order, as soon as it is ready."""

from typing import Annotated

import typer

from lite_nlp.artifacts.generators import open_generator
from lite_nlp.cli.console import ProgressBars, print_json, warn
from lite_nlp.cli.line_files import ForceOption, InputOption, OutputOption, open_input, write_lines
from lite_nlp.cli.options import BatchOption, NamedModelArgument, RuntimeOption, ThreadsOption
from lite_nlp.cli.quantities import check_number
from lite_nlp.core.bounds import MAX_SEED, MAX_TEMPERATURE, MAX_TOKENS, MAX_VOCAB_SIZE, MIN_TEMPERATURE
from lite_nlp.core.outputs import check_output_file

__all__ = ["generate"]


def generate(
    model: NamedModelArgument,
    text: Annotated[
        list[str] | None, typer.Option("--text", help="Text to continue instead of a file; repeatable.")
    ] = None,
    runtime: RuntimeOption = None,
    input_path: InputOption = None,
    output: OutputOption = None,
    max_tokens: Annotated[
        int, typer.Option("--max-tokens", min=1, max=MAX_TOKENS, help="Most tokens that a line is continued by.")
    ] = 100,
    temperature: Annotated[
        float | None,
        typer.Option(
            "--temperature",
            min=MIN_TEMPERATURE,
            max=MAX_TEMPERATURE,
            callback=check_number,
            help="Draw each token by its probability; below 1, likely ones are drawn more often. Else the likeliest "
            "is taken, or with --top-k 1.0.",
            show_default=False,
        ),
    ] = None,
    top_k: Annotated[
        int | None,
        typer.Option(
            "--top-k", min=1, max=MAX_VOCAB_SIZE, help="Draw among so many likeliest tokens.", show_default=False
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option("--seed", min=0, max=MAX_SEED, help="Of the tokens that are drawn; else 1.", show_default=False),
    ] = None,
    batch: BatchOption = 16,
    threads: ThreadsOption = None,
    force: ForceOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Continue lines of text with a language model: one output line per input line, in order."""
    if seed is not None and temperature is None and top_k is None:
        raise typer.BadParameter("--seed: expected with --temperature or --top-k, without which nothing is drawn")
    from lite_nlp.decoding.lines import read_chunks

    if output is not None:
        check_output_file(output, force=force)
    with (
        open_input(text, input_path) as (stream, name),
        ProgressBars() as progress,
        open_generator(
            model,
            runtime=runtime,
            threads=threads,
            batch=batch,
            max_tokens=max_tokens,
            temperature=temperature,
            top_k=top_k,
            seed=1 if seed is None else seed,
            warn=warn,
            progress=progress,
        ) as opened,
    ):
        found = opened.generate_chunks(read_chunks(stream, name))
        if not as_json:
            write_lines((one.text for one in found), output, force=force)
            return
        outputs = list(found)
        if output is not None:
            write_lines((one.text for one in outputs), output, force=force)
    options = opened.options
    print_json(
        {
            "model": opened.name,
            "runtime": opened.runtime,
            "max_tokens": options.max_tokens,
            "temperature": options.temperature,
            "top_k": options.top_k,
            "seed": options.seed if options.samples else None,
            "outputs": [
                {
                    "prompt": one.prompt,
                    "continuation": one.continuation,
                    "text": one.text,
                    "tokens": one.tokens,
                    "log_prob": one.log_prob,
                    "ended": one.ended,
                }
                for one in outputs
            ],
        }
    )
