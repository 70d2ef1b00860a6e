"""Kinds of packed files, told by their first bytes, whatever their names."""

from typing import Final, Literal, TypeAlias

__all__ = ["HEAD_BYTES", "Packing", "packing_of"]

#: What is read here, and the words for the others in a message.
Packing: TypeAlias = Literal[
    "gzip", "zstd", "a zip archive", "a 7z archive", "a rar archive", "an xz file", "a bzip2 file"
]

#: Bytes at the start of a file that tell; a shorter beginning may stand in a text.
HEAD_BYTES: Final = 10

_HEADS: Final[dict[bytes, Packing]] = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK\x03\x04": "a zip archive",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive",
    b"Rar!\x1a\x07": "a rar archive",
    b"\xfd7zXZ\x00": "an xz file",
    **{b"BZh%d1AY&SY" % level: "a bzip2 file" for level in range(1, 10)},
}
#: A frame of zstd that readers skip, which may come first: its first byte is any of 16.
_ZSTD_SKIPPED: Final = b"\x2a\x4d\x18"


def packing_of(head: bytes) -> Packing | None:
    """How a file is packed that begins with these :data:`HEAD_BYTES` bytes; None for one that is not."""
    if head[1:].startswith(_ZSTD_SKIPPED):
        return "zstd"
    return next((packing for start, packing in _HEADS.items() if head.startswith(start)), None)
