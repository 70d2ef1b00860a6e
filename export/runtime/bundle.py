"""Reading of bundles: names, sizes and hashes of all members are checked before a byte is used."""

import hashlib
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from lite_nlp.core.errors import BundleError, ContainerError
from lite_nlp.core.special_tokens import SPECIAL_TOKENS
from lite_nlp.export.runtime.manifest import MANIFEST_FILE, TOKENIZER_FILE, FileEntry, Manifest, parse_manifest
from lite_nlp.export.runtime.recipes import Packed, TensorDecoder, make_member

__all__ = ["Bundle", "open_bundle"]

#: A manifest larger than this is no manifest; it is the one member whose size nothing else states.
_MAX_MANIFEST_BYTES: Final = 4_000_000

#: Phones cannot run more; a bound keeps a hostile file from filling the memory.
_MAX_BUNDLE_BYTES: Final = 4_000_000_000

_BLOCK_BYTES: Final = 1 << 20


class Bundle:
    """A bundle whose members have been verified. Made by :func:`open_bundle`.

    Args:
        path: The file.
        manifest: Its table of contents.
        made: Content of the members that a compact bundle describes; they are kept in memory.

    Attributes:
        path: The file.
        manifest: Its table of contents.
    """

    def __init__(self, path: Path, manifest: Manifest, made: Mapping[str, bytes] | None = None) -> None:
        self.path = path
        self.manifest = manifest
        self._made = dict(made or {})

    @property
    def tokenizer_json(self) -> bytes:
        """The content of ``tokenizer.json``."""
        return self.read(TOKENIZER_FILE)

    def read(self, name: str) -> bytes:
        """A member's content; one in the file is verified again, since that may have changed since it was opened.

        Raises:
            BundleError: If there is no such member or it has been altered.
        """
        if name in self._made:
            return self._made[name]
        entry = self.manifest.files.get(name)
        if entry is None:
            known = sorted({*self.manifest.files, *self._made})
            raise BundleError(f"{self.path}: expected a member {name}, found {known}")
        with _open_zip(self.path) as archive:
            return b"".join(_verified_blocks(self.path, archive, name, entry))


def open_bundle(path: str | Path, *, decode: TensorDecoder | None = None) -> Bundle:
    """Open a bundle, make the members that it describes, and verify every member's size and hash.

    Args:
        path: The ``.zip`` file.
        decode: Decodes the container of a compact bundle; a plain one does without.

    Raises:
        BundleError: If the file is missing, no bundle, truncated, altered, unsafe, or of a newer schema, or compact and
            there is no ``decode``; the message names the defect.
    """
    path = Path(path)
    with _open_zip(path) as archive:
        members = _check_members(path, archive)
        manifest = parse_manifest(_read_manifest(path, archive), source=str(path))
        expected = {MANIFEST_FILE, *manifest.files}
        if members != expected:
            raise BundleError(
                f"{path}: members do not match the manifest: expected {sorted(expected)}, found {sorted(members)}"
            )
        for name, entry in manifest.files.items():
            for _ in _verified_blocks(path, archive, name, entry):
                pass
        made = {} if manifest.packed is None else _make_members(path, archive, manifest, manifest.packed, decode)
    bundle = Bundle(path, manifest, made)
    _check_tokenizer(bundle)
    return bundle


def _make_members(
    path: Path, archive: zipfile.ZipFile, manifest: Manifest, packed: Packed, decode: TensorDecoder | None
) -> dict[str, bytes]:
    """Content of the members that a compact bundle describes."""
    if decode is None:
        raise BundleError(
            f"{path}: expected a plain bundle, or a decoder for {packed.container}, found a compact bundle without one"
        )

    def read(name: str) -> bytes:
        return b"".join(_verified_blocks(path, archive, name, manifest.files[name]))

    try:
        tensors = decode(read(packed.container))
    except ContainerError as error:
        raise BundleError(f"{path}: {packed.container}: {error}") from error
    return {
        name: make_member(member, read(member.residual), tensors, source=f"{path}: {name}")
        for name, member in packed.members.items()
    }


