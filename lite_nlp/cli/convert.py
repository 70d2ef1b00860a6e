"""``lite-nlp convert``: a trained model to another kind of model, to be finetuned by ``train --init-from``."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from lite_nlp.cli.console import out, print_json
from lite_nlp.cli.translator_source import ModelArgument
from lite_nlp.core.files import atomic_directory, check_output

if TYPE_CHECKING:
    from lite_nlp.artifacts.models import LoadedModel
    from lite_nlp.config.preset import Config
    from lite_nlp.models.build import Model
    from lite_nlp.models.conversion import Conversion

__all__ = ["app"]

app = typer.Typer(help="Convert a trained model to another kind of model.", no_args_is_help=True)

#: Features per head of the paper's language model, and of its cross-attention in translation.
_FEATURE_SIZE: Final = 32


class FeatureMapName(StrEnum):
    """What turns queries and keys into features."""

    T2R = "t2r"
    ELU = "elu"
    RANDOM_FEATURES = "random-features"


@app.callback()
def _convert() -> None:
    """With a callback the only command keeps its name."""


@app.command()
def t2r(
    out_directory: Annotated[Path, typer.Option("--out", metavar="DIR", help="Model directory to write.")],
    model: ModelArgument = None,
    feature_size: Annotated[
        int | None,
        typer.Option(
            "--feature-size", min=1, help=f"Features per head of self- and cross-attention; else {_FEATURE_SIZE}."
        ),
    ] = None,
    cross: Annotated[
        int | None, typer.Option("--cross", min=0, help="Features per head of cross-attention; 0 leaves it.")
    ] = None,
    causal: Annotated[
        int | None,
        typer.Option("--causal", min=0, help="Features per head of the decoder's self-attention; 0 leaves it."),
    ] = None,
    keep_every: Annotated[
        int,
        typer.Option("--keep-every", min=0, help="Every n-th decoder layer from the top keeps softmax; 0: none does."),
    ] = 0,
    feature_map: Annotated[
        FeatureMapName, typer.Option("--feature-map", help="The learned map of T2R, or a fixed map to compare with.")
    ] = FeatureMapName.T2R,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the new feature maps.")] = 1,
    force: Annotated[bool, typer.Option("--force", help="Overwrite --out.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Swap the decoder's softmax attention for linear attention, whose state does not grow with the text.

    The result does its task badly until it is finetuned: lite-nlp train DIR --init-from DIR --data DATA --out RUN.
    """
    if feature_map is FeatureMapName.ELU:
        for option, value in (("--feature-size", feature_size), ("--cross", cross), ("--causal", causal)):
            if value:
                raise typer.BadParameter(
                    f"{option}: elu has a head's channels as features, expected none, found {value}"
                )
    check_output(out_directory, force=force)

    from lite_nlp.artifacts.directory import save_model_directory
    from lite_nlp.artifacts.models import load_model
    from lite_nlp.config.blocks import CrossAttentionConfig, DecoderConfig
    from lite_nlp.models.conversion import Conversion, convert_config, convert_model

    loaded = load_model(model)
    default = 0 if feature_map is FeatureMapName.ELU else feature_size or _FEATURE_SIZE
    # Where there is no such attention, only asking for it by name is a mistake.
    architecture = loaded.config.model
    has_self = isinstance(architecture, DecoderConfig) and architecture.attention_dim
    conversion = Conversion(
        feature_map=feature_map.value,
        causal=_size(causal, default if has_self else None),
        cross=_size(cross, default if isinstance(architecture, CrossAttentionConfig) else None),
        keep_every=keep_every,
    )
    config = convert_config(loaded.config, conversion, name=loaded.name)
    converted = convert_model(loaded.model, config, seed=seed)
    with atomic_directory(out_directory, force=force) as directory:
        save_model_directory(
            directory,
            config=config,
            state=converted.state_dict(),
            tokenizer_json=loaded.tokenizer.to_json(),
            metrics=_metrics(loaded, conversion, seed),
        )
    figures = _figures(loaded, config, converted, conversion)
    if as_json:
        print_json({"model": loaded.name, "out": str(out_directory), **figures})
    else:
        _print_figures(loaded.name, out_directory, figures)


def _size(asked: int | None, default: int | None) -> int | None:
    """Features of one kind of attention; None leaves it as it is."""
    if asked is None:
        return default
    return asked or None


def _metrics(loaded: "LoadedModel", conversion: "Conversion", seed: int) -> dict[str, Any]:
    """The languages stay; scores of the model before the swap must not pass for those of the result."""
    kept = {"languages": loaded.metrics["languages"]} if "languages" in loaded.metrics else {}
    made = {
        "model": loaded.name,
        "feature_map": conversion.feature_map,
        "causal": conversion.causal,
        "cross": conversion.cross,
        "keep_every": conversion.keep_every,
        "seed": seed,
    }
    return {**kept, "converted_from": {**made, "metrics": loaded.metrics}}


def _figures(loaded: "LoadedModel", config: "Config", converted: "Model", conversion: "Conversion") -> dict[str, Any]:
    from lite_nlp.models.conversion import constant_state_bytes, softmax_layers

    before, after = (sum(tensor.numel() for tensor in model.parameters()) for model in (loaded.model, converted))
    return {
        "feature_map": conversion.feature_map,
        "converted": {"causal": conversion.causal is not None, "cross": conversion.cross is not None},
        # None with elu, and where nothing was swapped.
        "feature_size": {"causal": conversion.causal or None, "cross": conversion.cross or None},
        "softmax_layers": softmax_layers(config),
        "params": {"before": before, "after": after, "added": after - before},
        "state_bytes": constant_state_bytes(converted),
    }


def _print_figures(name: str, directory: Path, figures: dict[str, Any]) -> None:
    params = figures["params"]
    swapped = " and ".join(
        f"{kind}-attention" for kind, key in (("self", "causal"), ("cross", "cross")) if figures["converted"][key]
    )
    out.print(
        f"{directory}: {name} with linear {swapped} ({figures['feature_map']}), {params['added']:,} parameters more"
        f" ({params['added'] / params['before']:.2%}), state {figures['state_bytes']:,} bytes at any length",
        markup=False,
        soft_wrap=True,
    )
