"""Cache of bundles exported from other kinds of MODEL, for runtimes that need a bundle.

They are in :func:`lite_nlp.core.cache.cache_folder`. A bundle's name is a hash of everything that determines its
content, and its runtime if it has one alone, so no bundle is ever out of date; the folder may be deleted at any time.
"""

import hashlib
import json
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from lite_nlp.artifacts.bundle_export import write_model_bundle
from lite_nlp.artifacts.bundles import open_any_bundle
from lite_nlp.artifacts.model_files import MODEL_FILES
from lite_nlp.artifacts.models import Source, load_model
from lite_nlp.core.cache import cache_folder
from lite_nlp.core.errors import BundleError, ModelError
from lite_nlp.core.extras import needs_extra
from lite_nlp.core.files import sha256_file
from lite_nlp.core.progress import Progress
from lite_nlp.core.version import __version__
from lite_nlp.export.runtime.layout import DEFAULT_BOUNDS
from lite_nlp.export.runtime.registry import RUNTIMES

__all__ = ["cached_bundle"]

#: Incremented when the exporter changes its output within one version of the package.
_EXPORT_VERSION: Final = 7


def cached_bundle(source: Source, *, runtime: str | None = None, progress: Progress | None = None) -> Path:
    """The cached bundle of a model directory or container, exported if the cache has none.

    Processes that need the same bundle at once each export it; the file is complete at every moment.

    Args:
        source: A model directory or a ``.lnlp`` file.
        runtime: The only one that it will run in, so that less has to be made; None is all that can run the model.
        progress: Receives the stages of an export.

    Returns:
        The bundle's path in the cache.

    Raises:
        MissingExtraError: If torch, or another package that exporting needs, is not installed.
        ModelError: If the model is damaged, or cannot be exported.
        BundleError: If it cannot be exported without a change to its output.
        OutputError: If the system refuses the write.
    """
    key, folder = _bundle_key(source), cache_folder() / "bundles"
    path, runtimes = folder / f"{key}.zip", None
    if _is_whole(path):
        return path
    if runtime is not None:
        path, runtimes = folder / f"{key}-{runtime}.zip", [runtime]
        if _is_whole(path):
            return path
    with needs_extra(f"{source.name}: export of a model {source.kind} to a bundle", "export"):
        write_model_bundle(path, load_model(source), source=source, runtimes=runtimes, force=True, progress=progress)
    return path


def _bundle_key(source: Source) -> str:
    """Hash of the model's files, the versions of the exporting packages, and the options."""
    names = MODEL_FILES if source.kind == "directory" else ("",)
    try:
        files = {name: sha256_file(source.path / name) for name in names}
    except OSError as error:
        raise ModelError(f"{source.path}: expected a readable model, found: {error}") from error
    content = {
        "name": source.name,
        "files": files,
        "versions": [__version__, _EXPORT_VERSION, *(_installed(row.package) for row in RUNTIMES.values())],
        "runtimes": list(RUNTIMES),
        "bounds": DEFAULT_BOUNDS.model_dump(),
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _is_whole(path: Path) -> bool:
    """Whether the bundle exists and opens; a damaged one is exported again."""
    if not path.is_file():
        return False
    try:
        open_any_bundle(path)
    except BundleError:
        return False
    return True
