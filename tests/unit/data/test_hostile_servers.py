"""Servers, archives and rivals that do what they should not: our error, and never a wrong file."""

import bz2
import gzip
import hashlib
import io
import json
import lzma
import os
import socket
import struct
import tarfile
import threading
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPMessage
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lite_nlp.core.errors import DataError
from lite_nlp.core.locks import Lock, locked
from lite_nlp.core.progress import SilentProgress
from lite_nlp.data.published import download as download_module
from lite_nlp.data.published import transfer
from lite_nlp.data.published.archives import MAX_EXPANSION, extract, open_archive
from lite_nlp.data.published.catalogue import CORPORA
from lite_nlp.data.published.download import fetch, record_file
from lite_nlp.data.published.entries import Archive, Columns, Stories, Text

CONTENT = bytes(range(256)) * 400


@contextmanager
def server(*answers: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """A server that gives the answers one after the other, the last again and again; its address, and the requests."""
    requests: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    request = b""
                    while b"\r\n\r\n" not in request:
                        request += connection.recv(65536) or b"\r\n\r\n"
                    requests.append(request)
                    connection.sendall(answers[min(len(requests), len(answers)) - 1])

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/a.bin", requests
        listening.shutdown(socket.SHUT_RDWR)


def ok(*headers: str, body: bytes = CONTENT, status: str = "200 OK") -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *headers, "", ""]).encode("latin-1") + body


def get(url: str, cache: Path, **facts: Any) -> Path:
    said: list[str] = facts.pop("said", [])
    return fetch(Archive(url, **facts), cache, progress=SilentProgress(), say=said.append, pause_s=0.0)


def files(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    "answer",
    [
        *(ok(f"Content-Length: {length}") for length in ("many", "-5", "1e3", "0x10", "5,5", "9" * 30, "\xb2")),
        ok(f"Content-Length: {len(CONTENT) + 1}"),
        ok("Content-Length: 99999999999"),
        ok("Content-Range: bytes 0-5/6", status="206 Partial Content"),
        ok("Transfer-Encoding: chunked", body=b"zz\r\n" + CONTENT),
        ok("Transfer-Encoding: chunked", body=b"fff\r\nshort"),
        *(
            ok(f"Location: {place}", status="302 Found")
            for place in (
                *("http://[::1", "http://host:port/", "http://" + "x" * 70 + ".example/", "file:///etc/passwd"),
                *("ftp://127.0.0.1/a", "data:,x", "javascript:1", "//", "http://", "", "http:///a", "?" * 5),
            )
        ),
        ok(status="302 Found"),
        ok(status="999 What"),
        b"HTTP/1.1 200\r\n",
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70000 + b"\r\n\r\n",
        b"",
    ],
    ids=lambda answer: repr(answer[:60]),
)
def test_a_malformed_answer_is_our_error(tmp_path: Path, answer: bytes) -> None:
    with server(answer) as (url, _), pytest.raises(DataError, match=r"a\.bin: expected"):
        get(url, tmp_path)
    assert [name for name in files(tmp_path) if not name.startswith("a.bin.unfinished")] == []


def test_a_redirect_in_circles_ends(tmp_path: Path) -> None:
    with server(ok("Location: /a.bin", status="302 Found")) as (url, requests), pytest.raises(DataError):
        get(url, tmp_path)
    assert len(requests) < 20


def test_a_redirect_away_from_https_is_refused() -> None:
    handler = transfer.Redirects()
    request = urllib.request.Request("https://example.org/a")
    with pytest.raises(DataError, match=r"expected a redirect over https, found one to http://example\.org/b"):
        handler.redirect_request(request, io.BytesIO(), 302, "Found", HTTPMessage(), "http://example.org/b")


def test_another_part_than_asked_for_is_not_appended(tmp_path: Path) -> None:
    broken = ok('ETag: "1"', f"Content-Length: {len(CONTENT)}", body=CONTENT[:1000])
    wrong = ok('ETag: "1"', f"Content-Range: bytes 5-{len(CONTENT)}/{len(CONTENT)}", status="206 Partial Content")
    whole = ok('ETag: "1"', f"Content-Length: {len(CONTENT)}")
    with server(broken, wrong, whole) as (url, requests):
        assert get(url, tmp_path).read_bytes() == CONTENT
    assert [b"Range: bytes=1000-" in request for request in requests] == [False, True, False]


def test_more_than_the_published_size_is_not_even_downloaded(tmp_path: Path) -> None:
    with server(ok()) as (url, _), pytest.raises(DataError, match="expected 1,000 bytes at most, found more"):
        get(url, tmp_path, size=1000)
    with (
        server(ok(f"Content-Length: {len(CONTENT)}")) as (url, _),
        pytest.raises(DataError, match="expected 1,000 bytes, found 102,400; the file has changed"),
    ):
        get(url, tmp_path, size=1000)


