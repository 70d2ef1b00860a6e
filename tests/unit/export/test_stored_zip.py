"""The archive is read as strictly as the app reads it: what two readers could take for two things is refused."""

import io
import struct
import zipfile
from collections.abc import Callable
from io import BufferedReader

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lite_nlp.core.errors import BundleError
from lite_nlp.export.runtime.limits import MAX_FILES
from lite_nlp.export.runtime.stored_zip import is_plain_name, read_blocks, read_directory

CONTENTS = {"manifest.json": b"{}", "a.txt": b"first", "\u00e4": bytes(range(100)), "empty": b""}


def attempt(content: bytes) -> tuple[dict[str, bytes] | None, str]:
    """What is in an archive, or the message of our error."""
    try:
        return read(content), ""
    except BundleError as error:
        return None, str(error)


def archive(contents: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as writer:
        for name, content in contents.items():
            writer.writestr(zipfile.ZipInfo(name), content)
    return buffer.getvalue()


GOOD = archive(CONTENTS)
DIRECTORY = GOOD.index(b"PK\x01\x02")
END = GOOD.index(b"PK\x05\x06")


def read(content: bytes) -> dict[str, bytes]:
    with BufferedReader(io.BytesIO(content)) as file:  # type: ignore[type-var]
        members = read_directory(file, len(content))
        return {name: b"".join(read_blocks(file, member, 7)) for name, member in members.items()}


def test_what_zipfile_writes_is_read() -> None:
    assert read(GOOD) == CONTENTS


def test_a_comment_and_extra_fields_are_passed_over() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as writer:
        writer.comment = b"made by hand"
        info = zipfile.ZipInfo("a")
        info.extra, info.comment = b"\xfe\xca\x02\x00hi", b"a note"
        writer.writestr(info, b"content")
    assert read(buffer.getvalue()) == {"a": b"content"}


def test_every_truncation_is_refused() -> None:
    for length in range(len(GOOD)):
        with pytest.raises(BundleError, match="truncated"):
            read(GOOD[:length])


def test_no_flipped_bit_goes_unnoticed_but_in_fields_that_say_nothing_of_the_content() -> None:
    unnoticed = set()
    for place in range(len(GOOD)):
        for bit in range(8):
            altered = bytearray(GOOD)
            altered[place] ^= 1 << bit
            found, _ = attempt(bytes(altered))
            if found is None:
                continue
            # Contents have their hashes in the manifest.
            if found == CONTENTS:
                unnoticed.add(place)
            assert list(map(len, found.values())) == list(map(len, CONTENTS.values()))
    # Of each member in the directory: the version that made it, internal and external attributes.
    assert len(unnoticed) == len(CONTENTS) * (2 + 2 + 4)


@pytest.mark.parametrize("bit", [bit for bit in range(16) if bit != 11])
def test_flags_other_than_that_of_the_names(bit: int) -> None:
    content = bytearray(archive({"a.txt": b"first"}))
    for place in (6, content.index(b"PK\x01\x02") + 8):
        content[place : place + 2] = struct.pack("<H", 1 << bit)
    with pytest.raises(BundleError, match=r"a\.txt: expected a stored member, found a compressed or encrypted one"):
        read(bytes(content))


def patched(place: int, replacement: bytes) -> bytes:
    return GOOD[:place] + replacement + GOOD[place + len(replacement) :]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "ends after 0 bytes"),
        (b"%PDF-1.7", "something else or a truncated one: it begins with 25 50 44 46"),
        (archive({}), "something else or a truncated one: it begins with 50 4b 05 06"),
        (GOOD + b"x", f"expected {len(GOOD)} bytes, found more"),
        (b"x" + GOOD, "it begins with 78"),
        (GOOD[:DIRECTORY] + b"gap" + GOOD[DIRECTORY:], "expected the directory to go on at byte"),
        (GOOD[:END] + b"gap" + GOOD[END:], "expected the end record at byte"),
        (patched(DIRECTORY + 42, b"\x01"), "repeat the header of 'manifest.json'"),
        (
            patched(DIRECTORY + 46, b"M"),
            "repeat the header of 'manifest.json', found another entry for b'Manifest.json'",
        ),
        (patched(DIRECTORY + 20, b"\x03"), "repeat the header of 'manifest.json'"),
        (patched(END + 8, b"\x05"), "expected an end record of 4 members"),
        (patched(END + 16, b"\x00"), "expected an end record of 4 members"),
        # Sizes in an extra field, and far beyond the file.
        (patched(18, b"\xff" * 8), "manifest.json: expected a stored member"),
        (patched(18, b"\xfe\xff\xff\xff" * 2), "truncated one: expected 4294967294 bytes"),
        (archive({f"{number}": b"" for number in range(MAX_FILES + 2)}), "at most 64 members beside the manifest"),
        (archive({"a" * 256: b""}), "expected plain member names"),
        (archive({"\u00e4": b""}).replace("\u00e4".encode(), b"\xff\xfe"), "expected member names in UTF-8"),
    ],
)
def test_archives_that_say_two_things(content: bytes, message: str) -> None:
    with pytest.raises(BundleError) as caught:
        read(content)
    assert message in str(caught.value)


@pytest.mark.filterwarnings("ignore:Duplicate name:UserWarning")
def test_a_name_twice() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as writer:
        writer.writestr("a", b"1")
        writer.writestr("a", b"2")
    with pytest.raises(BundleError, match="expected each member once, found 'a' twice"):
        read(buffer.getvalue())


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "a\\b", "c:b", "a\x00", "a\x1f", "a\x7f", "\ud800", "\u00e4" * 128]
)
def test_names_that_are_no_plain_file(name: str) -> None:
    assert not is_plain_name(name)
    assert is_plain_name("\u00e4" * 127)


PIECES: list[Callable[[bytes], bytes]] = [
    lambda content: GOOD[: len(GOOD) // 2] + content,
    lambda content: content + GOOD[DIRECTORY:],
    lambda content: GOOD[:DIRECTORY] + content + GOOD[END:],
    lambda content: b"PK\x03\x04" + content,
]


@settings(deadline=None, max_examples=300)
@given(
    st.sampled_from(PIECES),
    st.lists(
        st.binary(max_size=50) | st.sampled_from([b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06", b"\xff" * 8]), max_size=4
    ),
)
def test_whatever_the_bytes_it_is_an_archive_or_our_error(around: Callable[[bytes], bytes], parts: list[bytes]) -> None:
    content = around(b"".join(parts))
    found, message = attempt(content)
    assert len(message) < 2000
    if found is not None:
        # What is accepted is what every other reader sees.
        with zipfile.ZipFile(io.BytesIO(content)) as reader:
            assert {name: reader.read(name) for name in reader.namelist()} == found


@settings(deadline=None, max_examples=300)
@given(st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), min_size=1, max_size=4))
def test_altered_bytes(places: list[tuple[int, int]]) -> None:
    content = bytearray(GOOD)
    for place, value in places:
        content[place] = value
    found, _ = attempt(bytes(content))
    assert found is None or list(found) == list(CONTENTS)
