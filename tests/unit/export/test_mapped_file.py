"""Content as a file that a runtime maps."""

import mmap
from pathlib import Path

import pytest

from lite_nlp.core.errors import BundleError
from lite_nlp.export.runtime.mapped_file import mapped_file


def test_a_mapping_outlives_the_file() -> None:
    with mapped_file("weights.bin", b"content") as path:
        assert path.name == "weights.bin"
        with path.open("rb") as file:
            mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    assert not path.parent.exists()
    assert mapping[:] == b"content"


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, content: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", refuse)
    with (
        pytest.raises(BundleError, match=r"weights\.bin: expected space .* No space left on device; TMPDIR names"),
        mapped_file("weights.bin", b"content"),
    ):
        pass


def test_no_folder_for_temporary_files_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    with pytest.raises(BundleError, match="TMPDIR names the folder"), mapped_file("weights.bin", b"content"):
        pass
