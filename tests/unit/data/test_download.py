import gzip
import hashlib
import threading
import zipfile
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from lite_nlp.core.errors import DataError, OutputError
from lite_nlp.data.published.archives import extract
from lite_nlp.data.published.download import fetch
from lite_nlp.data.published.entries import Archive
from tests.unit.data.archives import write_tar
from tests.unit.data.recorder import Recorder

CONTENT = bytes(range(256)) * 4000


class Publisher:
    """A server on this machine that can break off, refuse and change its file."""

    def __init__(self):
        self.files = {}
        self.etag = '"1"'
        self.ranges = []
        self.break_after = []
        self.status = None


class Handler(BaseHTTPRequestHandler):
    def __init__(self, publisher, *args):
        self.publisher = publisher
        super().__init__(*args)

    def log_message(self, *args):
        pass

    def do_GET(self):
        publisher, content = self.publisher, self.publisher.files.get(self.path.lstrip("/"))
        publisher.ranges.append(self.headers.get("Range"))
        if publisher.status or content is None:
            self.send_error(publisher.status or 404)
            return
        start = 0
        if self.headers.get("Range") and self.headers.get("If-Range") == publisher.etag:
            start = int(self.headers["Range"].removeprefix("bytes=").removesuffix("-"))
            if start >= len(content):
                self.send_error(416)
                return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(content) - start))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        if publisher.etag:
            self.send_header("ETag", publisher.etag)
        self.end_headers()
        stop = publisher.break_after.pop(0) if publisher.break_after else len(content)
        self.wfile.write(content[start:stop])


@pytest.fixture
def publisher():
    publisher = Publisher()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, publisher)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        publisher.url = f"http://127.0.0.1:{server.server_port}"
        yield publisher
        server.shutdown()
        thread.join()


def get(archive, cache, **options):
    progress = Recorder()
    path = fetch(archive, cache, progress=progress, pause_s=0.0, **options)
    return path, progress.seen


def test_download_once_and_check(publisher, tmp_path):
    publisher.files["data/a.bin"] = CONTENT
    digest = hashlib.sha256(CONTENT).hexdigest()
    archive = Archive(f"{publisher.url}/data/a.bin", size=len(CONTENT), checksum=f"sha256:{digest}")
    path, seen = get(archive, tmp_path)
    assert path.read_bytes() == CONTENT
    assert seen == [("download a.bin (KB)", 1024, 1024)]
    assert get(archive, tmp_path) == (path, [])
    assert publisher.ranges == [None]
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == [path]


def test_broken_connections_are_taken_up_where_they_broke(publisher, tmp_path):
    publisher.files["a.bin"] = CONTENT
    publisher.break_after = [300_000, 700_000]
    path, seen = get(Archive(f"{publisher.url}/a.bin"), tmp_path)
    assert path.read_bytes() == CONTENT
    assert publisher.ranges == [None, "bytes=300000-", "bytes=700000-"]
    assert [done for _, done, _ in seen] == [300, 700, 1024]


def test_the_next_call_goes_on_after_giving_up(publisher, tmp_path):
    publisher.files["a.bin"] = CONTENT
    archive = Archive(f"{publisher.url}/a.bin")
    publisher.break_after = [1000, 2000, 3000, 4000]
    with pytest.raises(
        DataError, match=r"a\.bin: expected to download it, found: .* broke off after 4,000 of 1,024,000"
    ):
        get(archive, tmp_path)
    path, _ = get(archive, tmp_path)
    assert path.read_bytes() == CONTENT
    assert publisher.ranges[-1] == "bytes=4000-"


def test_a_file_that_changed_meanwhile_is_read_from_the_start(publisher, tmp_path):
    publisher.files["a.bin"] = CONTENT
    publisher.break_after = [1000, 1000, 1000, 1000]
    archive = Archive(f"{publisher.url}/a.bin")
    with pytest.raises(DataError):
        get(archive, tmp_path)
    publisher.etag, publisher.files["a.bin"] = '"2"', CONTENT[::-1]
    path, _ = get(archive, tmp_path)
    assert path.read_bytes() == CONTENT[::-1]


def test_without_a_validator_nothing_is_continued(publisher, tmp_path):
    publisher.etag = ""
    publisher.files["a.bin"] = CONTENT
    publisher.break_after = [1000]
    path, _ = get(Archive(f"{publisher.url}/a.bin"), tmp_path)
    assert path.read_bytes() == CONTENT
    assert publisher.ranges == [None, None]


