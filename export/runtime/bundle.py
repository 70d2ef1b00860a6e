"""Reading of bundles: names, sizes and hashes of all members are checked before a byte is used."""

import hashlib
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import BufferedReader
from pathlib import Path
from typing import Final

from lite_nlp.core.errors import BundleError, ContainerError
from lite_nlp.core.files import sha256_bytes
from lite_nlp.core.special_tokens import SPECIAL_TOKENS
from lite_nlp.data.tokenizer_document import parse_tokenizer
from lite_nlp.export.runtime.limits import MAX_MANIFEST_BYTES
from lite_nlp.export.runtime.made_members import MadeMembers
from lite_nlp.export.runtime.manifest import MANIFEST_FILE, TOKENIZER_FILE, FileEntry, Manifest, parse_manifest
from lite_nlp.export.runtime.member_maker import ContainerDecoder, make_member
from lite_nlp.export.runtime.recipes import Packed, read_recipes
from lite_nlp.export.runtime.rounded import read_codes
from lite_nlp.export.runtime.scaled import read_scalings
from lite_nlp.export.runtime.stored_zip import StoredMember, read_blocks, read_directory

__all__ = ["Bundle", "open_bundle", "open_stored"]

#: Of a member at a time, and of a residual, of which the unread part of a block is copied for every part.
_BLOCK_BYTES: Final = 1 << 20
_RESIDUAL_BLOCK_BYTES: Final = 1 << 14


@dataclass(frozen=True)
class BundleFile:
    """What the file of a bundle holds.

    Attributes:
        manifest: Its table of contents.
        manifest_sha256: Of ``manifest.json``.
        stored: Places of all members.
    """

    manifest: Manifest
    manifest_sha256: str
    stored: dict[str, StoredMember]


class Bundle:
    """A bundle whose members have been verified. Made by :func:`open_bundle` and :func:`open_stored`.

    Args:
        path: The file.
        contents: What it holds.
        made: The members that a compact bundle describes.

    Attributes:
        path: The file.
        manifest: Its table of contents.
        manifest_sha256: SHA-256 of ``manifest.json``, by which benchmarks name what they measured.
    """

    def __init__(self, path: Path, contents: BundleFile, *, made: MadeMembers) -> None:
        self.path = path
        # Members may be read much later, in another working directory.
        self._file = path.absolute()
        self.manifest = contents.manifest
        self.manifest_sha256 = contents.manifest_sha256
        self._stored = contents.stored
        self._made = made

    @property
    def tokenizer_json(self) -> bytes:
        """The content of ``tokenizer.json``."""
        return self.read(TOKENIZER_FILE)

    def read(self, name: str) -> bytes:
        """A member's content; one in the file is verified again, since that may have changed since it was opened.

        Raises:
            BundleError: If there is no such member, it was not made for the runtime, or it has been altered.
        """
        if name in self._made:
            return self._made.read(name)
        entry = self.manifest.files.get(name)
        if entry is None:
            packed = self.manifest.packed
            if packed and name in packed.members:
                raise BundleError(f"{self.path}: expected {name} to be made, found a bundle opened without it")
            known = sorted({*self.manifest.files, *(packed.members if packed else ())})
            raise BundleError(f"{self.path}: expected a member {name}, found {known}")
        with _open_file(self._file) as (file, _):
            return _read_verified(f"{self.path}: {name}", file, self._stored[name], entry)


def open_bundle(path: str | Path, *, decode: ContainerDecoder | None = None, runtime: str | None = None) -> Bundle:
    """Open a bundle, make the members that it describes, and verify every member's size and hash.

    Whatever the file says, this takes memory and time in proportion to its size; ``limits.py`` has the numbers.

    Args:
        path: The ``.zip`` file.
        decode: Decodes the container of a compact bundle; a plain one does without.
        runtime: The only one that the bundle will run in: what a compact bundle describes for others is not made, nor
            read. None is all.

    Raises:
        BundleError: If the file is missing, no bundle, truncated, altered, unsafe, beyond the limits, or of a newer
            schema, or compact and there is no ``decode``; the message names the defect.
    """
    path = Path(path)
    made = MadeMembers()
    with _open_file(path) as (file, size_bytes):
        contents = _read_file(path, file, size_bytes)
        packed = contents.manifest.packed
        if packed is not None:
            skipped = _members_of_others(contents.manifest, runtime)
            _make_members(path, file, contents, packed, decode, made, skipped)
    bundle = Bundle(path, contents, made=made)
    _check_tokenizer(bundle)
    return bundle


