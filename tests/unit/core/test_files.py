"""Outputs appear complete or not at all."""

import errno
import os
import threading
from pathlib import Path

import pytest

from lite_nlp.core.errors import OutputError
from lite_nlp.core.files import atomic_directory, atomic_file, sha256_bytes, sha256_file, write_bytes


def content(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_a_failed_block_leaves_the_old_file_and_no_partial(tmp_path: Path) -> None:
    target = tmp_path / "out.bin"
    target.write_bytes(b"old")
    with pytest.raises(ValueError, match="midway"), atomic_file(target) as partial:
        partial.write_bytes(b"new")
        raise ValueError("midway")
    assert content(tmp_path) == {"out.bin": b"old"}


def test_a_system_error_is_an_output_error(tmp_path: Path) -> None:
    expected = r"out.bin: could not be written, nothing was left behind: .*No space"
    with pytest.raises(OutputError, match=expected), atomic_file(tmp_path / "new" / "out.bin") as partial:
        partial.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")
    assert list(tmp_path.iterdir()) == []


def test_an_error_of_another_file_is_not_blamed_on_the_output(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="input"), atomic_file(tmp_path / "new" / "out.bin"):
        (tmp_path / "input").read_bytes()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [TimeoutError("no answer"), OSError(errno.ECONNRESET, "reset"), OSError(5, "", 3)])
def test_an_error_of_a_network_is_not_blamed_on_the_output(tmp_path: Path, error: OSError) -> None:
    with pytest.raises(type(error)) as raised, atomic_file(tmp_path / "out.bin"):
        raise error
    assert raised.value is error


def test_what_cannot_be_removed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, **_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(path))

    with pytest.raises(OutputError, match=r"its partial file .*\.partial could not be removed: No space"):  # noqa: SIM117
        with atomic_file(tmp_path / "out.bin") as partial:
            partial.write_bytes(b"half")
            monkeypatch.setattr(Path, "unlink", refuse)
            raise OSError(errno.ENOSPC, "No space left on device")


def test_parents_are_made_and_content_is_whole(tmp_path: Path) -> None:
    write_bytes(tmp_path / "a" / "b.bin", b"content")
    assert (tmp_path / "a" / "b.bin").read_bytes() == b"content"
    assert sha256_file(tmp_path / "a" / "b.bin") == sha256_bytes(b"content")


@pytest.mark.parametrize("name", ["x" * 255, "\u00fc" * 127, "\U0001f600" * 63])
def test_the_longest_name_that_the_system_allows_can_be_written(tmp_path: Path, name: str) -> None:
    write_bytes(tmp_path / name, b"content")
    with atomic_directory(tmp_path / "new" / name, owned=()) as partial:
        (partial / "one").touch()
    assert os.listdir(tmp_path / "new") == [name]


def test_a_directory_appears_whole_or_not(tmp_path: Path) -> None:
    target = tmp_path / "out"
    with pytest.raises(KeyError), atomic_directory(target, owned=("*",)) as partial:
        (partial / "one").write_text("1")
        raise KeyError
    assert list(tmp_path.iterdir()) == []
    with atomic_directory(target, owned=("*",)) as partial:
        (partial / "one").write_text("1")
    with pytest.raises(OutputError, match="output exists already"), atomic_directory(target, owned=("*",)):
        pass
    with atomic_directory(target, force=True, owned=("*",)) as partial:
        (partial / "two").write_text("2")
    assert content(tmp_path) == {"out/two": b"2"}


def test_a_file_that_appears_in_the_meantime_is_kept(tmp_path: Path) -> None:
    target = tmp_path / "new" / "out.bin"
    with pytest.raises(OutputError, match="another process wrote it"), atomic_file(target, force=False) as partial:
        partial.write_bytes(b"second")
        target.write_bytes(b"first")
    assert content(tmp_path) == {"new/out.bin": b"first"}


def test_a_file_that_appears_in_the_meantime_is_kept_without_hard_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, target: Path) -> None:
        raise OSError(errno.EPERM, "Operation not permitted", str(path))

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    target = tmp_path / "out.bin"
    write_bytes(target, b"first", force=False)
    with pytest.raises(OutputError, match="another process wrote it"):
        write_bytes(target, b"second", force=False)
    assert content(tmp_path) == {"out.bin": b"first"}


@pytest.mark.parametrize("rival", ["directory", "file"])
def test_a_directory_that_appears_in_the_meantime_is_kept(tmp_path: Path, rival: str) -> None:
    target = tmp_path / "out"
    with pytest.raises(OutputError, match="another process wrote it"), atomic_directory(target, owned=()) as partial:
        (partial / "second").touch()
        write_bytes(target / "first" if rival == "directory" else target, b"1")
    assert content(tmp_path) == ({"out/first": b"1"} if rival == "directory" else {"out": b"1"})


def test_of_many_writers_one_wins_and_the_others_say_so(tmp_path: Path) -> None:
    verdicts: list[str] = []
    together = threading.Barrier(8, timeout=30)

    def write(number: int) -> None:
        try:
            with atomic_directory(tmp_path / "out", owned=()) as partial:
                (partial / str(number)).touch()
                together.wait()
        except OutputError as error:
            verdicts.append(str(error))
        else:
            verdicts.append("won")

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted("another process" in verdict for verdict in verdicts) == [False, *[True] * 7]
    assert len(content(tmp_path)) == 1
    assert os.listdir(tmp_path) == ["out"]


def test_writers_with_force_replace_each_other(tmp_path: Path) -> None:
    together = threading.Barrier(6, timeout=30)

    def write(number: int) -> None:
        for _ in range(20):
            with atomic_directory(tmp_path / "out", force=True, owned=("*",)) as partial:
                (partial / str(number)).touch()
                together.wait()

    threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert os.listdir(tmp_path) == ["out"]
    assert len(content(tmp_path)) == 1


def test_a_directory_that_cannot_take_its_place_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_bytes(tmp_path / "out" / "old", b"old")
    rename = Path.rename

    def refuse(path: Path, target: Path) -> Path:
        if target.name == "out" and not target.exists() and (path / "new").exists():
            raise OSError(errno.EIO, "Input/output error", str(path))
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(OutputError, match="nothing was left behind: Input/output error"):  # noqa: SIM117
        with atomic_directory(tmp_path / "out", force=True, owned=("*",)) as partial:
            (partial / "new").touch()
    assert content(tmp_path) == {"out/old": b"old"}
