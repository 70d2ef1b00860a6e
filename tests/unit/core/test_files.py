"""Outputs appear complete or not at all."""

from pathlib import Path

import pytest

from lite_nlp.core.errors import OutputError
from lite_nlp.core.files import atomic_directory, atomic_file, check_output, sha256_bytes, sha256_file, write_bytes


def test_a_failed_block_leaves_the_old_file_and_no_partial(tmp_path: Path) -> None:
    target = tmp_path / "out.bin"
    target.write_bytes(b"old")
    with pytest.raises(ValueError, match="midway"), atomic_file(target) as partial:
        partial.write_bytes(b"new")
        raise ValueError("midway")
    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["out.bin"]


def test_a_system_error_is_an_output_error(tmp_path: Path) -> None:
    expected = r"out.bin: could not be written, nothing was left behind: .*No space"
    with pytest.raises(OutputError, match=expected), atomic_file(tmp_path / "out.bin") as partial:
        partial.write_bytes(b"half")
        raise OSError(28, "No space left on device")
    assert list(tmp_path.iterdir()) == []


def test_parents_are_made_and_content_is_whole(tmp_path: Path) -> None:
    write_bytes(tmp_path / "a" / "b.bin", b"content")
    assert (tmp_path / "a" / "b.bin").read_bytes() == b"content"
    assert sha256_file(tmp_path / "a" / "b.bin") == sha256_bytes(b"content")


def test_a_directory_appears_whole_or_not(tmp_path: Path) -> None:
    target = tmp_path / "out"
    with pytest.raises(KeyError), atomic_directory(target) as partial:
        (partial / "one").write_text("1")
        raise KeyError
    assert list(tmp_path.iterdir()) == []
    with atomic_directory(target) as partial:
        (partial / "one").write_text("1")
    with pytest.raises(OutputError, match="output exists already"), atomic_directory(target) as partial:
        pass
    with atomic_directory(target, force=True) as partial:
        (partial / "two").write_text("2")
    assert [path.name for path in target.iterdir()] == ["two"]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_an_empty_directory_is_no_output(tmp_path: Path) -> None:
    check_output(tmp_path / "missing", force=False)
    (tmp_path / "empty").mkdir()
    check_output(tmp_path / "empty", force=False)
    (tmp_path / "empty" / "file").touch()
    with pytest.raises(OutputError):
        check_output(tmp_path / "empty", force=False)
    check_output(tmp_path / "empty", force=True)