def open_stored(path: str | Path) -> Bundle:
    """Open a bundle as far as its file goes: what a compact one describes is not made, and cannot be read.

    That is enough for the manifest and what is stored as it is, and takes some hundredths of the time.

    Args:
        path: The ``.zip`` file.

    Raises:
        BundleError: As for :func:`open_bundle`, of what is stored.
    """
    path = Path(path)
    with _open_file(path) as (file, size_bytes):
        contents = _read_file(path, file, size_bytes)
        packed = contents.manifest.packed
        if packed is not None:
            name = packed.container
            _read_verified(f"{path}: {name}", file, contents.stored[name], contents.manifest.files[name])
    return Bundle(path, contents, made=MadeMembers())


def _read_file(path: Path, file: BufferedReader, size_bytes: int) -> BundleFile:
    """The manifest and the places of the members, which are verified, but for a container."""
    try:
        members = read_directory(file, size_bytes)
    except BundleError as error:
        raise BundleError(f"{path}: {error}") from error
    content = _read_manifest(path, file, members)
    manifest = parse_manifest(content, source=str(path))
    expected = {MANIFEST_FILE, *manifest.files}
    if set(members) != expected:
        raise BundleError(
            f"{path}: members do not match the manifest: expected {sorted(expected)}, found {sorted(members)}"
        )
    for name, entry in manifest.files.items():
        # The container is verified when it is read, once.
        if manifest.packed is None or name != manifest.packed.container:
            for _ in _verified_blocks(f"{path}: {name}", file, members[name], entry):
                pass
    return BundleFile(manifest, sha256_bytes(content), members)


def _make_members(
    path: Path,
    file: BufferedReader,
    contents: BundleFile,
    packed: Packed,
    decode: ContainerDecoder | None,
    made: MadeMembers,
    skipped: set[str],
) -> None:
    """Make the members that a compact bundle describes, but for some."""
    if decode is None:
        raise BundleError(
            f"{path}: expected a plain bundle, or a decoder for {packed.container}, found a compact bundle without one"
        )

    def read(name: str) -> bytes:
        return _read_verified(f"{path}: {name}", file, contents.stored[name], contents.manifest.files[name])

    try:
        decoded = decode(read(packed.container))
    except ContainerError as error:
        raise BundleError(f"{path}: {packed.container}: {error}") from error
    recipes = read_recipes(packed, read(packed.recipes.file), source=f"{path}: {packed.recipes.file}")
    if packed.exponents is not None:
        stream, source = read(packed.exponents), f"{path}: {packed.exponents}"
        decoded = decoded.scaled_by(read_scalings(recipes.scaled, stream, decoded.own_tensors, source=source))
    if packed.codes is not None:
        rounded = read_codes(recipes.rounded, read(packed.codes), decoded.tensors, source=f"{path}: {packed.codes}")
        decoded = replace(decoded, rounded=rounded)
    for name, member in packed.members.items():
        if name in skipped:
            continue
        residual = read_blocks(file, contents.stored[member.residual], _RESIDUAL_BLOCK_BYTES)
        made.add(name, make_member(member, recipes.parts[name], residual, decoded, source=f"{path}: {name}"))


def _members_of_others(manifest: Manifest, runtime: str | None) -> set[str]:
    """The members that only other runtimes than ``runtime`` need."""
    if runtime is None:
        return set()
    entries = manifest.entries
    own = set(entries[runtime].members) if runtime in entries else set()
    return {name for entry in entries.values() for name in entry.members} - own


