"""Writing a bundle: a ``.zip`` file that is the same, byte for byte, for the same content."""

import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from lite_nlp.core.errors import BundleError
from lite_nlp.core.files import atomic_file, sha256_bytes
from lite_nlp.core.outputs import check_output_file
from lite_nlp.export.runtime.bundle import Bundle, open_bundle
from lite_nlp.export.runtime.manifest import MANIFEST_FILE, FileEntry, Manifest
from lite_nlp.export.runtime.member_maker import ContainerDecoder

__all__ = ["describe_files", "write_archive", "write_bundle", "write_proven"]

#: The earliest date that the format can hold; a real one would make two exports of one model differ.
_DATE: Final = (1980, 1, 1, 0, 0, 0)

#: Permissions of an unpacked member, rw-r--r--, in the upper half of the field.
_MODE: Final = 0o100644 << 16

#: System that made the archive, 3 for Unix; without it the mode is not honoured and differs between platforms.
_UNIX: Final = 3


def describe_files(files: Mapping[str, bytes]) -> dict[str, FileEntry]:
    """Size and hash of each file, for the manifest."""
    return {name: FileEntry(sha256=sha256_bytes(content), size_bytes=len(content)) for name, content in files.items()}


def write_bundle(path: Path, *, manifest: Manifest, files: Mapping[str, bytes], force: bool = False) -> None:
    """Write a bundle, complete or not at all.

    Args:
        path: The ``.zip`` file.
        manifest: Describes ``files``.
        files: Content of every member but the manifest.
        force: Whether an existing file may be overwritten.

    Raises:
        OutputError: If ``path`` exists and ``force`` is false, or the system refuses the write.
        BundleError: If the manifest does not describe ``files``.
    """
    check_output_file(path, force=force)
    with atomic_file(path, force=force) as partial:
        write_archive(partial, manifest=manifest, files=files)


def write_proven(
    path: Path,
    *,
    manifest: Manifest,
    files: Mapping[str, bytes],
    decode: ContainerDecoder | None,
    prove: Callable[[Bundle], dict[str, Any]],
    accept: Callable[[Path], None],
    force: bool,
) -> Manifest:
    """Write a bundle that takes its place once it has been read again and found good.

    Args:
        path: The ``.zip`` file.
        manifest: Describes ``files``.
        files: Content of every member but the manifest.
        decode: Decodes the container of a compact bundle.
        prove: Compares the bundle, as read from its file, with the model; gives the manifest's ``parity``, or raises.
        accept: Given the finished file before it takes its place; whatever it raises keeps it from doing so.
        force: Whether an existing file may be overwritten.

    Returns:
        The manifest of the bundle.

    Raises:
        OutputError: If ``path`` exists and ``force`` is false, or the system refuses the write.
        BundleError: If a reader refuses the bundle.
    """
    with atomic_file(path, force=force) as partial:
        write_archive(partial, manifest=manifest, files=files)
        proven = manifest.model_copy(update={"parity": prove(open_bundle(partial, decode=decode))})
        write_archive(partial, manifest=proven, files=files)
        open_bundle(partial, decode=decode)
        accept(partial)
    return proven


def write_archive(path: Path, *, manifest: Manifest, files: Mapping[str, bytes]) -> None:
    """Write the archive itself to ``path``. Members are stored, not deflated, so that they can be memory-mapped.

    Raises:
        BundleError: If the manifest does not describe ``files``.
    """
    described = describe_files(files)
    if manifest.files != described:
        wrong = sorted(
            name for name in {*described, *manifest.files} if described.get(name) != manifest.files.get(name)
        )
        raise BundleError(f"{path}: expected a manifest that describes its files, found other entries for {wrong}")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, content in {MANIFEST_FILE: manifest.to_json(), **files}.items():
            info = zipfile.ZipInfo(name, _DATE)
            info.external_attr = _MODE
            info.create_system = _UNIX
            archive.writestr(info, content)
