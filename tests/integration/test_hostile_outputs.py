"""Outputs that cannot be written or may not be replaced: every command says so before it looks at its input."""

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Literal

import pytest

from tests.integration.conftest import LiteNlp
from tests.integration.program import parameters

#: What an option writes: a file, a directory that is replaced, one that is added to, or a cache.
Kind = Literal["file", "directory", "run", "cache"]

#: For each option that writes: what, and the words of a command line that would fail otherwise, since its input is
#: damaged; None for a command without an input.
OUTPUTS: Final[Mapping[tuple[str, str], tuple[Kind, str | None]]] = {
    ("budget", "--html"): ("file", "broken.lnlp"),
    ("bench", "--out"): ("file", "broken.zip"),
    ("classify", "--output"): ("file", "broken.lnlp --text Hi"),
    ("compress", "--out"): ("directory", "broken.lnlp"),
    ("convert t2r", "--out"): ("directory", "broken.lnlp"),
    ("data prepare", "--cache"): ("cache", "--corpus tinyshakespeare --out prepared"),
    ("data prepare", "--out"): ("directory", "--text missing.txt"),
    ("data sample", "--out"): ("file", None),
    ("distill", "--hypotheses"): ("run", "broken.lnlp multi30k-transformer --data missing --out new-run"),
    ("distill", "--out"): ("run", "broken.lnlp multi30k-transformer --data missing"),
    ("evaluate", "--output"): ("file", "broken.lnlp --data missing"),
    ("export", "--out"): ("file", "broken.lnlp"),
    ("generate", "--output"): ("file", "broken.lnlp --text Hi"),
    ("report", "--html"): ("file", "broken.lnlp"),
    ("train", "--out"): ("run", "multi30k-transformer --data missing"),
    ("translate", "--output"): ("file", "broken.lnlp --text Hi"),
}

#: Options that name a file or directory to be read.
INPUTS: Final = {
    *(
        "--data",
        "--vectors",
        "--input",
        "--reference",
        "--bench-json",
        "--train",
        "--valid",
        "--test",
        "--tsv",
        "--tmx",
    ),
    *("--jsonl", "--valid-file", "--test-file", "--text", "--valid-text", "--test-text", "--labelled"),
    *("--valid-labelled", "--test-labelled", "--from", "--tokenizer"),
}


def link(path: Path) -> None:
    (path.parent / "real").mkdir()
    path.symlink_to("real")


#: What may stand where an output is to be written, and never gives way to it.
OBSTACLES: Final[Mapping[str, Callable[[Path], None]]] = {
    "a symbolic link": link,
    "a named pipe": os.mkfifo,
    "a directory": lambda path: (path / "notes").mkdir(parents=True),
    "a file": Path.touch,
}

#: Places where no output can be.
PLACES: Final = ("broken.lnlp/out.zip", "/proc/out.zip", "/proc/new/out.zip", "x" * 300 + ".zip", "/dev/full/out.zip")


def snapshot(directory: Path) -> list[tuple[str, int]]:
    return sorted((str(path), path.lstat().st_mode) for path in directory.rglob("*"))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("broken.lnlp", "broken.zip"):
        (tmp_path / name).write_bytes(b"no model")
    return tmp_path


def run(lite_nlp: LiteNlp, row: tuple[str, str], out: str, *more: str) -> tuple[int, str]:
    command, option = row
    words = OUTPUTS[row][1]
    code, _, err = lite_nlp(*command.split(), *(words or "").split(), option, out, *more)
    assert "Traceback" not in err
    return code, err


def test_every_option_that_writes_is_in_the_table() -> None:
    found = {(words, parameter.opts[0]) for words, parameter in parameters(Path)}
    assert {row for row in found if row[1] not in INPUTS} == set(OUTPUTS)


@pytest.mark.parametrize("row", [row for row in OUTPUTS if row[0] != "data sample"], ids=" ".join)
def test_the_input_is_what_is_wrong_where_the_output_is_not(
    lite_nlp: LiteNlp, place: Path, monkeypatch: pytest.MonkeyPatch, row: tuple[str, str]
) -> None:
    # A server that refuses: nothing is downloaded here.
    def refuse(*_: object) -> None:
        raise ConnectionError("refused")

    monkeypatch.setattr("lite_nlp.data.published.transfer._ATTEMPTS", 1)
    monkeypatch.setattr("lite_nlp.data.published.transfer._answer", refuse)
    before = snapshot(place)
    code, err = run(lite_nlp, row, "new/out.zip")
    assert code == 1
    assert "out.zip" not in err
    assert [path for path in snapshot(place) if path not in before and "downloads" not in path[0]] in (
        [],
        [(str(place / "new"), 0o40755), (str(place / "new" / "out.zip"), 0o40755)] if row[1] == "--cache" else [],
    )


