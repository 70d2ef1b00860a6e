"""``lite-nlp convert``: conversion of a trained model, to be finetuned by ``train --init-from``."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from lite_nlp.api.convert import FEATURE_SIZE, ConvertedModel, convert_to_t2r
from lite_nlp.cli.console import out, print_json
from lite_nlp.cli.options import ModelArgument
from lite_nlp.core.bounds import MAX_FEATURES, MAX_SEED, MAX_TOKENS

__all__ = ["app"]

app = typer.Typer(help="Convert a trained model to another kind of model.", no_args_is_help=True)


class FeatureMapName(StrEnum):
    """Feature maps of queries and keys."""

    T2R = "t2r"
    ELU = "elu"
    RANDOM_FEATURES = "random-features"


@app.callback()
def _convert() -> None:
    """A callback, without which the only command would lose its name."""


@app.command()
def t2r(
    out_directory: Annotated[Path, typer.Option("--out", metavar="DIR", help="Model directory to write.")],
    model: ModelArgument = None,
    feature_size: Annotated[
        int | None,
        typer.Option(
            "--feature-size",
            min=1,
            max=MAX_FEATURES,
            help=f"Features per head of self- and cross-attention; else {FEATURE_SIZE}.",
        ),
    ] = None,
    cross: Annotated[
        int | None,
        typer.Option("--cross", min=0, max=MAX_FEATURES, help="Features per head of cross-attention; 0 keeps softmax."),
    ] = None,
    causal: Annotated[
        int | None,
        typer.Option(
            "--causal",
            min=0,
            max=MAX_FEATURES,
            help="Features per head of the decoder's self-attention; 0 keeps softmax.",
        ),
    ] = None,
    keep_every: Annotated[
        int,
        typer.Option(
            "--keep-every",
            min=0,
            max=MAX_TOKENS,
            help="Every n-th decoder layer from the top keeps softmax; 0: none does.",
        ),
    ] = 0,
    feature_map: Annotated[
        FeatureMapName,
        typer.Option("--feature-map", help="The learned feature map of T2R, or a fixed one for comparison."),
    ] = FeatureMapName.T2R,
    seed: Annotated[
        int | None,
        typer.Option("--seed", min=0, max=MAX_SEED, help="Seed of the new feature maps; else 1.", show_default=False),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite --out.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Replace the decoder's softmax attention by linear attention, whose state does not grow with the text.

    The result performs poorly until it is finetuned: lite-nlp train DIR --init-from DIR --data DATA --out RUN.
    """
    if seed is not None and feature_map is FeatureMapName.ELU:
        raise typer.BadParameter("--seed: expected no --feature-map elu with it, which draws nothing")
    converted = convert_to_t2r(
        model,
        out=out_directory,
        feature_size=feature_size,
        cross=cross,
        causal=causal,
        keep_every=keep_every,
        feature_map=feature_map.value,
        seed=1 if seed is None else seed,
        force=force,
    )
    if as_json:
        print_json({"model": converted.name, "out": str(out_directory), **converted.figures})
    else:
        _print_figures(converted)


def _print_figures(converted: ConvertedModel) -> None:
    figures: dict[str, Any] = converted.figures
    params = figures["params"]
    swapped = " and ".join(
        f"{kind}-attention" for kind, key in (("self", "causal"), ("cross", "cross")) if figures["converted"][key]
    )
    growing = ", beside keys and values of softmax, which grow with the text" if converted.state_grows else ""
    out.print(
        f"{converted.path}: {converted.name} with linear {swapped} ({figures['feature_map']}), {params['added']:,}"
        f" additional parameters ({params['added'] / params['before']:.2%}), state of {figures['state_bytes']:,} bytes"
        f" at any length{growing}",
        soft_wrap=True,
    )