def test_a_range_that_cannot_be_is_given_up(publisher, tmp_path):
    publisher.files["a.bin"] = CONTENT
    publisher.break_after = [1000, 1000, 1000, 1000]
    archive = Archive(f"{publisher.url}/a.bin")
    with pytest.raises(DataError):
        get(archive, tmp_path)
    publisher.files["a.bin"] = CONTENT[:1000]
    path, _ = get(archive, tmp_path)
    assert path.read_bytes() == CONTENT[:1000]


@pytest.mark.parametrize(("status", "requests"), [(404, 1), (403, 1), (503, 4)])
def test_refusal_is_reported(publisher, tmp_path, status, requests):
    publisher.status = status
    with pytest.raises(DataError, match=rf"a\.bin: expected to download it, found: HTTP Error {status}.*--from DIR"):
        get(Archive(f"{publisher.url}/a.bin"), tmp_path)
    assert len(publisher.ranges) == requests


def test_no_server_is_reported(tmp_path):
    with pytest.raises(DataError, match=r"expected to download it, found: .*refused"):
        get(Archive("http://127.0.0.1:9/a.bin"), tmp_path)


@pytest.mark.parametrize(
    ("claims", "message"),
    [
        ({"size": 7}, "expected 7 bytes, found 1,024,000"),
        ({"checksum": "md5:" + "0" * 32}, "expected md5 0{32}, found"),
    ],
)
def test_another_file_than_published_is_thrown_away(publisher, tmp_path, claims, message):
    publisher.files["a.bin"] = CONTENT
    with pytest.raises(DataError, match=message):
        get(Archive(f"{publisher.url}/a.bin", **claims), tmp_path)
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == []


def test_unwritable_cache_is_reported(publisher, tmp_path):
    publisher.files["a.bin"] = CONTENT
    (tmp_path / "cache").write_bytes(b"a file where the directory must go")
    with pytest.raises(OutputError, match="could not be written"):
        get(Archive(f"{publisher.url}/a.bin"), tmp_path / "cache")


def zip_archive(path, files):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


FILES = {"de-en/a.en": b"one\n" * 5000, "de-en/a.de": b"eins\n" * 5000, "../outside": b"never wanted"}


@pytest.mark.parametrize("make", [write_tar, partial(write_tar, mode="w"), zip_archive])
def test_only_what_is_wanted_is_extracted(tmp_path, make):
    archive = make(tmp_path / "archive", FILES)
    paths = extract(archive, ["de-en/a.de", "de-en/a.en"], tmp_path / "out")
    assert [path.read_bytes() for path in paths] == [FILES["de-en/a.de"], FILES["de-en/a.en"]]
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == [
        "archive",
        "de-en_a.de",
        "de-en_a.en",
    ]
    archive.unlink()
    assert extract(archive, ["de-en/a.de", "de-en/a.en"], tmp_path / "out") == paths


def test_leading_dot_in_a_tar_is_no_difference(tmp_path):
    archive = write_tar(tmp_path / "archive", {"./de-en/a.en": b"one\n"})
    assert extract(archive, ["de-en/a.en"], tmp_path / "out")[0].read_bytes() == b"one\n"


def test_missing_member_is_named(tmp_path):
    archive = write_tar(tmp_path / "archive", FILES)
    with pytest.raises(DataError, match=r"archive: expected it to hold de-en/b\.en, found no such file"):
        extract(archive, ["de-en/a.en", "de-en/b.en"], tmp_path / "out")


def test_damaged_archives_are_refused(tmp_path):
    whole = write_tar(tmp_path / "archive", {"a.en": gzip.compress(CONTENT)}).read_bytes()
    altered = bytearray(whole)
    altered[len(whole) // 2] ^= 0xFF
    for number, content in enumerate((whole[: len(whole) // 2], bytes(altered), b"no archive", b"")):
        archive = tmp_path / f"damaged{number}"
        archive.write_bytes(content)
        out = tmp_path / f"out{number}"
        with pytest.raises(DataError, match="expected a whole archive, found a damaged one"):
            extract(archive, ["a.en"], out)
        assert [path for path in tmp_path.rglob("*") if path.is_relative_to(out) and path.is_file()] == []
