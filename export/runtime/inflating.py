"""zlib streams of a known size, which are inflated to that and never to more."""

import zlib
from collections.abc import Iterable
from typing import Final

from lite_nlp.core.errors import BundleError

__all__ = ["ExactInflater", "inflate"]


class ExactInflater:
    """A zlib stream of exactly so many bytes, inflated piece by piece.

    Args:
        stored: The stream, in blocks of any size.
        size_bytes: What it holds.
        source: Stands for the stream's file in messages.
    """

    def __init__(self, stored: Iterable[bytes], size_bytes: int, *, source: str) -> None:
        self._stored = iter(stored)
        self._size_bytes: Final = size_bytes
        self._source: Final = source
        self._inflater = zlib.decompressobj()
        self._taken = 0

    def take(self, count: int) -> bytes:
        """The next ``count`` bytes.

        Raises:
            BundleError: If it is no zlib stream, or has fewer.
        """
        pieces = []
        while count:
            piece = self._inflate(count)
            if not piece:
                raise self._wrong_size(f"{self._taken}")
            pieces.append(piece)
            count -= len(piece)
            self._taken += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def expect_end(self) -> None:
        """Check that neither the stream nor the file goes on.

        Raises:
            BundleError: If one does, the stream lacks its end, or its checksum is another.
        """
        if self._inflate(1) or self._inflater.unused_data or any(self._stored):
            raise self._wrong_size("more")
        if not self._inflater.eof:
            raise self._wrong_size(f"{self._taken} without an end")

    def _inflate(self, most: int) -> bytes:
        """At least one byte, unless the stream or the file has ended."""
        try:
            while not self._inflater.eof:
                stored = self._inflater.unconsumed_tail or next(self._stored, b"")
                piece = self._inflater.decompress(stored, most)
                if piece or not stored:
                    return piece
        except zlib.error as error:
            raise BundleError(f"{self._source}: expected a zlib stream, found another: {error}") from error
        return b""

    def _wrong_size(self, found: str) -> BundleError:
        return BundleError(f"{self._source}: expected a zlib stream of exactly {self._size_bytes} bytes, found {found}")


def inflate(stream: bytes, size_bytes: int, *, source: str) -> bytes:
    """What a zlib stream of exactly so many bytes holds.

    Raises:
        BundleError: If it is none, or of another size.
    """
    inflater = ExactInflater([stream], size_bytes, source=source)
    content = inflater.take(size_bytes)
    inflater.expect_end()
    return content