@contextmanager
def _open_file(path: Path) -> Iterator[tuple[BufferedReader, int]]:
    """The file and its size; whatever the system says against it becomes an error of ours."""
    if not path.exists():
        raise BundleError(f"{path}: expected a bundle made by `lite-nlp export`, found no file")
    # A pipe would be waited for, and has no size.
    if not path.is_file():
        raise BundleError(f"{path}: expected a bundle made by `lite-nlp export`, found something that is no file")
    try:
        with path.open("rb") as file:
            yield file, path.stat().st_size
    except OSError as error:
        raise BundleError(f"{path}: expected a readable bundle, found: {error}") from error


def _read_manifest(path: Path, file: BufferedReader, members: dict[str, StoredMember]) -> bytes:
    if MANIFEST_FILE not in members:
        raise BundleError(f"{path}: expected a bundle with {MANIFEST_FILE}, found a .zip file without")
    first, where = next(iter(members.values())), f"{path}: {MANIFEST_FILE}"
    if first.name != MANIFEST_FILE:
        raise BundleError(f"{where}: expected the first member of the archive, found {first.name!r} before it")
    if first.size_bytes > MAX_MANIFEST_BYTES:
        raise BundleError(f"{where}: expected at most {MAX_MANIFEST_BYTES} bytes, found {first.size_bytes}")
    content = b"".join(read_blocks(file, first, _BLOCK_BYTES))
    _check_crc(where, zlib.crc32(content), first)
    return content


def _read_verified(where: str, file: BufferedReader, member: StoredMember, entry: FileEntry) -> bytes:
    """A member's content, which is in memory once; errors as for :func:`_verified_blocks`."""
    # Joining a single block copies nothing.
    return b"".join(_verified_blocks(where, file, member, entry, block_bytes=max(1, member.size_bytes)))


def _verified_blocks(
    where: str, file: BufferedReader, member: StoredMember, entry: FileEntry, *, block_bytes: int = _BLOCK_BYTES
) -> Iterator[bytes]:
    """The member in blocks, which are what the manifest says only if nothing is raised until the end.

    Raises:
        BundleError: If its size or hash is not the manifest's, or its checksum not the archive's.
    """
    if member.size_bytes != entry.size_bytes:
        raise BundleError(
            f"{where}: expected {entry.size_bytes} bytes, found {member.size_bytes}: the bundle is damaged"
        )
    digest, crc32 = hashlib.sha256(), 0
    for block in read_blocks(file, member, block_bytes):
        digest.update(block)
        crc32 = zlib.crc32(block, crc32)
        yield block
    _check_crc(where, crc32, member)
    if digest.hexdigest() != entry.sha256:
        raise BundleError(
            f"{where}: expected SHA-256 {entry.sha256}, found {digest.hexdigest()}: the member has been altered"
        )


def _check_crc(where: str, crc32: int, member: StoredMember) -> None:
    if crc32 != member.crc32:
        raise BundleError(
            f"{where}: expected an intact member, found it altered or truncated: CRC-32 {crc32:08x} instead of "
            f"{member.crc32:08x} shows that it has been altered"
        )


def _check_tokenizer(bundle: Bundle) -> None:
    """Check that the tokenizer is the model's, which hashes cannot tell."""
    where = f"{bundle.path}: {TOKENIZER_FILE}"
    vocabulary = bundle.manifest.vocabulary
    document = parse_tokenizer(bundle.tokenizer_json, source=where, error=BundleError)
    types = document["model"]["vocab"]
    if len(types) not in (vocabulary.src_size, vocabulary.tgt_size):
        raise BundleError(
            f"{where}: does not fit the model: expected {vocabulary.src_size} source and {vocabulary.tgt_size} target "
            f"types, found {len(types)}"
        )
    special = {spelling: types.get(spelling) for spelling in SPECIAL_TOKENS}
    wanted = dict(zip(SPECIAL_TOKENS, (vocabulary.pad_id, vocabulary.bos_id, vocabulary.eos_id), strict=True))
    if special != wanted:
        raise BundleError(f"{where}: does not fit the model: expected special ids {wanted}, found {special}")
