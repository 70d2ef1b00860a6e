"""Downloads into a cache, checked and resumable, and the extraction of archives; files appear whole or not at all."""

import gzip
import hashlib
import http.client
import os
import shutil
import tarfile
import time
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final
from urllib.parse import urlsplit

from lite_nlp.core.errors import DataError, OutputError
from lite_nlp.core.files import atomic_directory
from lite_nlp.core.progress import Progress
from lite_nlp.core.version import __version__
from lite_nlp.data.published.entries import Archive

__all__ = ["default_cache", "extract", "fetch", "open_archive"]

_BLOCK_BYTES: Final = 1 << 18
_TIMEOUT_S: Final = 60
_ATTEMPTS: Final = 4
_FIRST_SERVER_ERROR: Final = 500
_NETWORK_ERRORS: Final = (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError)


def default_cache() -> Path:
    """``$LITE_NLP_CACHE``, else ``lite-nlp`` in the user's cache directory."""
    if "LITE_NLP_CACHE" in os.environ:
        return Path(os.environ["LITE_NLP_CACHE"])
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lite-nlp"


def fetch(archive: Archive, cache: Path, *, progress: Progress, pause_s: float = 2.0) -> Path:
    """Download ``archive`` unless the cache has it.

    A download that breaks off is resumed where it broke, also by the next call if this one gives up.

    Args:
        archive: What to download.
        cache: The cache directory; made if missing.
        progress: Receiver of progress, in kilobytes; each attempt is a piece of work of its own.
        pause_s: Seconds before the second attempt; each further one waits twice as long.

    Returns:
        The file in the cache.

    Raises:
        DataError: If the server cannot be reached, refuses, or sends something else than expected.
        OutputError: If the cache cannot be written.
    """
    parts = urlsplit(archive.url)
    path = cache / "downloads" / parts.netloc.replace(":", "_") / parts.path.lstrip("/")
    if path.is_file():
        return path
    partial = path.with_name(path.name + ".partial")
    with _writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        for attempt in range(_ATTEMPTS):
            try:
                _continue(archive, partial, progress)
                break
            except _NETWORK_ERRORS as error:
                refused = isinstance(error, urllib.error.HTTPError) and error.code < _FIRST_SERVER_ERROR
                if refused or attempt == _ATTEMPTS - 1:
                    raise DataError(
                        f"{archive.url}: expected to download it, found: {error}; "
                        f"with a copy of the corpus at hand, use --from DIR"
                    ) from error
                time.sleep(pause_s * 2**attempt)
        _check(archive, partial)
        partial.replace(path)
        _validator_file(partial).unlink(missing_ok=True)
    return path


def _continue(archive: Archive, partial: Path, progress: Progress) -> None:
    """Download the rest of ``partial``.

    Raises:
        ConnectionError: If the server closes the connection early.
    """
    validator = _validator_file(partial)
    have = partial.stat().st_size if partial.exists() and validator.exists() else 0
    request = urllib.request.Request(archive.url, headers={"User-Agent": f"lite-nlp/{__version__}"})  # noqa: S310
    if have:
        # If the file has changed since, the server sends it from the start instead.
        request.add_header("Range", f"bytes={have}-")
        request.add_header("If-Range", validator.read_text(encoding="ascii"))
    with _answer(request, partial) as response:
        if response.status != http.HTTPStatus.PARTIAL_CONTENT:
            have = 0
        rest = response.headers.get("Content-Length")
        total = None if rest is None else have + int(rest)
        tag = response.headers.get("ETag", "")
        # A weak ETag does not promise the same bytes, so it cannot be used to continue.
        tag = response.headers.get("Last-Modified", "") if not tag or tag.startswith("W/") else tag
        progress.start(f"download {archive.name} (KB)", None if total is None else total // 1000)
        progress.advance(have // 1000)
        with partial.open("ab" if have else "wb") as file:
            if tag:
                validator.write_text(tag, encoding="ascii")
            else:
                validator.unlink(missing_ok=True)
            while block := response.read(_BLOCK_BYTES):
                file.write(block)
                before, have = have, have + len(block)
                progress.advance(have // 1000 - before // 1000)
    if total is not None and have < total:
        raise ConnectionError(f"the connection broke off after {have:,} of {total:,} bytes")


def _answer(request: urllib.request.Request, partial: Path) -> http.client.HTTPResponse:
    try:
        response: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=_TIMEOUT_S)  # noqa: S310
    except urllib.error.HTTPError as error:
        error.close()
        if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise
        # What is here is no beginning of the file any more: the next attempt starts over.
        partial.unlink()
        raise ConnectionError("the file has changed on the server") from error
    return response


def _validator_file(partial: Path) -> Path:
    return partial.with_name(partial.name + ".validator")


def _check(archive: Archive, path: Path) -> None:
    """Compare with the published size and checksum, and remove a file that does not match."""
    size = path.stat().st_size
    found = None
    if archive.size is not None and size != archive.size:
        found = f"expected {archive.size:,} bytes, found {size:,}"
    elif archive.checksum is not None:
        algorithm, expected = archive.checksum.split(":")
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False)).hexdigest()
        if digest != expected:
            found = f"expected {algorithm} {expected}, found {digest}"
    if found is not None:
        path.unlink()
        _validator_file(path).unlink(missing_ok=True)
        raise DataError(f"{archive.url}: {found}; the download is damaged or the file has changed")


def extract(archive: Path, members: Sequence[str], out: Path) -> list[Path]:
    """Extract single files from a tar or zip archive.

    Args:
        archive: The archive.
        members: Paths of the files in it.
        out: Directory for them, made whole or not at all; if it holds them already, the archive is not read.

    Returns:
        The extracted files, in the order of ``members``.

    Raises:
        DataError: If the archive is damaged or lacks a member.
        OutputError: If ``out`` cannot be written.
    """
    names = {member: member.replace("/", "_") for member in members}
    if not all((out / name).is_file() for name in names.values()):
        with atomic_directory(out, force=True, owned=None) as partial:
            _extract(archive, {member: partial / name for member, name in names.items()})
    return [out / name for name in names.values()]


def _extract(archive: Path, wanted: Mapping[str, Path]) -> None:
    missing = set(wanted)
    with open_archive(archive) as members:
        for member, file in members:
            if member in missing:
                with wanted[member].open("wb") as copy:
                    shutil.copyfileobj(file, copy, _BLOCK_BYTES)
                missing.remove(member)
    if missing:
        raise DataError(f"{archive}: expected it to hold {', '.join(sorted(missing))}, found no such file")


@contextmanager
def open_archive(archive: Path) -> Iterator[Iterator[tuple[str, IO[bytes]]]]:
    """Open a tar or zip archive.

    Yields:
        Name and content of each regular file, in the order of the archive; a content can be read until the next one is
        asked for. Damage is found at the end of the iteration at the latest.

    Raises:
        DataError: If the archive is damaged.
    """
    try:
        yield _contents(archive)
    except (tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{archive}: expected a whole archive, found a damaged one: {error}") from error


def _contents(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield name and content of each regular file in the archive, in its order."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as opened:
            for name in opened.namelist():
                with opened.open(name) as file:
                    yield name, file
        return
    with tarfile.open(archive) as tar:
        for member in tar:
            content = tar.extractfile(member) if member.isreg() else None
            if content is not None:
                yield member.name.removeprefix("./"), content
        # The checksum of a compressed tar is at its very end, behind the last file.
        while tar.fileobj is not None and tar.fileobj.read(_BLOCK_BYTES):
            pass


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(f"{path}: could not be written: {error}") from error
