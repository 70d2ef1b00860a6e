"""The weights and the vocabulary of compact bundles: those of the model, in the encodings of the model's own file."""

from lite_nlp.artifacts.bundles import bundled_container, decode_container
from lite_nlp.artifacts.models import LoadedModel, Source
from lite_nlp.compress.lnlp.container import container_bytes, read_container
from lite_nlp.export.packing import Packing
from lite_nlp.export.runtime import open_stored
from lite_nlp.export.runtime.manifest import TOKENIZER_FILE

__all__ = ["packing_of"]


def packing_of(source: Source | None, loaded: LoadedModel) -> Packing:
    """The tensors for a compact bundle of a model, in the encodings of the model's own file, and its tokenizer.

    Args:
        source: Origin of the model, None if it is not known; the weights of a directory, and those that were changed
            since they were loaded, are kept in fp32.
        loaded: The model.

    Raises:
        BundleError: If ``source`` is a bundle that is damaged.
        ContainerError: If ``source`` is a container that is damaged.
    """
    if source is not None and source.kind == "bundle":
        return Packing(container=bundled_container(open_stored(source.path)), decode=decode_container)
    if source is not None and source.kind == "container":
        container = read_container(source.path)
        tensors, aliases = container.tensors, container.aliases
    else:
        from lite_nlp.compress.stages import dense_model, model_tensors
        from lite_nlp.compress.stored import holds_model

        made_of = model_tensors(loaded.model)
        # A model that was loaded from a file and not changed since has that file's encodings too.
        unchanged = holds_model(loaded.stored, loaded.model)
        tensors = dict(loaded.stored) if unchanged else dense_model(made_of.tensors)
        aliases = made_of.aliases
    content = container_bytes(
        tensors=tensors,
        # A container writes the merges alone.
        files={TOKENIZER_FILE: loaded.tokenizer.to_json()},
        metadata={"kind": "tensors", "name": loaded.name},
        aliases=aliases,
    )
    return Packing(container=content, decode=decode_container)
