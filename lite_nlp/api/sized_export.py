"""Compact bundles of a given size: the model is compressed as far as the rest of the bundle leaves room for."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lite_nlp.api.compress import compress_model
from lite_nlp.api.compression_subject import embedded_files
from lite_nlp.api.smaller_models import with_smaller_models
from lite_nlp.artifacts.models import LoadedModel, Source, load_model
from lite_nlp.compress.compressed import CompressedModel
from lite_nlp.compress.lnlp.container import container_bytes
from lite_nlp.core.errors import TargetSizeError
from lite_nlp.export.runtime.manifest import TOKENIZER_FILE

if TYPE_CHECKING:
    from lite_nlp.export.runtime.manifest import Manifest

__all__ = ["SizedBundle", "bundle_of_size"]

#: Writes a bundle of a model from a file, or from a loaded model alone.
WriteBundle = Callable[[Path, LoadedModel, Source | None], "Manifest"]

#: Attempts, each with a smaller target: fine-tuning and the graphs move the size a little.
_TRIES: Final = 3
_MARGIN: Final = 0.998


@dataclass(frozen=True, kw_only=True)
class SizedBundle:
    """A bundle in a temporary place.

    Attributes:
        path: Its file.
        manifest: Its table of contents.
        compressed: The compression that it needed; None if the model was small enough.
    """

    path: Path
    manifest: "Manifest"
    compressed: CompressedModel | None


@contextmanager
def bundle_of_size(
    loaded: LoadedModel, source: Source | None, *, target_bytes: int, write: WriteBundle, **options: Any
) -> Iterator[SizedBundle]:
    """A compact bundle of at most ``target_bytes``, which exists within the context.

    The first bundle has the weights as they are in ``source``; it shows how much graphs and manifest take.

    Args:
        loaded: An encoder-decoder.
        source: Its file; None if it was not loaded from one.
        target_bytes: Largest size of the whole file.
        write: Writes a bundle.
        options: Those of ``compress_model`` beside the target: data, fine-tuning, progress.

    Raises:
        TargetSizeError: If no bundle is that small; the message states by how much, and which smaller models would be.
    """
    with tempfile.TemporaryDirectory(prefix="lite-nlp-") as folder:
        path = Path(folder) / "bundle.zip"
        manifest = write(path, loaded, source)
        size_bytes = path.stat().st_size
        compressed = None
        if size_bytes > target_bytes:
            frame = size_bytes - _container_bytes(manifest)
            room = target_bytes - frame + _embedded_bytes(loaded)
            for attempt in range(_TRIES):
                compressed = _compress(
                    loaded, room, frame, target_bytes, out=Path(folder) / f"compressed-{attempt}", **options
                )
                made = Source("container", compressed.path, loaded.name)
                manifest = write(path, load_model(made), made)
                size_bytes = path.stat().st_size
                if size_bytes <= target_bytes:
                    break
                room = int((room - (size_bytes - target_bytes)) * _MARGIN)
            else:
                raise _out_of_reach(loaded, target_bytes, size_bytes, frame)
        yield SizedBundle(path=path, manifest=manifest, compressed=compressed)


def _compress(
    loaded: LoadedModel, room: int, frame: int, target_bytes: int, *, out: Path, **options: Any
) -> CompressedModel:
    try:
        return compress_model(loaded, out=out, target_bytes=max(1, room), **options)
    except TargetSizeError as error:
        smallest = frame + error.smallest_bytes - _embedded_bytes(loaded)
        # What a container embeds beside the tokenizer, a bundle holds elsewhere, with the graphs.
        by_kind = {**error.bytes_by_kind, "files": frame} if error.bytes_by_kind else {}
        raise with_smaller_models(
            _out_of_reach(loaded, target_bytes, smallest, frame, bytes_by_kind=by_kind, num_weights=error.num_weights),
            loaded.config.model,
        ) from error


def _out_of_reach(
    loaded: LoadedModel, target_bytes: int, smallest: int, frame_bytes: int, **known: Any
) -> TargetSizeError:
    return TargetSizeError(
        f"{loaded.name}: expected a bundle of at most {target_bytes:,} bytes, found {smallest:,} at the least, "
        f"{smallest - target_bytes:,} too many; graphs and manifest alone take {frame_bytes:,}",
        smallest_bytes=smallest,
        target_bytes=target_bytes,
        **known,
    )


def _container_bytes(manifest: "Manifest") -> int:
    """The part of a compact bundle that compression makes smaller."""
    return 0 if manifest.packed is None else manifest.files[manifest.packed.container].size_bytes


def _embedded_bytes(loaded: LoadedModel) -> int:
    """Size of the files that a container of the model embeds and that of a bundle does not."""
    files = embedded_files(loaded, loaded.model)
    in_both = {TOKENIZER_FILE: files[TOKENIZER_FILE]}
    whole, shared = (
        len(container_bytes(tensors={}, files=embedded, metadata={}, aliases={})) for embedded in (files, in_both)
    )
    return whole - shared
