"""The archive of a bundle: a ``.zip`` file of stored members, read as strictly as the app reads it.

Python's ``zipfile`` trusts the directory at the end; others trust the members' own headers. Here both have to say the
same, without a gap: no compression, no encryption, no name twice, no extension for large files, nothing after the end.
So all readers see the same bundle.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from struct import Struct
from typing import Final

from lite_nlp.core.errors import BundleError
from lite_nlp.export.runtime.limits import MAX_BUNDLE_BYTES, MAX_FILES, MAX_NAME_BYTES

__all__ = ["StoredMember", "is_plain_name", "read_blocks", "read_directory"]

_LOCAL: Final = b"PK\x03\x04"
_CENTRAL: Final = b"PK\x01\x02"
_END: Final = b"PK\x05\x06"

#: Fields that a member's own header and the directory share: from the version needed to the length of the name.
_SHARED: Final = Struct("<HHHHHIIIH")
_LENGTH: Final = Struct("<H")

#: After the shared fields and the length of the extra field: length of the comment, disk, attributes, offset.
_CENTRAL_TAIL: Final = Struct("<HHHII")
_END_RECORD: Final = Struct("<HHHHIIH")

#: A name in UTF-8; other bits stand for encryption, compression, patches and sizes that follow the content.
_UTF8_FLAG: Final = 1 << 11

#: Stands for a size in an extra field.
_LARGE: Final = 0xFFFFFFFF

_NO_ARCHIVE: Final = (
    "expected a bundle (a .zip file made by `lite-nlp export`), found something else or a truncated one"
)


@dataclass(frozen=True)
class StoredMember:
    """A member of an archive.

    Attributes:
        name: Its name.
        offset: Of its content in the file.
        size_bytes: Of its content.
        crc32: That its header states.
    """

    name: str
    offset: int
    size_bytes: int
    crc32: int


def is_plain_name(name: str) -> bool:
    """Whether a member of that name is a file in one folder, on every system."""
    return (
        name not in ("", ".", "..")
        and len(name.encode("utf-8", "surrogatepass")) <= MAX_NAME_BYTES
        and not any(
            character in "/\\:\x7f" or character < " " or "\ud800" <= character < "\ue000" for character in name
        )
    )


def read_directory(file: BufferedReader, size_bytes: int) -> dict[str, StoredMember]:
    """Read the structure of an archive, front to back; its contents are skipped.

    Args:
        file: At the beginning.
        size_bytes: Of the file.

    Returns:
        The members by name, in the order of the file.

    Raises:
        BundleError: If this is no archive of stored members, or says one thing in two ways; without the file's name.
        OSError: If it cannot be read.
    """
    if size_bytes > MAX_BUNDLE_BYTES:
        raise BundleError(f"expected at most {MAX_BUNDLE_BYTES} bytes in all, found {size_bytes}")
    reader = _Reader(file, size_bytes)
    members: dict[str, StoredMember] = {}
    headers: list[tuple[int, bytes, bytes]] = []
    while (signature := reader.take(4)) == _LOCAL:
        if len(members) > MAX_FILES:
            raise BundleError(f"expected at most {MAX_FILES} members beside the manifest, found more")
        start = reader.position - 4
        shared = reader.take(_SHARED.size)
        (extra_length,) = _LENGTH.unpack(reader.take(_LENGTH.size))
        raw_name = reader.take(_SHARED.unpack(shared)[-1])
        member = _describe(shared, raw_name, reader.skip(extra_length))
        if member.name in members:
            raise BundleError(f"expected each member once, found {member.name!r} twice")
        reader.skip(member.size_bytes)
        members[member.name] = member
        headers.append((start, shared, raw_name))
    if not members:
        raise BundleError(f"{_NO_ARCHIVE}: it begins with {signature.hex(' ')}")
    _check_directory(reader, signature, headers)
    return members


class _Reader:
    """Takes the structure of a file that has ``size_bytes`` bytes."""

    def __init__(self, file: BufferedReader, size_bytes: int) -> None:
        self._file = file
        self._size = size_bytes
        self.position = 0

    def take(self, count: int) -> bytes:
        """The next bytes, at most 65535."""
        content = self._file.read(count)
        self.position += len(content)
        if len(content) < count:
            raise BundleError(f"{_NO_ARCHIVE}: it ends after {self.position} bytes, {count - len(content)} too early")
        return content

    def skip(self, count: int) -> int:
        """Pass over bytes; returns the place behind them."""
        if count > self._size - self.position:
            raise BundleError(
                f"{_NO_ARCHIVE}: expected {count} bytes from {self.position} on, found {self._size} in all"
            )
        self.position = self._file.seek(count, 1)
        return self.position

    def at_end(self) -> bool:
        return self.position == self._size and not self._file.read(1)


def _describe(shared: bytes, raw_name: bytes, offset: int) -> StoredMember:
    """A member by its own header."""
    try:
        name = raw_name.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BundleError(f"expected member names in UTF-8, found {raw_name[:MAX_NAME_BYTES]!r}") from error
    if not is_plain_name(name):
        raise BundleError(f"expected plain member names, found {name[:MAX_NAME_BYTES]!r}")
    _, flags, method, _, _, crc32, stored, size, _ = _SHARED.unpack(shared)
    if method or flags & ~_UTF8_FLAG or stored != size or size == _LARGE:
        raise BundleError(
            f"{name}: expected a stored member, found a compressed or encrypted one, or one of unknown size"
        )
    return StoredMember(name, offset, size, crc32)


def _check_directory(reader: _Reader, signature: bytes, headers: list[tuple[int, bytes, bytes]]) -> None:
    """Check that the directory repeats the members' headers, and ends the file."""
    start = reader.position - 4
    for number, (offset, shared, raw_name) in enumerate(headers):
        if number:
            signature = reader.take(4)
        if signature != _CENTRAL:
            raise BundleError(f"expected the directory to go on at byte {reader.position - 4}, found something else")
        # The version of the program that made the archive.
        reader.take(2)
        entry = reader.take(_SHARED.size)
        (extra_length,) = _LENGTH.unpack(reader.take(_LENGTH.size))
        comment_length, disk, _, _, found_offset = _CENTRAL_TAIL.unpack(reader.take(_CENTRAL_TAIL.size))
        name = reader.take(_SHARED.unpack(entry)[-1])
        if (entry, name, found_offset, disk) != (shared, raw_name, offset, 0):
            raise BundleError(
                f"expected the directory to repeat the header of {raw_name.decode()!r}, found another entry for "
                f"{name[:MAX_NAME_BYTES]!r}"
            )
        reader.skip(extra_length + comment_length)
    size = reader.position - start
    if reader.take(4) != _END:
        raise BundleError(f"expected the end record at byte {reader.position - 4}, found something else")
    *disks, here, entries, found_size, found_start, comment_length = _END_RECORD.unpack(reader.take(_END_RECORD.size))
    if (*disks, here, entries, found_size, found_start) != (0, 0, len(headers), len(headers), size, start):
        raise BundleError(f"expected an end record of {len(headers)} members, found another")
    reader.skip(comment_length)
    if not reader.at_end():
        raise BundleError(f"expected {reader.position} bytes, found more")


def read_blocks(file: BufferedReader, member: StoredMember, block_bytes: int) -> Iterator[bytes]:
    """The content of a member, block by block; less of it if the file has been cut since its directory was read.

    Raises:
        OSError: If it cannot be read.
    """
    file.seek(member.offset)
    left = member.size_bytes
    while left and (block := file.read(min(left, block_bytes))):
        left -= len(block)
        yield block