def _open_zip(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except FileNotFoundError as error:
        raise BundleError(f"{path}: expected a bundle made by `lite-nlp export`, found no file") from error
    except (zipfile.BadZipFile, OSError, NotImplementedError, ValueError) as error:
        raise BundleError(
            f"{path}: expected a bundle (a .zip file made by `lite-nlp export`), found something else or a truncated "
            f"one: {error}"
        ) from error


def _check_members(path: Path, archive: zipfile.ZipFile) -> set[str]:
    """Check the archive's directory; returns the names of the members."""
    infos = archive.infolist()
    names = {info.filename for info in infos}
    if len(names) != len(infos):
        raise BundleError(f"{path}: expected each member once, found one twice")
    for info in infos:
        if "/" in info.filename or "\\" in info.filename or info.filename in {"", ".", ".."} or ":" in info.filename:
            raise BundleError(f"{path}: expected plain member names, found {info.filename!r}")
        if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size or info.flag_bits & 1:
            raise BundleError(f"{path}: {info.filename}: expected a stored member, found a compressed or encrypted one")
    total = sum(info.file_size for info in infos)
    if total > _MAX_BUNDLE_BYTES:
        raise BundleError(f"{path}: expected at most {_MAX_BUNDLE_BYTES} bytes in all, found {total} declared")
    if MANIFEST_FILE not in names:
        raise BundleError(f"{path}: expected a bundle with {MANIFEST_FILE}, found a .zip file without")
    return names


def _read_manifest(path: Path, archive: zipfile.ZipFile) -> bytes:
    size = archive.getinfo(MANIFEST_FILE).file_size
    if size > _MAX_MANIFEST_BYTES:
        raise BundleError(f"{path}: {MANIFEST_FILE}: expected at most {_MAX_MANIFEST_BYTES} bytes, found {size}")
    try:
        return archive.read(MANIFEST_FILE)
    except (zipfile.BadZipFile, OSError, EOFError, ValueError) as error:
        raise BundleError(f"{path}: {MANIFEST_FILE}: expected a readable member, found damage: {error}") from error


def _verified_blocks(path: Path, archive: zipfile.ZipFile, name: str, entry: FileEntry) -> list[bytes]:
    """The member in blocks.

    Raises:
        BundleError: If it is missing, or its size or hash is not the manifest's.
    """
    try:
        size = archive.getinfo(name).file_size
    except KeyError as error:
        raise BundleError(f"{path}: expected a member {name}, found none") from error
    if size != entry.size_bytes:
        raise BundleError(f"{path}: {name}: expected {entry.size_bytes} bytes, found {size}: the bundle is damaged")
    blocks, digest = [], hashlib.sha256()
    try:
        with archive.open(name) as file:
            while block := file.read(_BLOCK_BYTES):
                digest.update(block)
                blocks.append(block)
    except (zipfile.BadZipFile, OSError, EOFError, ValueError) as error:
        raise BundleError(
            f"{path}: {name}: expected an intact member, found it altered or truncated: {error}"
        ) from error
    if digest.hexdigest() != entry.sha256:
        raise BundleError(
            f"{path}: {name}: expected SHA-256 {entry.sha256}, found {digest.hexdigest()}: the member has been altered"
        )
    return blocks


def _check_tokenizer(bundle: Bundle) -> None:
    """Check that the tokenizer is the model's, which hashes cannot tell."""
    where = f"{bundle.path}: {TOKENIZER_FILE}"
    vocabulary = bundle.manifest.vocabulary
    try:
        types = json.loads(bundle.tokenizer_json)["model"]["vocab"]
        special = {spelling: types.get(spelling) for spelling in SPECIAL_TOKENS}
        size = len(types)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BundleError(f"{where}: expected a tokenizer with a vocabulary, found a damaged one: {error}") from error
    if size not in (vocabulary.src_size, vocabulary.tgt_size):
        raise BundleError(
            f"{where}: does not fit the model: expected {vocabulary.src_size} source and {vocabulary.tgt_size} target "
            f"types, found {size}"
        )
    wanted = dict(zip(SPECIAL_TOKENS, (vocabulary.pad_id, vocabulary.bos_id, vocabulary.eos_id), strict=True))
    if special != wanted:
        raise BundleError(f"{where}: does not fit the model: expected special ids {wanted}, found {special}")
