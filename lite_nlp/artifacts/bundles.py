"""Compact bundles: bundles of ``lite_nlp.export`` that hold a container of ``lite_nlp.compress``."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lite_nlp.core.errors import BundleError, ModelError
from lite_nlp.core.parsing import decode_text, parse_json_object

if TYPE_CHECKING:
    from lite_nlp.compress.lnlp.encodings import EncodedTensor
    from lite_nlp.export.runtime import Bundle
    from lite_nlp.export.runtime.member_maker import Contents

__all__ = [
    "BundledModel",
    "bundled_container",
    "decode_container",
    "open_any_bundle",
    "read_bundled_model",
]


@dataclass(frozen=True, kw_only=True)
class BundledModel:
    """Config, tokenizer, metrics and weights in a compact bundle.

    Attributes:
        config_toml: The model's configuration.
        tokenizer_json: Its tokenizer.
        metrics: Content of ``metrics.json``; for a bundle without that file, languages and scores of the manifest.
        tensors: Every weight by name.
        stored: The same as its container has them.
    """

    config_toml: str
    tokenizer_json: bytes
    metrics: dict[str, Any]
    tensors: Mapping[str, Any]
    stored: "Mapping[str, EncodedTensor]"


def open_any_bundle(path: Path, *, runtime: str | None = None) -> "Bundle":
    """Open a bundle, plain or compact; needs no torch.

    Args:
        path: The file.
        runtime: The only one that it will run in, so that less has to be made; None is all.

    Raises:
        BundleError: If it is missing or damaged.
    """
    from lite_nlp.export.runtime import open_bundle

    return open_bundle(path, decode=decode_container, runtime=runtime)


def decode_container(content: bytes) -> "Contents":
    """The tensors and files in the bytes of a container.

    Raises:
        ContainerError: If it is damaged.
    """
    from lite_nlp.compress.lnlp.container import parse_container
    from lite_nlp.export.runtime.member_maker import Contents

    container = parse_container(content)
    return Contents(container.state_dict(), container.files, aliases=frozenset(container.aliases))


def read_bundled_model(path: Path) -> BundledModel:
    """Read the model that a compact bundle was exported from; needs no torch.

    Raises:
        BundleError: If the bundle is missing or damaged.
        ModelError: If it is a plain bundle, which holds graphs and no tensors by name.
    """
    from lite_nlp.compress.lnlp.container import Container, parse_container
    from lite_nlp.export.runtime import open_bundle
    from lite_nlp.export.runtime.manifest import CONFIG_FILE
    from lite_nlp.export.runtime.member_maker import Contents

    found: list[tuple[Container, Contents]] = []

    def decode(content: bytes) -> Contents:
        """As ``decode_container``, and keep the container: it is decoded once."""
        container = parse_container(content)
        found.append((container, Contents(container.state_dict(), container.files)))
        return found[-1][1]

    bundle = open_bundle(path, decode=decode, runtime="torch")
    if not found:
        raise _no_tensors(bundle)
    ((container, contents),) = found
    return BundledModel(
        config_toml=decode_text(bundle.read(CONFIG_FILE), source=f"{path}: {CONFIG_FILE}", error=BundleError),
        tokenizer_json=bundle.tokenizer_json,
        metrics=_read_metrics(bundle),
        tensors=contents.tensors,
        stored=container.tensors,
    )


def bundled_container(bundle: "Bundle") -> bytes:
    """The container with the tensors of a compact bundle, in the layout of a ``.lnlp`` file.

    Raises:
        ModelError: If it is a plain bundle, which holds graphs and no tensors by name.
        BundleError: If the bundle is damaged.
    """
    packed = bundle.manifest.packed
    if packed is None:
        raise _no_tensors(bundle)
    return bundle.read(packed.container)


def _no_tensors(bundle: "Bundle") -> ModelError:
    runtimes = " or ".join(bundle.manifest.entries)
    return ModelError(
        f"{bundle.path}: expected a model directory, a .lnlp file or a compact bundle with weights for torch, "
        f"found an exported bundle with graphs alone; it runs with --runtime {runtimes}"
    )


def _read_metrics(bundle: "Bundle") -> dict[str, Any]:
    from lite_nlp.export.runtime.manifest import METRICS_FILE

    manifest = bundle.manifest
    if METRICS_FILE not in manifest.files:
        recorded = {"languages": manifest.languages and manifest.languages.model_dump(), "scores": manifest.scores}
        return {name: value for name, value in recorded.items() if value}
    return parse_json_object(bundle.read(METRICS_FILE), source=f"{bundle.path}: {METRICS_FILE}", error=BundleError)