@pytest.mark.parametrize("out", PLACES)
@pytest.mark.parametrize("row", OUTPUTS, ids=" ".join)
def test_a_place_that_takes_no_output_is_told_at_once(
    lite_nlp: LiteNlp, place: Path, row: tuple[str, str], out: str
) -> None:
    before = snapshot(place)
    code, err = run(lite_nlp, row, out)
    assert code == 1
    assert err.startswith(f"error: {out[:100]}") or row[1] == "--cache"
    assert "written" in err or "expected directories above it" in err
    assert err.count("\n") <= (2 if row[1] == "--cache" else 1)
    assert snapshot(place) == before


@pytest.mark.parametrize(
    ("row", "obstacle"),
    [
        pytest.param(row, obstacle, id=f"{' '.join(row)}-{obstacle}")
        for row, (kind, _) in OUTPUTS.items()
        for obstacle in OBSTACLES
        if kind != "cache" and (kind, obstacle) != ("file", "a file")
    ],
)
def test_force_replaces_nothing_but_an_output_of_the_same_kind(
    lite_nlp: LiteNlp, place: Path, row: tuple[str, str], obstacle: str
) -> None:
    OBSTACLES[obstacle](place / "out.zip")
    before = snapshot(place)
    for force in ([], ["--force"]):
        code, err = run(lite_nlp, row, "out.zip", *force)
        assert code == 1
        assert err.startswith("error: out.zip: ")
        assert "expected" in err
        assert "left behind" not in err
        assert snapshot(place) == before


@pytest.mark.parametrize("device", ["/dev/full", "/dev/null", "/dev/stdout"])
@pytest.mark.parametrize("row", [row for row in OUTPUTS if row[0] != "export"], ids=" ".join)
def test_a_device_is_no_output(lite_nlp: LiteNlp, place: Path, row: tuple[str, str], device: str) -> None:
    before = snapshot(place), Path(device).lstat().st_rdev
    for force in ([], ["--force"]):
        code, err = run(lite_nlp, row, device, *force)
        assert code == 1
        assert device in err
    assert (snapshot(place), Path(device).lstat().st_rdev) == before


@pytest.mark.parametrize("row", [row for row in OUTPUTS if OUTPUTS[row][0] == "file"], ids=" ".join)
def test_a_file_is_overwritten_with_force_alone(lite_nlp: LiteNlp, place: Path, row: tuple[str, str]) -> None:
    (place / "out.zip").write_bytes(b"precious")
    code, err = run(lite_nlp, row, "out.zip")
    assert (code, "out.zip: output exists already" in err) == (1, True)
    assert (place / "out.zip").read_bytes() == b"precious"
    _, err = run(lite_nlp, row, "out.zip", "--force")
    assert "out.zip: output exists already" not in err


def test_a_run_that_fails_at_once_leaves_no_directory(lite_nlp: LiteNlp, place: Path) -> None:
    (place / "config.toml").write_text("precious")
    before = snapshot(place)
    code, _, err = lite_nlp("train", "multi30k-transformer", "--data", "missing", "--out", ".", "--force")
    assert code == 1
    assert "expected the directory of a run, found other files" in err
    assert snapshot(place) == before


@pytest.mark.parametrize(
    ("most", "said"),
    [(1024, "cannot be written: File too large"), (8192, "could not be written, nothing was left behind: File too")],
)
def test_a_disk_that_is_full(place: Path, most: int, said: str) -> None:
    words = [sys.executable, "-c", "from lite_nlp.cli.main import main; main()", "data", "sample", "--out", "new/a.tsv"]
    limits = (resource.RLIMIT_FSIZE, (most, most))
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, preexec_fn=lambda: resource.setrlimit(*limits)
    )
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: new/a.tsv: {said}")
    assert done.stderr.count("\n") == 1
    assert sorted(os.listdir(place)) == ["broken.lnlp", "broken.zip"]


def test_of_commands_with_one_output_one_wins(place: Path) -> None:
    words = [
        sys.executable,
        "-c",
        "from lite_nlp.cli.main import main; main()",
        "data",
        "sample",
        "--out",
        "sample.tsv",
    ]
    started = [subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    results = [(*process.communicate(), process.returncode) for process in started]
    assert sorted(code for *_, code in results) == [0, 1, 1]
    for _, err, code in results:
        assert code == 0 or err.startswith("error: sample.tsv: output exists already")
    assert sorted(os.listdir(place)) == ["broken.lnlp", "broken.zip", "sample.tsv"]
