"""The package's zip archive: fixed order and time, deflated by libdeflate, stored entries aligned.

Other zip tools write times, owners or the output of their own deflate. Here the same entries give the same bytes on
every machine with the same libdeflate.
"""

import dataclasses
import hashlib
import struct
import tempfile
import zlib
from collections.abc import Sequence
from pathlib import Path

from tools.base.errors import BuildError
from tools.base.layout import BUILD
from tools.base.processes import run

__all__ = ["Entry", "deflate", "write_zip"]

# 1980-01-01 00:00, the first time a zip can say.
_TIME, _DATE = 0, (1 << 5) | 1
_VERSION, _UTF8_NAMES = 20, 0x0800
_STORED, _DEFLATED = 0, 8
_GZIP_HEADER, _GZIP_TRAILER = 10, 8
# Bytes to which the data of a stored entry are aligned: Android maps the resource table by words.
_ALIGNMENT = 4


@dataclasses.dataclass(frozen=True)
class Entry:
    """One file of the package.

    Attributes:
        name: Its path in the package.
        content: Its bytes.
        stored: Whether it must not be deflated.
    """

    name: str
    content: bytes
    stored: bool = False


def deflate(content: bytes) -> bytes:
    """Compress content to a raw deflate stream by libdeflate at level 12.

    What was deflated before is kept in the build folder, since the native libraries take seconds.

    Raises:
        BuildError: libdeflate's program fails, or gives something else than the content.
    """
    kept = BUILD / "deflated" / hashlib.sha256(content).hexdigest()
    if kept.is_file():
        stream = kept.read_bytes()
        # A stream that was cut off by a full disk must not be used again.
        if _inflate(stream) == content:
            return stream
    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / "content"
        source.write_bytes(content)
        run(["libdeflate-gzip", "-12", "-k", source], what="libdeflate-gzip")
        packed = source.with_name("content.gz").read_bytes()
    # A gzip member without options is a header of 10 bytes, the stream, and 8 bytes of checksum and size; with the
    # file's name (flag 8), that and a zero follow the header.
    start = packed.index(b"\0", _GZIP_HEADER) + 1 if packed[3] & 8 else _GZIP_HEADER
    stream = packed[start:-_GZIP_TRAILER]
    if _inflate(stream) != content:
        raise BuildError("libdeflate-gzip: expected a stream that inflates to what was given, found another")
    kept.parent.mkdir(parents=True, exist_ok=True)
    fresh = kept.with_suffix(".new")
    fresh.write_bytes(stream)
    fresh.rename(kept)
    return stream


def _inflate(stream: bytes) -> bytes | None:
    try:
        return zlib.decompress(stream, wbits=-15)
    except zlib.error:
        return None


def write_zip(path: Path, entries: Sequence[Entry]) -> dict[str, int]:
    """Write a zip.

    Args:
        path: The file.
        entries: What goes in, in this order. One that deflating does not make smaller is stored.

    Returns:
        Bytes that each entry takes, its two headers included, by name.

    Raises:
        BuildError: Two entries have one name.
    """
    names = [entry.name for entry in entries]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise BuildError(f"package: expected each name once, found twice: {', '.join(twice)}")
    sizes: dict[str, int] = {}
    directory = bytearray()
    with path.open("wb") as file:
        for entry in entries:
            name = entry.name.encode()
            method, data = _STORED, entry.content
            if not entry.stored:
                stream = deflate(entry.content)
                if len(stream) < len(data):
                    method, data = _DEFLATED, stream
            start = file.tell()
            unaligned = (start + 30 + len(name)) % _ALIGNMENT if method == _STORED else 0
            padding = bytes(_ALIGNMENT - unaligned if unaligned else 0)
            common = struct.pack("<HHHHH", _VERSION, _UTF8_NAMES, method, _TIME, _DATE)
            common += struct.pack("<III", zlib.crc32(entry.content), len(data), len(entry.content))
            file.write(b"PK\3\4" + common + struct.pack("<HH", len(name), len(padding)) + name + padding + data)
            record = b"PK\1\2" + struct.pack("<H", _VERSION) + common
            record += struct.pack("<HHHHHII", len(name), 0, 0, 0, 0, 0, start) + name
            directory += record
            sizes[entry.name] = file.tell() - start + len(record)
        start = file.tell()
        file.write(directory)
        file.write(b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, len(entries), len(entries), len(directory), start, 0))
    return sizes
