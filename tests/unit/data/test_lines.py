import bz2
import gzip
import lzma
import tarfile
import zipfile
from pathlib import Path

import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lite_nlp.core.errors import DataError
from lite_nlp.data.lines import LongLine, read_blocks, read_lines

CONTENT = b"".join(b"%d\tnumber %d\n" % (i, i * i) for i in range(3_000))


def zstd(content):
    """One zstd frame."""
    sink = pyarrow.BufferOutputStream()
    with pyarrow.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return sink.getvalue().to_pybytes()


def lines(path, max_bytes=1_000):
    return list(read_lines(path, max_bytes=max_bytes))


def written(tmp_path, content, name="a.txt"):
    path = tmp_path / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    "content",
    [
        CONTENT,
        gzip.compress(CONTENT),
        zstd(CONTENT),
        # Several frames one after the other, as parallel compression writes them, and one to be skipped before them.
        zstd(CONTENT[:20_000]) + zstd(CONTENT[20_000:]),
        b"\x50\x2a\x4d\x18\x04\0\0\0abcd" + zstd(CONTENT),
    ],
)
def test_compression_is_known_by_the_content(tmp_path, content):
    path = written(tmp_path, content)
    assert lines(path) == CONTENT.splitlines()
    assert b"".join(read_blocks(path, 777)) == CONTENT
    assert max(map(len, read_blocks(path, 777))) <= 777


@pytest.mark.parametrize(("compress", "kind"), [(gzip.compress, "gzip"), (zstd, "zstd")])
@pytest.mark.parametrize("kept", [6, 0.5, 0.9, -4])
def test_a_truncated_file_is_refused(tmp_path, compress, kind, kept):
    whole = compress(CONTENT)
    end = kept if isinstance(kept, int) else int(kept * len(whole))
    path = written(tmp_path, whole[:end])
    message = rf"a\.txt: expected a whole {kind} file, found it damaged after line [0-9,]+"
    with pytest.raises(DataError, match=message):
        lines(path)
    with pytest.raises(DataError, match=rf"expected a whole {kind} file, found it damaged after [0-9,]+ bytes"):
        list(read_blocks(path, 1_000))


def test_an_altered_zstd_header_is_refused(tmp_path):
    altered = bytearray(zstd(CONTENT))
    altered[4:12] = b"\xff" * 8
    with pytest.raises(DataError, match="expected a whole zstd file, found it damaged after line 0"):
        lines(written(tmp_path, bytes(altered)))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_is_named(tmp_path, encoding):
    path = written(tmp_path, "Où est la gare ?\tWhere is the station?\n".encode(encoding))
    with pytest.raises(DataError, match=r"a\.txt: expected UTF-8 text, found UTF-16: convert it, .* iconv -f UTF-16"):
        lines(path)


def test_what_is_packed_in_another_way_is_named(tmp_path):
    with zipfile.ZipFile(tmp_path / "fra-eng.zip", "w") as archive:
        archive.writestr("fra.txt", "Go.\tVa !\n")
    (tmp_path / "a.xz").write_bytes(lzma.compress(CONTENT))
    (tmp_path / "a.bz2").write_bytes(bz2.compress(CONTENT))
    for name, found in (("fra-eng.zip", "a zip archive"), ("a.xz", "an xz file"), ("a.bz2", "a bzip2 file")):
        with pytest.raises(DataError, match=rf"{name}: expected a text file.*, found {found}: unpack it first"):
            lines(tmp_path / name)


def test_binary_data_is_no_text(tmp_path):
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
        archive.add(written(tmp_path, CONTENT), arcname="a.txt")
    with pytest.raises(DataError, match=r"a\.tar\.gz: expected UTF-8 text, found binary data: unpack it first"):
        lines(tmp_path / "a.tar.gz")
    # A zero byte is a character like others.
    assert lines(written(tmp_path, b"a\0b c d e\n")) == [b"a\0b c d e"]


def test_a_long_line_is_not_held_in_memory(tmp_path):
    path = written(tmp_path, b"short\n" + b"x" * 100_000 + b"\nend")
    first, long, last = lines(path, max_bytes=50)
    assert (first, last) == (b"short", b"end")
    assert isinstance(long, LongLine)
    assert long.start == b"x" * 52


@settings(max_examples=60, deadline=None, database=None)
@given(st.lists(st.binary(max_size=30).map(lambda line: line.replace(b"\n", b"").rstrip(b"\r") or b"-"), min_size=1))
def test_lines_are_the_same_however_they_are_compressed(tmp_path_factory, content):
    # The first line decides what the file is.
    wanted = [b"first", *content]
    directory = tmp_path_factory.mktemp("lines")
    for compress in (bytes, gzip.compress, zstd):
        assert lines(written(directory, compress(b"\n".join(wanted)))) == wanted


def test_a_missing_file_is_named():
    with pytest.raises(DataError, match=r"nowhere: expected a readable text file, found none: No such file"):
        list(read_blocks(Path("nowhere"), 10))
