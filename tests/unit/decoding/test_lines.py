import bz2
import gzip
import io
import lzma
import os
import threading

import pytest

from lite_nlp.core.errors import DataError
from lite_nlp.decoding.lines import open_lines, read_chunks, read_file_lines


class SlowStream:
    """Gives one block per read, as a terminal or a pipe does."""

    def __init__(self, *blocks):
        self.blocks = [*blocks, b""]

    def read1(self, size):
        return self.blocks.pop(0)


def read_all(content):
    return [line for chunk in read_chunks(io.BytesIO(content), "text") for line in chunk]


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"one", ["one"]),
        (b"one\n", ["one"]),
        (b"one\n\ntwo\n", ["one", "", "two"]),
        (b"one\r\ntwo\r\n", ["one", "two"]),
        (b"one\rstill one\n", ["one\rstill one"]),
        (b"\xef\xbb\xbfone\ntwo", ["one", "two"]),
        ("ein\u2028Satz\x0b mit\x85 Umbruch\n".encode(), ["ein\u2028Satz\x0b mit\x85 Umbruch"]),
        (b"nul\x00byte\n", ["nul\x00byte"]),
    ],
)
def test_only_a_newline_ends_a_line(content, lines):
    assert read_all(content) == lines


def test_many_lines_across_read_boundaries():
    lines = [f"{number} " + "ü" * (number % 97) for number in range(5000)]
    assert read_all("\n".join(lines).encode()) == lines


def test_a_line_longer_than_one_read():
    assert read_all(b"x" * 300_000 + b"\nend") == ["x" * 300_000, "end"]


def test_lines_are_given_as_they_arrive():
    chunks = read_chunks(SlowStream(b"one\n", b"two\nth", b"r\xc3", b"\xb6e\nfour"), "text")
    assert list(chunks) == [["one"], ["two"], ["thröe"], ["four"]]


def test_a_line_is_given_before_the_next_is_typed():
    reading, writing = os.pipe()
    typed = threading.Event()

    def type_second_line():
        typed.wait(timeout=30)
        os.write(writing, b"second\n")
        os.close(writing)

    typist = threading.Thread(target=type_second_line)
    typist.start()
    with os.fdopen(reading, "rb") as stream:
        chunks = read_chunks(stream, "pipe")
        os.write(writing, b"first\n")
        assert next(chunks) == ["first"]
        typed.set()
        assert list(chunks) == [["second"]]
    typist.join()


def test_bad_bytes_name_the_line_after_the_lines_before_it():
    chunks = read_chunks(io.BytesIO(b"one\ntwo\nth\xffee\nfour\n"), "notes.txt")
    assert next(chunks) == ["one", "two"]
    with pytest.raises(DataError, match=r"notes.txt: line 3: expected UTF-8, found byte 0xff at byte 3 of the line"):
        next(chunks)


def test_bad_bytes_in_a_later_chunk_count_all_lines():
    chunks = read_chunks(SlowStream(b"1\n2\n", b"3\n", b"\xe9"), "text")
    assert [next(chunks), next(chunks)] == [["1", "2"], ["3"]]
    with pytest.raises(DataError, match="text: line 4: "):
        next(chunks)


def test_a_file_is_checked_before_any_line_is_given(tmp_path):
    path = tmp_path / "bad.txt"
    path.write_bytes(b"good\n" * 50_000 + b"\x80\n")
    with pytest.raises(DataError, match=r"bad.txt: line 50001: expected UTF-8, found byte 0x80"), open_lines(path):
        pytest.fail("the file was opened")


@pytest.mark.parametrize("pack", [gzip.compress, bytes])
@pytest.mark.parametrize("name", ["text.gz", "text.GZ", "text.txt"])
def test_gzip_is_told_by_its_content(tmp_path, name, pack):
    path = tmp_path / name
    path.write_bytes(pack("eins\nzwei ß\n".encode()))
    assert read_file_lines(path) == ["eins", "zwei ß"]
    with open_lines(path) as (stream, name):
        assert list(read_chunks(stream, name)) == [["eins", "zwei ß"]]


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (bz2.compress(b"eins\n"), "a bzip2 file"),
        (lzma.compress(b"eins\n"), "an xz file"),
        (b"PK\x03\x04" + bytes(30), "a zip archive"),
        (bytes.fromhex("28b52ffd240421000065696e730ae2c2d6f4"), "a zstd file"),
    ],
)
def test_other_packed_files_are_named(tmp_path, content, found):
    path = tmp_path / "text.txt"
    path.write_bytes(content)
    message = f"text.txt: expected a text file, plain or .gz, found {found}: unpack it first"
    with pytest.raises(DataError, match=message):
        read_file_lines(path)
    with pytest.raises(DataError, match=message), open_lines(path):
        pytest.fail("the file was opened")


@pytest.mark.parametrize("line", ["Rar!", "BZh9", "7z", "PK"])
def test_text_that_begins_like_a_packed_file_is_text(tmp_path, line):
    path = tmp_path / "text.txt"
    path.write_text(f"{line}\n")
    assert read_file_lines(path) == [line]


@pytest.mark.parametrize(
    "damage", [lambda content: content[:-9], lambda content: content[:9], lambda content: content[:20] + b"zzzz"]
)
def test_damaged_gzip(tmp_path, damage):
    path = tmp_path / "text.gz"
    path.write_bytes(damage(gzip.compress(bytes(range(128)) * 9)))
    with pytest.raises(DataError, match=r"text.gz: expected a readable text file"):
        read_file_lines(path)


def test_missing_file_and_directory(tmp_path):
    with pytest.raises(DataError, match=r"none.txt: expected a readable text file"):
        read_file_lines(tmp_path / "none.txt")
    with pytest.raises(DataError, match="expected a readable text file"), open_lines(tmp_path):
        pytest.fail("a directory was opened")


def test_standard_input_that_does_not_block_is_waited_for(monkeypatch):
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    late = threading.Timer(0.1, lambda: (os.write(writing, "später\n".encode()), os.close(writing)))
    with os.fdopen(reading, encoding="utf-8") as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        late.start()
        with open_lines(None) as (stream, name):
            assert list(read_chunks(stream, name)) == [["später"]]
        assert not os.get_blocking(reading)
    late.join()
