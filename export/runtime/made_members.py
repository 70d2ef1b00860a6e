"""The members that a compact bundle describes, once they are made: small ones in memory, else on the disk."""

import weakref
from collections.abc import Iterable
from tempfile import SpooledTemporaryFile
from threading import Lock
from typing import Final

from lite_nlp.core.errors import BundleError
from lite_nlp.export.runtime.member_maker import Buffer

__all__ = ["MadeMembers"]

#: What is made beyond this goes to a temporary file: memory does not follow what a small file describes, and the
#: members of other runtimes than the one that runs take none.
_MAX_BYTES_IN_MEMORY: Final = 1 << 20


class MadeMembers:
    """Contents by name, which any thread may read."""

    def __init__(self) -> None:
        # Open as long as this object is, which no block of code encloses.
        self._file = SpooledTemporaryFile(max_size=_MAX_BYTES_IN_MEMORY)  # noqa: SIM115
        self._places: dict[str, tuple[int, int]] = {}
        self._lock = Lock()
        weakref.finalize(self, self._file.close)

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def add(self, name: str, blocks: Iterable[Buffer]) -> None:
        """Keep a member.

        Raises:
            BundleError: If the disk has no place for it; ``blocks`` may raise others.
        """
        with self._lock:
            start = end = self._file.seek(0, 2)
            for block in blocks:
                try:
                    end += self._file.write(block)
                except OSError as error:
                    raise BundleError(
                        f"{name}: expected space for a temporary file, found none: {error}; TMPDIR names the folder"
                    ) from error
            self._places[name] = (start, end - start)

    def read(self, name: str) -> bytes:
        """The content of a member.

        Raises:
            KeyError: If there is none.
            BundleError: If the temporary file cannot be read.
        """
        start, size = self._places[name]
        with self._lock:
            try:
                self._file.seek(start)
                content = self._file.read(size)
            except OSError as error:
                raise BundleError(f"{name}: expected a readable temporary file, found: {error}") from error
        return content
