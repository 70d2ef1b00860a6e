"""Where bundles meet containers: a compact bundle holds one, but ``export`` and ``compress`` do not know each other."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lite_nlp.artifacts.models import LoadedModel, Source
    from lite_nlp.export.packing import Packing
    from lite_nlp.export.runtime import Bundle

__all__ = ["decode_container", "open_any_bundle", "packing_of"]


def open_any_bundle(path: Path) -> "Bundle":
    """Open a bundle, plain or compact; needs no torch.

    Raises:
        BundleError: If it is missing or damaged.
    """
    from lite_nlp.export.runtime import open_bundle

    return open_bundle(path, decode=decode_container)


def decode_container(content: bytes) -> Mapping[str, Any]:
    """The tensors in the bytes of a container, by name.

    Raises:
        ContainerError: If it is damaged.
    """
    from lite_nlp.compress.lnlp.container import parse_container

    return parse_container(content).state_dict()


def packing_of(source: "Source", loaded: "LoadedModel") -> "Packing":
    """What a compact bundle of a model is made with: its tensors alone, in the encodings of its own ``.lnlp`` file.

    Args:
        source: What the model was loaded from; the weights of a model directory are kept in fp32.
        loaded: The model.

    Raises:
        ContainerError: If the file is damaged.
    """
    from lite_nlp.compress.lnlp.container import container_bytes, read_container
    from lite_nlp.export.packing import Packing

    if source.kind == "container":
        container = read_container(source.path)
        tensors, aliases = container.tensors, container.aliases
    else:
        from lite_nlp.compress.stages import dense_model, model_tensors

        made_of = model_tensors(loaded.model)
        tensors, aliases = dense_model(made_of.tensors), made_of.aliases
    content = container_bytes(
        tensors=tensors, files={}, metadata={"kind": "tensors", "name": loaded.name}, aliases=aliases
    )
    return Packing(container=content, decode=decode_container)
