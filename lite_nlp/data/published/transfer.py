"""One file over HTTP, resumed where it broke off; whatever a server answers, an error is one of ours."""

import http.client
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPMessage
from pathlib import Path
from typing import IO, Final
from urllib.parse import urlsplit

from lite_nlp.core.errors import DataError
from lite_nlp.core.progress import Progress
from lite_nlp.core.version import __version__

__all__ = ["MAX_DOWNLOAD_BYTES", "Redirects", "download", "validator_file"]

#: Largest file: twice that of the largest in the catalogue, so that an answer without an end does not fill the disk.
MAX_DOWNLOAD_BYTES: Final = 6_000_000_000

_BLOCK_BYTES: Final = 1 << 18
_TIMEOUT_S: Final = 60
_ATTEMPTS: Final = 4
_FIRST_SERVER_ERROR: Final = 500
_NETWORK_ERRORS: Final = (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError)


def download(url: str, partial: Path, *, name: str, size: int | None, progress: Progress, pause_s: float) -> None:
    """Download the rest of a file.

    Args:
        url: Where it is.
        partial: What there is of it, if anything; belongs to this process alone.
        name: Its name in reports of progress.
        size: Its size, where that is known.
        progress: Receiver of progress, in kilobytes; each attempt is a piece of work of its own.
        pause_s: Seconds before the second attempt; each further one waits twice as long.

    Raises:
        DataError: If the server cannot be reached, refuses, or answers with what is no download of this size.
        OSError: If ``partial`` cannot be written.
    """
    for attempt in range(_ATTEMPTS):
        try:
            _continue(url, partial, name, size, progress)
            return
        except _NETWORK_ERRORS as error:
            refused = isinstance(error, urllib.error.HTTPError) and error.code < _FIRST_SERVER_ERROR
            if refused or isinstance(error, http.client.InvalidURL) or attempt == _ATTEMPTS - 1:
                raise _failed(url, error) from error
        except ValueError as error:
            # An address in a redirect that is none.
            raise _failed(url, error) from error
        time.sleep(pause_s * 2**attempt)


def validator_file(partial: Path) -> Path:
    """The file with what the server calls this version of a partial download."""
    return partial.with_name(partial.name + ".validator")


def _failed(url: str, error: Exception) -> DataError:
    return DataError(
        f"{url}: expected to download it, found: {error}; with a copy of the corpus at hand, use --from DIR"
    )


def _continue(url: str, partial: Path, name: str, size: int | None, progress: Progress) -> None:
    """Download the rest of ``partial`` in one attempt.

    Raises:
        ConnectionError: If the server closes the connection early.
    """
    validator = validator_file(partial)
    have = partial.stat().st_size if partial.exists() and validator.exists() else 0
    request = urllib.request.Request(url, headers={"User-Agent": f"lite-nlp/{__version__}"})  # noqa: S310
    if have:
        # If the file has changed since, the server sends it from the start instead.
        request.add_header("Range", f"bytes={have}-")
        request.add_header("If-Range", validator.read_text(encoding="ascii"))
    with _answer(request, partial) as response:
        have = _start(response, have, partial)
        total = _total(url, response, have, size)
        progress.start(f"download {name} (KB)", None if total is None else total // 1000)
        progress.advance(have // 1000)
        with partial.open("ab" if have else "wb") as file:
            _note_version(response, validator)
            have = _copy(url, response, file, have, size or MAX_DOWNLOAD_BYTES, progress.advance)
    if have == 0:
        raise ConnectionError("an answer without content")
    if total is not None and have < total:
        raise ConnectionError(f"the connection broke off after {have:,} of {total:,} bytes")


def _copy(
    url: str,
    response: http.client.HTTPResponse,
    file: IO[bytes],
    have: int,
    most: int,
    advance: Callable[[int], None],
) -> int:
    while block := response.read(_BLOCK_BYTES):
        if have + len(block) > most:
            raise DataError(f"{url}: expected {most:,} bytes at most, found more")
        file.write(block)
        before, have = have, have + len(block)
        advance(have // 1000 - before // 1000)
    return have


def _start(response: http.client.HTTPResponse, have: int, partial: Path) -> int:
    """The byte that the answer begins with: the first, or that after what there is."""
    if response.status != http.HTTPStatus.PARTIAL_CONTENT:
        return 0
    found = response.headers.get("Content-Range", "")
    if not have or not re.match(rf"bytes {have}-", found):
        # The next attempt asks for the whole.
        partial.unlink(missing_ok=True)
        raise ConnectionError(f"another part than that from byte {have:,} on, Content-Range {found[:40]!r}")
    return have


def _total(url: str, response: http.client.HTTPResponse, have: int, size: int | None) -> int | None:
    """Size of the whole file by the answer; None if it does not tell."""
    found = response.headers.get("Content-Length")
    if found is None:
        return None
    if not re.fullmatch("[0-9]{1,18}", found, re.ASCII):
        raise DataError(f"{url}: expected a Content-Length in bytes, found {found[:40]!r}")
    total = have + int(found)
    if total != size and (size is not None or total > MAX_DOWNLOAD_BYTES):
        expected = f"{MAX_DOWNLOAD_BYTES:,} bytes at most" if size is None else f"{size:,} bytes"
        raise DataError(f"{url}: expected {expected}, found {total:,}; the file has changed")
    return total


def _note_version(response: http.client.HTTPResponse, validator: Path) -> None:
    tag = response.headers.get("ETag", "")
    # A weak ETag does not promise the same bytes, so it cannot be used to continue.
    tag = response.headers.get("Last-Modified", "") if not tag or tag.startswith("W/") else tag
    if tag and tag.isascii() and tag.isprintable():
        validator.write_text(tag, encoding="ascii")
    else:
        validator.unlink(missing_ok=True)


def _answer(request: urllib.request.Request, partial: Path) -> http.client.HTTPResponse:
    opener = urllib.request.build_opener(Redirects)
    try:
        response: http.client.HTTPResponse = opener.open(request, timeout=_TIMEOUT_S)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise
        # What is here is no beginning of the file any more: the next attempt starts over.
        partial.unlink(missing_ok=True)
        raise ConnectionError("the file has changed on the server") from error
    return response


class Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects over HTTP and HTTPS, and none from HTTPS to less."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        """See the class in the standard library."""
        allowed = ("https",) if urlsplit(req.full_url).scheme == "https" else ("https", "http")
        if urlsplit(newurl).scheme not in allowed:
            raise DataError(f"{req.full_url}: expected a redirect over {' or '.join(allowed)}, found one to {newurl}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)
