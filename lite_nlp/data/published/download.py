"""Downloads into a cache, checked against what their publisher, or the first download, says they are."""

import hashlib
import json
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from lite_nlp.core.errors import DataError, OutputError
from lite_nlp.core.files import sha256_file, write_text
from lite_nlp.core.locks import Lock, locked
from lite_nlp.core.outputs import check_shared_directory, reason_of
from lite_nlp.core.parsing import parse_json_object, read_document
from lite_nlp.core.progress import Progress
from lite_nlp.data.published.entries import Archive
from lite_nlp.data.published.transfer import download, validator_file

__all__ = ["check_cache", "fetch", "record_file"]

#: Ends of the names of a file that is not complete, and of what was found out about one without a checksum.
_UNFINISHED: Final = ".unfinished"
_RECORD: Final = ".recorded.json"


def check_cache(cache: Path) -> None:
    """Check that a cache can be written to, before anything is downloaded; it may be a link to a directory.

    Raises:
        OutputError: If it cannot.
    """
    check_shared_directory(cache.resolve() if os.path.isdir(cache) else cache)


def fetch(
    archive: Archive,
    cache: Path,
    *,
    progress: Progress,
    say: Callable[[str], None] | None = None,
    pause_s: float = 2.0,
) -> Path:
    """Download ``archive`` unless the cache has it, and check it either way.

    A download that breaks off is resumed where it broke, also by the next call if this one gives up. Of processes that
    need the same file at once, one downloads it and the others wait.

    A file whose publisher has fixed no checksum is trusted at its first download: its SHA-256 is recorded beside it,
    and whatever is found in its place later has to have the same.

    Args:
        archive: What to download.
        cache: The cache directory; made if missing.
        progress: Receiver of progress, in kilobytes.
        say: Receiver of a remark on a file without a published checksum.
        pause_s: Seconds before the second attempt; each further one waits twice as long.

    Returns:
        The file in the cache.

    Raises:
        DataError: If the server cannot be reached, refuses, or sends something else than expected, or the file in the
            cache is another than it was.
        OutputError: If the cache cannot be written.
    """
    parts = urlsplit(archive.url)
    path = cache / "downloads" / parts.netloc.replace(":", "_") / parts.path.lstrip("/")
    with _writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        while not path.is_file():
            with _own_partial(path) as partial:
                # Another process may have finished it while this one waited.
                if partial is not None and not path.is_file():
                    download(
                        archive.url, partial, name=archive.name, size=archive.size, progress=progress, pause_s=pause_s
                    )
                    _accept(archive, partial, path, say, advice="the download is damaged or the file has changed")
                    partial.replace(path)
                    validator_file(partial).unlink(missing_ok=True)
                    return path
        _accept(archive, path, path, say, advice=f"delete {path} to download it again")
    return path


def record_file(path: Path) -> Path:
    """The file beside a download without a published checksum that says what it is."""
    return path.with_name(path.name + _RECORD)


@contextmanager
def _own_partial(path: Path) -> Iterator[Path | None]:
    """The partial download, which belongs to this process meanwhile; None if there may be a whole file by now."""
    partial = path.with_name(path.name + _UNFINISHED)
    with locked(partial, wait=True, create=True) as lock:
        if lock is Lock.TAKEN:
            yield None
            return
        if lock is Lock.UNSUPPORTED:
            # Every process has a file of its own, which cannot be resumed later.
            partial = path.with_name(f".{os.getpid()}-{secrets.token_hex(4)}.partial")
        try:
            yield partial
        finally:
            if lock is Lock.UNSUPPORTED or _is_empty(partial):
                partial.unlink(missing_ok=True)
                validator_file(partial).unlink(missing_ok=True)


def _is_empty(partial: Path) -> bool:
    """Whether there is a file without content; once the whole file is in place, another process may remove it."""
    try:
        return partial.stat().st_size == 0
    except FileNotFoundError:
        return False


def _accept(archive: Archive, found: Path, path: Path, say: Callable[[str], None] | None, *, advice: str) -> None:
    """Compare a file with what its publisher, or the first download, says it is; one in ``path`` stays where it is.

    Raises:
        DataError: If it is another; a download is removed.
    """
    size = found.stat().st_size
    problem = None
    if archive.size is not None and size != archive.size:
        problem = f"expected {archive.size:,} bytes, found {size:,}; {advice}"
    elif archive.checksum is not None:
        algorithm, expected = archive.checksum.split(":")
        with found.open("rb") as file:
            digest = hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False)).hexdigest()
        if digest != expected:
            problem = f"expected {algorithm} {expected}, found {digest}; {advice}"
    else:
        problem = _compare_with_record(archive, found, size, record_file(path), say)
    if problem is not None:
        if found != path:
            found.unlink()
            validator_file(found).unlink(missing_ok=True)
        raise DataError(f"{archive.url}: {problem}")


def _compare_with_record(
    archive: Archive, found: Path, size: int, record: Path, say: Callable[[str], None] | None
) -> str | None:
    """What is wrong with a file of which nothing but the first download is known; the first is recorded."""
    digest = sha256_file(found)
    say = say or (lambda text: None)
    if not record.is_file():
        content = {"schema_version": 1, "url": archive.url, "size_bytes": size, "sha256": digest}
        write_text(record, json.dumps(content, indent=2) + "\n")
        say(
            f"{archive.url}: its publisher has fixed no checksum; this copy is trusted, and its SHA-256 {digest} "
            f"recorded in {record}, for later ones to be compared with"
        )
        return None
    content = parse_json_object(
        read_document(record, expected="the record of a download", error=DataError), source=str(record), error=DataError
    )
    expected = content.get("sha256")
    if digest != expected:
        return (
            f"expected SHA-256 {expected}, as recorded in {record} at the first download, found {digest}: the file has "
            "changed, and nobody has published a checksum of it; to accept the new one, delete the record and the file"
        )
    say(f"{archive.url}: its publisher has fixed no checksum; it is the same as at the first download ({record})")
    return None


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(f"{path}: could not be written: {reason_of(error)}") from error
