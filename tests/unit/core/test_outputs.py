"""What an output may replace, and what the system must allow, before any work for it begins."""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from lite_nlp.core.errors import OutputError
from lite_nlp.core.files import atomic_directory, atomic_file
from lite_nlp.core.outputs import check_output_directory, check_output_file, check_shared_directory

OWNED: Final = ("data.json", "*.lnlp", "train/*.arrow")


def listing(directory: Path) -> dict[str, tuple[int, int]]:
    """Everything in a directory, by kind, permissions and time of change."""
    return {
        str(path.relative_to(directory)): (path.lstat().st_mode, path.lstat().st_mtime_ns)
        for path in directory.rglob("*")
    }


@contextmanager
def untouched(directory: Path) -> Iterator[None]:
    before = listing(directory)
    yield
    assert listing(directory) == before


def make_socket(path: Path) -> None:
    # Its path may be no longer than some hundred bytes.
    before = Path.cwd()
    os.chdir(path.parent)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)
    os.chdir(before)


def make_link(path: Path) -> None:
    (path.parent / "real").write_bytes(b"precious")
    path.symlink_to("real")


OTHERS: Final[dict[str, Callable[[Path], None]]] = {
    "a symbolic link": make_link,
    "a symbolic link to missing": lambda path: path.symlink_to("missing"),
    "a named pipe": os.mkfifo,
    "a socket": make_socket,
}


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("wanted", ["file", "directory", "shared"])
def test_only_an_output_of_the_same_kind_is_ever_replaced(tmp_path: Path, kind: str, wanted: str, force: bool) -> None:
    path = tmp_path / "out"
    OTHERS[kind](path)
    noun = "file" if wanted == "file" else "directory"
    expected = f"out: expected the path of a {noun} to write, found {kind}"
    with untouched(tmp_path), pytest.raises(OutputError, match=expected):
        if wanted == "file":
            check_output_file(path, force=force)
        elif wanted == "directory":
            check_output_directory(path, force=force, owned=OWNED)
        else:
            check_shared_directory(path)
    # The check is not the only one: what appears in the meantime is not replaced either.
    with untouched(tmp_path), pytest.raises(OutputError):
        if wanted == "file":
            with atomic_file(path, force=force) as partial:
                partial.touch()
        else:
            with atomic_directory(path, force=force, owned=OWNED):
                pass


@pytest.mark.parametrize("device", ["/dev/full", "/dev/null", "/dev/stdout"])
def test_a_device_is_never_replaced(device: str) -> None:
    with pytest.raises(OutputError, match=r"found a (character device|symbolic link)"):
        check_output_file(Path(device), force=True)
    with pytest.raises(OutputError, match=r"found a (character device|symbolic link)"):
        check_output_directory(Path(device), force=True, owned=None)


@pytest.mark.parametrize("force", [False, True])
def test_a_file_is_no_directory_and_a_directory_no_file(tmp_path: Path, force: bool) -> None:
    (tmp_path / "file").write_bytes(b"precious")
    (tmp_path / "directory").mkdir()
    with untouched(tmp_path):
        with pytest.raises(OutputError, match="expected the path of a directory to write, found a file"):
            check_output_directory(tmp_path / "file", force=force, owned=OWNED)
        with pytest.raises(OutputError, match="expected the path of a file to write, found a directory"):
            check_output_file(tmp_path / "directory", force=force)


def test_what_exists_is_overwritten_with_force_alone(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "data.json").touch()
    (tmp_path / "empty").mkdir()
    with untouched(tmp_path):
        for name in ("missing", "empty", "full"):
            check_output_directory(tmp_path / name, force=True, owned=OWNED)
        for name in ("missing", "empty"):
            check_output_directory(tmp_path / name, force=False, owned=OWNED)
        for name in ("missing", "file"):
            check_output_file(tmp_path / name, force=True)
        check_output_file(tmp_path / "missing", force=False)
        with pytest.raises(OutputError, match="full: output exists already"):
            check_output_directory(tmp_path / "full", force=False, owned=OWNED)
        with pytest.raises(OutputError, match="file: output exists already"):
            check_output_file(tmp_path / "file", force=False)


@pytest.mark.parametrize(
    ("files", "named"),
    [
        (["notes.txt"], "notes.txt"),
        (["train/mine.txt", "train/data-0.arrow"], "train/mine.txt"),
        (["train/deeper/data-0.arrow"], "train/deeper"),
        (["sub/a.lnlp"], "sub"),
        (["a", "b", "c", "d", "e"], "a, b, c and more"),
        ([".git/HEAD"], ".git"),
    ],
)
def test_force_does_not_delete_other_files(tmp_path: Path, files: list[str], named: str) -> None:
    for name in ["data.json", "model.lnlp", "train/data-1.arrow", *files]:
        (tmp_path / "out" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "out" / name).touch()
    with untouched(tmp_path), pytest.raises(OutputError, match=f"found other files, .* delete: {named}; move"):
        check_output_directory(tmp_path / "out", force=True, owned=OWNED)


def test_a_link_in_a_directory_is_no_file_of_ours(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "train").symlink_to(tmp_path)
    with pytest.raises(OutputError, match="delete: train;"):
        check_output_directory(tmp_path / "out", force=True, owned=OWNED)


@pytest.mark.parametrize("place", [".", "..", "/", ""])
@pytest.mark.parametrize("force", [False, True])
def test_a_directory_that_somebody_stands_in_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, force: bool
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with untouched(tmp_path), pytest.raises(OutputError):
        check_output_directory(Path(place), force=force, owned=None)
    with untouched(tmp_path), pytest.raises(OutputError, match="found a directory"):
        check_output_file(Path(place), force=force)


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("file/out", "expected directories above it, found that .*file is none"),
        ("file/deep/er/out", "expected directories above it, found that .*file is none"),
        ("broken/out", "expected directories above it, found that .*broken is none"),
        ("x" * 300, "cannot be written: File name too long"),
        ("new/" + "x" * 300 + "/out", "cannot be written: File name too long"),
        ("a\0b", "cannot be written: embedded null"),
        ("/proc/out", "cannot be written"),
        ("/proc/new/out", "cannot be written"),
        ("/sys/out", "cannot be written"),
    ],
)
def test_a_place_that_takes_no_output_is_found_out_before_the_work(tmp_path: Path, place: str, reason: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "broken").symlink_to("missing")
    with untouched(tmp_path):
        with pytest.raises(OutputError, match=reason):
            check_output_file(tmp_path / place, force=True)
        with pytest.raises(OutputError, match=reason):
            check_output_directory(tmp_path / place, force=True, owned=None)
        with pytest.raises(OutputError, match=reason):
            check_shared_directory(tmp_path / place)


def test_a_full_disk_is_found_out_before_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, content: bytes) -> int:
        path.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", refuse)
    with untouched(tmp_path):
        with pytest.raises(OutputError, match="cannot be written: No space left on device"):
            check_output_file(tmp_path / "new" / "out", force=False)
        with pytest.raises(OutputError, match="cannot be written: No space left on device"):
            check_output_directory(tmp_path / "new" / "out", force=False, owned=None)
