"""MODEL arguments: a model directory, a ``.lnlp`` file, a bundle, or the name of a shipped model."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from lite_nlp.core.errors import ContainerError, ModelError
from lite_nlp.core.parsing import parse_json_object
from lite_nlp.core.suggestions import did_you_mean_path

if TYPE_CHECKING:
    from lite_nlp.compress.lnlp.encodings import EncodedTensor
    from lite_nlp.config.preset import Config
    from lite_nlp.data.tokenizer import Tokenizer
    from lite_nlp.models.build import Model
    from lite_nlp.models.transformer import EncoderDecoder

__all__ = [
    "DEFAULT_MODEL",
    "LoadedModel",
    "ShippedModel",
    "Source",
    "list_shipped",
    "load_model",
    "read_config",
    "read_tokenizer",
    "resolve_source",
]

_ASSETS = Path(__file__).parent.parent / "assets"

#: The shipped model that is used without a MODEL argument.
DEFAULT_MODEL: Final = "tatoeba-en-de"


@dataclass(frozen=True)
class ShippedModel:
    """A model that comes with the package."""

    name: str
    path: Path
    card: dict[str, Any]


@dataclass(frozen=True)
class Source:
    """A MODEL argument, resolved."""

    kind: Literal["directory", "container", "bundle"]
    path: Path
    name: str


@dataclass(frozen=True)
class LoadedModel:
    """A model in evaluation mode with its config, tokenizer, name and metrics.

    Attributes:
        stored: The tensors as its file has them; empty for a model directory, whose weights are floats.
    """

    model: "Model"
    config: "Config"
    tokenizer: "Tokenizer"
    name: str
    metrics: dict[str, Any]
    stored: "Mapping[str, EncodedTensor]" = field(default_factory=dict, repr=False)

    @property
    def encoder_decoder(self) -> "EncoderDecoder":
        """The model as an encoder-decoder.

        Raises:
            ModelError: If it is of another architecture.
        """
        from lite_nlp.models.build import as_encoder_decoder

        return as_encoder_decoder(self.model, source=self.name)


def list_shipped() -> list[ShippedModel]:
    """The models in ``lite_nlp/assets``, sorted by name: compact bundles, each with a ``.json`` card beside it."""
    return [
        ShippedModel(path.stem, path, json.loads(path.with_suffix(".json").read_text(encoding="utf-8")))
        for path in sorted(_ASSETS.glob("*.zip"))
    ]


def resolve_source(source: str | Path | None) -> Source:
    """Find what ``source`` names; None is the default shipped model.

    Raises:
        ModelError: If it names nothing, or something that is no model.
    """
    if source == "":
        raise ModelError("MODEL: expected a model directory, .lnlp file, bundle or shipped model, found an empty name")
    wanted = DEFAULT_MODEL if source is None else str(source)
    for shipped in list_shipped():
        if wanted == shipped.name:
            return Source("bundle", shipped.path, shipped.name)
    path = Path(wanted)
    try:
        is_directory, is_file = path.is_dir(), path.is_file()
    except OSError:
        # A name that no file can have, such as one that is too long.
        is_directory = is_file = False
    if is_directory:
        return Source("directory", path, path.resolve().name)
    if is_file and path.suffix == ".lnlp":
        return Source("container", path, path.stem)
    if is_file and path.suffix == ".zip":
        return Source("bundle", path, path.stem)
    names = ", ".join(shipped.name for shipped in list_shipped()) or "none"
    found = f"a file that ends in {path.suffix!r}" if is_file else "nothing there"
    hint = "" if is_file else did_you_mean_path(path, [shipped.name for shipped in list_shipped()])
    raise ModelError(
        f"{wanted}: expected a model directory, a .lnlp file, a bundle .zip or a shipped model ({names}), "
        f"found {found}{hint}"
    )


def read_config(source: Source) -> "Config":
    """The config inside a model directory, container or bundle; needs no torch.

    Raises:
        ModelError: If there is none.
        ConfigError: If it is malformed.
    """
    from lite_nlp.config.preset import load_config, parse_config

    if source.kind == "directory":
        if not (source.path / "config.toml").is_file():
            found = "a data directory" if (source.path / "data.json").is_file() else "a directory without it"
            raise ModelError(f"{source.path}: expected a model directory with config.toml, found {found}")
        return load_config(source.path / "config.toml")
    if source.kind == "container":
        from lite_nlp.compress.lnlp.container import read_container

        content = _member(read_container(source.path).files, "config.toml", source.path)
    else:
        from lite_nlp.export.runtime import open_stored

        content = open_stored(source.path).read("config.toml")
    return parse_config(content, name=str(source.path))


def read_tokenizer(source: Source) -> "Tokenizer":
    """The tokenizer inside a model directory, container or bundle; needs no torch.

    Raises:
        DataError: If it is damaged.
        ModelError: If the model is.
    """
    from lite_nlp.data.tokenizer import Tokenizer

    if source.kind == "directory":
        return Tokenizer.load(source.path / "tokenizer.json")
    if source.kind == "container":
        from lite_nlp.compress.lnlp.container import read_container

        content = _member(read_container(source.path).files, "tokenizer.json", source.path)
    else:
        from lite_nlp.artifacts.bundles import open_any_bundle

        content = open_any_bundle(source.path, runtime="torch").tokenizer_json
    return Tokenizer(content, f"{source.path}: tokenizer.json")


def _member(files: Mapping[str, bytes], name: str, path: Path) -> bytes:
    """A file that every container of a model holds."""
    if name not in files:
        raise ContainerError(f"{path}: expected a model with {name}, found {sorted(files) or 'no files'}")
    return files[name]


def load_model(model: str | Path | Source | LoadedModel | None = None) -> LoadedModel:
    """Load a model directory, container, compact bundle or shipped model for torch.

    Args:
        model: A path, the name of a shipped model, or what ``resolve_source`` found; None is the default shipped
            model. A loaded model is returned unchanged.

    Returns:
        The model in evaluation mode, with its config, tokenizer, name and metrics.

    Raises:
        ModelError: If ``model`` cannot be loaded, or its weights or tokenizer do not fit.
        ContainerError: If a container is damaged.
    """
    if isinstance(model, LoadedModel):
        return model
    import torch

    from lite_nlp.artifacts.directory import load_model_directory, model_from_state
    from lite_nlp.config.preset import parse_config
    from lite_nlp.data.tokenizer import Tokenizer

    resolved = model if isinstance(model, Source) else resolve_source(model)
    stored: Mapping[str, EncodedTensor] = {}
    if resolved.kind == "bundle":
        from lite_nlp.artifacts.bundles import read_bundled_model

        bundled = read_bundled_model(resolved.path)
        config, metrics = parse_config(bundled.config_toml, name=str(resolved.path)), bundled.metrics
        tokenizer_json, stored = bundled.tokenizer_json, bundled.stored
        state = {name: torch.from_numpy(array) for name, array in bundled.tensors.items()}
    elif resolved.kind == "directory":
        directory = load_model_directory(resolved.path)
        config, state, metrics = directory.config, directory.state, directory.metrics
        tokenizer_json = directory.tokenizer_json
    else:
        from lite_nlp.compress.lnlp.container import read_container

        container = read_container(resolved.path)
        config_toml, tokenizer_json, metrics_json = (
            _member(container.files, name, resolved.path) for name in ("config.toml", "tokenizer.json", "metrics.json")
        )
        config = parse_config(config_toml, name=f"{resolved.path}: config.toml")
        metrics = parse_json_object(metrics_json, source=f"{resolved.path}: metrics.json", error=ContainerError)
        state = {name: torch.from_numpy(array) for name, array in container.state_dict().items()}
        stored = container.tensors
    tokenizer = Tokenizer(tokenizer_json, f"{resolved.path}: tokenizer.json")
    sizes = config.model.vocab_sizes
    if any(tokenizer.vocab_size != size for size in sizes.values()):
        expected = " and ".join(f"{key} = {size}" for key, size in sizes.items())
        raise ModelError(
            f"{resolved.path}: tokenizer does not fit the model: expected {expected}, "
            f"found {tokenizer.vocab_size} types"
        )
    module = model_from_state(config, state, source=str(resolved.path))
    return LoadedModel(module, config, tokenizer, resolved.name, metrics, stored)
