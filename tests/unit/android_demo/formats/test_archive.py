"""The package's zip is one that others read, and always the same."""

import gzip
import hashlib
import struct
import zipfile
import zlib
from pathlib import Path

import pytest

import tools.formats.archive
from tools.base.errors import BuildError
from tools.formats.archive import Entry, deflate, write_zip

TEXT = b"the same words over and over, " * 40
NOISE = b"".join(hashlib.sha256(bytes([index])).digest() for index in range(16))
ENTRIES = [
    Entry("AndroidManifest.xml", TEXT),
    Entry("resources.arsc", TEXT + b"!", stored=True),
    Entry("assets/\N{LATIN SMALL LETTER U WITH DIAERESIS}.bin", NOISE),
    Entry("empty", b""),
]


@pytest.fixture(autouse=True)
def _deflating_without_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str | Path], *, what: str) -> str:
        source = Path(command[-1])
        # As gzip programs do: with the file's name in the header.
        target = source.with_name(source.name + ".gz")
        with target.open("wb") as file, gzip.GzipFile(source.name, "wb", 9, file, 0) as packed:
            packed.write(source.read_bytes())
        return ""

    monkeypatch.setattr(tools.formats.archive, "run", run)
    monkeypatch.setattr(tools.formats.archive, "BUILD", tmp_path / "build")


def test_others_read_it(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    sizes = write_zip(path, ENTRIES)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == [entry.name for entry in ENTRIES]
        for entry, info in zip(ENTRIES, archive.infolist(), strict=True):
            assert archive.read(entry.name) == entry.content
            assert info.date_time == (1980, 1, 1, 0, 0, 0)
        methods = [info.compress_type for info in archive.infolist()]
    assert methods == [zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED, zipfile.ZIP_STORED, zipfile.ZIP_STORED]
    # All but the end of the directory belongs to an entry.
    assert sum(sizes.values()) == path.stat().st_size - 22


def test_stored_entries_are_aligned(tmp_path: Path) -> None:
    for length in range(4):
        path = tmp_path / f"{length}.zip"
        write_zip(path, [Entry("a" * (5 + length), TEXT, stored=True), Entry("b", b"x", stored=True)])
        content = path.read_bytes()
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                name_size, extra_size = struct.unpack_from("<HH", content, info.header_offset + 26)
                assert (info.header_offset + 30 + name_size + extra_size) % 4 == 0


def test_the_same_entries_give_the_same_bytes(tmp_path: Path) -> None:
    write_zip(tmp_path / "a.zip", ENTRIES)
    write_zip(tmp_path / "b.zip", ENTRIES)
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()


def test_a_name_is_given_once(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="expected each name once, found twice: a"):
        write_zip(tmp_path / "a.zip", [Entry("a", b"1"), Entry("b", b""), Entry("a", b"2")])


def test_deflated_streams_are_kept_and_checked(tmp_path: Path) -> None:
    stream = deflate(TEXT)
    assert zlib.decompress(stream, wbits=-15) == TEXT
    (kept,) = (tmp_path / "build" / "deflated").iterdir()
    assert kept.read_bytes() == stream
    kept.write_bytes(stream[:-3])
    assert deflate(TEXT) == stream
    assert kept.read_bytes() == stream


def test_a_program_that_loses_bytes_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str | Path], *, what: str) -> str:
        Path(f"{command[-1]}.gz").write_bytes(gzip.compress(b"something else", mtime=0))
        return ""

    monkeypatch.setattr(tools.formats.archive, "run", run)
    with pytest.raises(BuildError, match="expected a stream that inflates to what was given"):
        deflate(TEXT)