def test_processes_that_need_one_file_get_the_same(tmp_path: Path) -> None:
    found: list[bytes] = []
    with server(ok(f"Content-Length: {len(CONTENT)}")) as (url, requests):
        threads = [threading.Thread(target=lambda: found.append(get(url, tmp_path).read_bytes())) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == [CONTENT] * 8
    assert len(requests) == 1
    assert files(tmp_path) == ["a.bin", "a.bin.recorded.json"]


def test_an_empty_partial_may_be_removed_by_another_process_at_any_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def after_another(path: Path, *, wait: bool, create: bool) -> Iterator[Lock]:
        path.unlink(missing_ok=True)
        with locked(path, wait=wait, create=create) as lock:
            yield lock
            path.unlink(missing_ok=True)

    monkeypatch.setattr(download_module, "locked", after_another)
    with server(ok(f"Content-Length: {len(CONTENT)}")) as (url, _):
        assert get(url, tmp_path).read_bytes() == CONTENT
    assert files(tmp_path) == ["a.bin", "a.bin.recorded.json"]


def test_without_locks_no_partial_is_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def unsupported(path: Path, *, wait: bool, create: bool) -> Iterator[Lock]:
        yield Lock.UNSUPPORTED

    monkeypatch.setattr(download_module, "locked", unsupported)
    found: list[bytes] = []
    with server(ok(f"Content-Length: {len(CONTENT)}")) as (url, _):
        threads = [threading.Thread(target=lambda: found.append(get(url, tmp_path).read_bytes())) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == [CONTENT] * 4
    assert {name for name in files(tmp_path) if "unfinished" not in name} == {"a.bin", "a.bin.recorded.json"}


def test_a_file_without_a_checksum_is_recorded_and_compared(tmp_path: Path) -> None:
    said: list[str] = []
    digest = hashlib.sha256(CONTENT).hexdigest()
    with server(ok()) as (url, _):
        path = get(url, tmp_path, said=said)
        assert json.loads(record_file(path).read_text())["sha256"] == digest
        assert "no checksum" in said[0]
        assert digest in said[0]
        # In use again, it is compared.
        get(url, tmp_path, said=said)
        assert "the same as at the first download" in said[1]
        path.write_bytes(b"altered")
        with pytest.raises(DataError, match=f"expected SHA-256 {digest}, as recorded in .*, found [0-9a-f]{{64}}"):
            get(url, tmp_path)
    assert path.read_bytes() == b"altered"
    path.unlink()
    with server(ok(body=b"other")) as (other, _):
        # The same place in the cache: the port is a part of the name of the directory.
        record_file(path).rename(record_file(tmp_path / "a.bin"))
        moved = tmp_path / "downloads" / other.split("/")[2].replace(":", "_")
        moved.mkdir()
        record_file(tmp_path / "a.bin").rename(record_file(moved / "a.bin"))
        with pytest.raises(DataError, match=rf"expected SHA-256 {digest}.*to accept the new one, delete"):
            get(other, tmp_path)
    assert files(moved) == ["a.bin.recorded.json"]


def test_a_file_with_a_checksum_is_compared_on_every_use(tmp_path: Path) -> None:
    digest = hashlib.sha256(CONTENT).hexdigest()
    with server(ok()) as (url, _):
        path = get(url, tmp_path, checksum=f"sha256:{digest}")
        path.write_bytes(b"altered")
        with pytest.raises(DataError, match=f"expected sha256 {digest}, found .*; delete .*a.bin to download it again"):
            get(url, tmp_path, checksum=f"sha256:{digest}")
    assert files(tmp_path) == ["a.bin"]


def test_the_catalogue_is_read_over_https_and_says_what_has_no_checksum() -> None:
    archives: set[Archive] = set()
    for corpus in CORPORA.values():
        for part in (part for parts in corpus.parts.values() for part in parts):
            if isinstance(part, Text | Columns):
                archives.add(part.archive)
            elif isinstance(part, Stories):
                archives.update((*part.archives, part.addresses))
            else:
                archives.update(text.archive for text in part.values())
    assert {archive.url.partition(":")[0] for archive in archives} == {"https"}
    lengths = {"md5": 32, "sha256": 64}
    for archive in archives:
        if archive.checksum is not None:
            algorithm, digest = archive.checksum.split(":")
            assert len(bytes.fromhex(digest)) * 2 == lengths[algorithm]
    without = {archive.name for archive in archives if archive.checksum is None}
    plays = {f"{split}.{side}.nltktok" for split in ("train", "valid", "test") for side in ("modern", "original")}
    assert without == {"deu-eng.zip", "en-ro.txt.zip", "agr_50_mostcommon_10K.tsv.gz", *plays}


def make_zip(path: Path, *, method: int = zipfile.ZIP_DEFLATED, content: bytes = CONTENT) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("a.txt", content)
    return path


def altered_zip(path: Path, *, flags: int | None = None, method: int | None = None) -> Path:
    """A zip whose headers say that its member is encrypted, or of another method."""
    content = bytearray(make_zip(path).read_bytes())
    central = content.rindex(b"PK\x01\x02")
    for start, offset in ((0, 6), (central, 8)):
        if flags is not None:
            struct.pack_into("<H", content, start + offset, flags)
        if method is not None:
            struct.pack_into("<H", content, start + offset + 2, method)
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"flags": 1}, "not encrypted, found a.txt"),
        ({"method": 99}, "expected files that are stored, .*, found a.txt by method 99"),
        ({"method": 9}, "expected files that are stored, .*, found a.txt by method 9"),
        ({"method": 12}, "expected a whole archive"),
        ({"method": 14}, "expected a whole archive"),
        ({"method": 93}, "found a.txt by method 93"),
    ],
)
def test_methods_that_cannot_be_read_are_refused(tmp_path: Path, facts: dict[str, int], message: str) -> None:
    archive = altered_zip(tmp_path / "a.zip", **facts)
    with pytest.raises(DataError, match=message):
        extract(archive, ["a.txt"], tmp_path / "out")
    assert os.listdir(tmp_path) == ["a.zip"]


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_methods_that_python_has_are_read(tmp_path: Path, method: int) -> None:
    archive = make_zip(tmp_path / "a.zip", method=method)
    assert extract(archive, ["a.txt"], tmp_path / "out")[0].read_bytes() == CONTENT


