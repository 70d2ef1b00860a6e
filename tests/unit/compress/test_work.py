"""What a compression has worked out is kept beside its output until it is finished, and belongs to it alone."""

from pathlib import Path
from typing import Any

import pytest

from lite_nlp.compress.work import Work, resumable_work
from lite_nlp.core.errors import OutputError
from lite_nlp.core.progress import SilentProgress


def test_a_damaged_state_is_worked_out_anew(tmp_path: Path) -> None:
    work = Work(tmp_path / "work", "key")
    assert not work.resumed
    assert work.keep("figures", lambda: {"a": [1.0, 2.0]}) == {"a": [1.0, 2.0]}
    again = Work(tmp_path / "work", "key")
    assert again.resumed
    assert again.keep("figures", lambda: pytest.fail("kept")) == {"a": [1.0, 2.0]}
    (tmp_path / "work" / "figures.pt").write_bytes(b"PK\x03\x04 cut off")
    assert Work(tmp_path / "work", "key").keep("figures", lambda: "anew") == "anew"


def test_another_compression_does_not_take_over_the_work(tmp_path: Path) -> None:
    Work(tmp_path / "work", "one").keep("figures", lambda: 1)
    other = Work(tmp_path / "work", "another")
    assert (other.resumed, other.replaced) == (False, True)
    assert other.keep("figures", lambda: 2) == 2
    made: Any = [path.name for path in (tmp_path / "work").iterdir()]
    assert sorted(made) == ["figures.pt", "key.txt"]


def test_a_directory_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (work := tmp_path / "work").mkdir()
    (work / "thesis.pt").write_text("precious", encoding="utf-8")
    with pytest.raises(
        OutputError, match=r"work: expected the work of .*, or nothing, found thesis.pt without a key.t"
    ):
        Work(work, "key")
    assert [path.name for path in work.iterdir()] == ["thesis.pt"]


def test_of_a_directory_of_work_other_files_are_kept(tmp_path: Path) -> None:
    Work(tmp_path / "work", "one").keep("figures", lambda: 1)
    (tmp_path / "work" / "notes.txt").write_text("precious", encoding="utf-8")
    (tmp_path / "work" / ".figures.pt.7-ab.partial").write_bytes(b"killed")
    other = Work(tmp_path / "work", "another")
    assert sorted(path.name for path in (tmp_path / "work").iterdir()) == ["key.txt", "notes.txt"]
    other.remove()
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["notes.txt"]


def test_of_finished_work_nothing_is_left(tmp_path: Path) -> None:
    with resumable_work(tmp_path / "above" / "out", "key", SilentProgress()) as work:
        assert work is not None
        work.keep("figures", lambda: 1)
    assert list(tmp_path.iterdir()) == []


def test_two_compressions_to_one_output(tmp_path: Path) -> None:
    out = tmp_path / "above" / "out"
    with resumable_work(out, "key", SilentProgress()) as work:
        assert work is not None
        work.keep("figures", lambda: 1)
        with (
            pytest.raises(OutputError, match=r"out.partial: another process compresses to this output"),
            resumable_work(out, "key", SilentProgress(), anew=True),
        ):
            pytest.fail("begun")
        assert work.keep("figures", lambda: 2) == 1
    assert list(tmp_path.iterdir()) == []


def test_where_no_directory_can_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "work").write_text("a file", encoding="utf-8")
    with pytest.raises(OutputError, match="work: cannot be written: File exists"):
        Work(tmp_path / "work", "key")
