"""Conversion of a trained model to another kind of model, behind ``lite-nlp convert``. Needs torch when it runs."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lite_nlp.artifacts.model_files import MODEL_FILES
from lite_nlp.artifacts.models import LoadedModel, load_model
from lite_nlp.config.blocks import CrossAttentionConfig, DecoderConfig, LayeredConfig
from lite_nlp.config.kinds import ATTENTION_KINDS, AttentionKind
from lite_nlp.core.bounds import MAX_FEATURES, MAX_SEED, MAX_TOKENS, check_range
from lite_nlp.core.errors import UsageError
from lite_nlp.core.extras import needs_extra
from lite_nlp.core.files import atomic_directory
from lite_nlp.core.outputs import check_output_directory

if TYPE_CHECKING:
    from lite_nlp.config.preset import Config
    from lite_nlp.models.build import Model
    from lite_nlp.models.conversion import Conversion

__all__ = ["FEATURE_SIZE", "ConvertedModel", "convert_to_t2r"]

#: Features per head of the paper's language model, and of its cross-attention in translation.
FEATURE_SIZE: Final = 32


@dataclass(frozen=True, kw_only=True)
class ConvertedModel:
    """A converted model.

    Attributes:
        name: Name of the original model.
        path: Its model directory.
        figures: Converted attention, parameters before and after, and bytes of state, as JSON takes them.
        state_grows: Whether the decoder's state still grows with the text: layers that keep softmax do that, and SAFE.
    """

    name: str
    path: Path
    figures: dict[str, Any]
    state_grows: bool


@needs_extra("convert", "train")
def convert_to_t2r(
    model: str | Path | LoadedModel | None = None,
    *,
    out: str | Path,
    feature_size: int | None = None,
    cross: int | None = None,
    causal: int | None = None,
    keep_every: int = 0,
    feature_map: AttentionKind = "t2r",
    seed: int = 1,
    force: bool = False,
) -> ConvertedModel:
    """Replace the decoder's softmax attention by linear attention (T2R, Kasai et al. 2021, section 2.2).

    All other weights are kept. The result performs poorly until it is finetuned, by ``train_model(out, init_from=out,
    ...)``.

    Args:
        model: A MODEL (path or shipped name) or a loaded model; None is the default shipped model.
        out: Model directory to write.
        feature_size: Features per head of self- and cross-attention, 1 to 16,384; None is 32.
        cross: Features per head of cross-attention, 0 to 16,384; 0 leaves it as it is, None is ``feature_size``.
        causal: Features per head of the decoder's self-attention, likewise.
        keep_every: Every n-th decoder layer from the top keeps softmax, 2 to the number of layers; 0: none does.
        feature_map: ``t2r``, learned, or for comparison ``elu`` or ``random-features``, which are fixed.
        seed: Seed of the new feature maps' weights, at least 0.
        force: Overwrite ``out``.

    Returns:
        The name of the original and the directory of the result; ``figures`` are the other keys of ``convert t2r
        --json``.

    Raises:
        UsageError: If a number is out of range, ``cross`` and ``causal`` are both 0, or a size is given for a feature
            map whose features are a head's channels.
        ModelError: If the model has no such attention, or has linear attention already.
        ConfigError: If a size does not fit the model.
        OutputError: If ``out`` exists and ``force`` is false, or the system refuses a write.
    """
    # An unknown map is refused later, when the config is validated.
    has_size = feature_map not in ATTENTION_KINDS or ATTENTION_KINDS[feature_map].has_feature_size
    if not has_size:
        for option, value in (("--feature-size", feature_size), ("--cross", cross), ("--causal", causal)):
            if value:
                raise UsageError(
                    f"{option}: {feature_map} has a head's channels as features, expected none, found {value}"
                )
    check_range("--feature-size", feature_size, 1, MAX_FEATURES)
    for option, value in (("--cross", cross), ("--causal", causal)):
        check_range(option, value, 0, MAX_FEATURES)
    if cross == 0 and causal == 0:
        raise UsageError("--causal and --cross: expected features of at least one of them, found 0 for both")
    check_range("--keep-every", keep_every, 0, MAX_TOKENS)
    check_range("--seed", seed, 0, MAX_SEED)
    out = Path(out)

    from lite_nlp.artifacts.directory import save_model_directory
    from lite_nlp.models.conversion import Conversion, convert_config, convert_model, softmax_layers

    check_output_directory(out, force=force, owned=MODEL_FILES)
    loaded = load_model(model)
    default = (feature_size or FEATURE_SIZE) if has_size else 0
    architecture = loaded.config.model
    if isinstance(architecture, DecoderConfig) and keep_every:
        layers = architecture.num_decoder_layers
        if not 2 <= keep_every <= layers:
            raise UsageError(
                f"--keep-every: expected 0, or 2 to the number of decoder layers ({layers}), found {keep_every}"
            )
    # For a model without such attention, only an explicit option is an error.
    has_self = isinstance(architecture, DecoderConfig) and architecture.attention_dim
    conversion = Conversion(
        feature_map=feature_map,
        causal=_size(causal, default if has_self else None),
        cross=_size(cross, default if isinstance(architecture, CrossAttentionConfig) else None),
        keep_every=keep_every,
    )
    config = convert_config(loaded.config, conversion, name=loaded.name)
    converted = convert_model(loaded.model, config, seed=seed)
    with atomic_directory(out, force=force, owned=MODEL_FILES) as directory:
        save_model_directory(
            directory,
            config=config,
            state=converted.state_dict(),
            tokenizer_json=loaded.tokenizer.to_json(),
            metrics=_metrics(loaded, conversion, config, seed),
        )
    figures = _figures(loaded, config, converted, conversion)
    has_safe = isinstance(architecture, LayeredConfig) and architecture.embedding == "safe"
    grows = bool(softmax_layers(config)) or has_safe
    return ConvertedModel(name=loaded.name, path=out, figures=figures, state_grows=grows)


def _size(asked: int | None, default: int | None) -> int | None:
    """Features of one kind of attention; None leaves it as it is."""
    if asked is None:
        return default
    return asked or None


def _metrics(loaded: LoadedModel, conversion: "Conversion", config: "Config", seed: int) -> dict[str, Any]:
    """Metrics of the result: the languages, and the original's scores under a key of their own."""
    kept = {"languages": loaded.metrics["languages"]} if "languages" in loaded.metrics else {}
    made = {
        "model": loaded.name,
        "feature_map": conversion.feature_map,
        "causal": conversion.causal,
        "cross": conversion.cross,
        "keep_every": getattr(config.model, "keep_softmax_every", 0),
        "seed": seed,
    }
    return {**kept, "converted_from": {**made, "metrics": loaded.metrics}}


def _figures(loaded: LoadedModel, config: "Config", converted: "Model", conversion: "Conversion") -> dict[str, Any]:
    from lite_nlp.models.conversion import constant_state_bytes, softmax_layers

    before, after = (sum(tensor.numel() for tensor in model.parameters()) for model in (loaded.model, converted))
    return {
        "feature_map": conversion.feature_map,
        "converted": {"causal": conversion.causal is not None, "cross": conversion.cross is not None},
        # None for elu, and for attention that was not converted.
        "feature_size": {"causal": conversion.causal or None, "cross": conversion.cross or None},
        "softmax_layers": softmax_layers(config),
        "params": {"before": before, "after": after, "added": after - before},
        "state_bytes": constant_state_bytes(converted),
    }