def tar_of(content: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        member = tarfile.TarInfo("a.txt")
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress], ids=lambda pack: pack.__name__)
def test_tars_are_read_however_they_are_packed(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    (tmp_path / "a.tar").write_bytes(pack(tar_of(CONTENT)))
    assert extract(tmp_path / "a.tar", ["a.txt"], tmp_path / "out")[0].read_bytes() == CONTENT


def bomb_in_a_zip(path: Path) -> None:
    make_zip(path, content=bytes(100 << 20))


def bomb_in_a_tar(path: Path) -> None:
    path.write_bytes(lzma.compress(tar_of(bytes(100 << 20)), preset=0))


def bomb_behind_a_tar(path: Path) -> None:
    path.write_bytes(lzma.compress(tar_of(b"") + bytes(100 << 20), preset=0))


def bomb_in_a_header(path: Path) -> None:
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.XHDTYPE, 20 << 20
    path.write_bytes(gzip.compress(header.tobuf() + bytes(20 << 20)))


@pytest.mark.parametrize("make", [bomb_in_a_zip, bomb_in_a_tar, bomb_behind_a_tar, bomb_in_a_header])
def test_bombs_are_refused(tmp_path: Path, make: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lite_nlp.data.published.archives._ALWAYS_BYTES", 1 << 20)
    make(tmp_path / "bomb")
    assert (tmp_path / "bomb").stat().st_size * MAX_EXPANSION < 90 << 20
    with pytest.raises(DataError, match=r"expected (at most|pieces of)"):
        extract(tmp_path / "bomb", ["a.txt"], tmp_path / "out")
    assert os.listdir(tmp_path) == ["bomb"]


SEEDS = [tar_of(b"one\n" * 50), gzip.compress(tar_of(b"one\n" * 50)), lzma.compress(tar_of(b"x"))]


@settings(max_examples=150, deadline=None)
@given(
    seed=st.sampled_from(range(len(SEEDS) + 1)),
    places=st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), max_size=6),
    cut=st.integers(0, 1 << 20),
)
def test_any_damage_is_our_error(
    tmp_path_factory: pytest.TempPathFactory, seed: int, places: list[tuple[int, int]], cut: int
) -> None:
    path = tmp_path_factory.mktemp("damaged") / "archive"
    content = bytearray(make_zip(path, content=b"one\n" * 50).read_bytes() if seed == len(SEEDS) else SEEDS[seed])
    for place, value in places:
        content[place % len(content)] = value
    path.write_bytes(content[: cut % len(content) + 1] if cut % 3 == 0 else content)
    try:
        with open_archive(path) as members:
            for _, member in members:
                member.read()
    except DataError:
        pass
