"""A locale without UTF-8: what is read, written and said is UTF-8 all the same."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lite_nlp.core.display import displayable, in_utf8, with_letters

WORDS = [sys.executable, "-c", "from lite_nlp.cli.main import main; main()"]


def run(*words: str, directory: Path, stdin: bytes = b"") -> tuple[int, str, str]:
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*WORDS, *words], cwd=directory, env=environment, input=stdin, capture_output=True, check=False
    )
    return done.returncode, done.stdout.decode("utf-8"), done.stderr.decode("utf-8")


@pytest.mark.parametrize("words", ["models", "models --json", "presets", "--help", "data prepare --help"])
def test_tables_and_help_are_printed(tmp_path: Path, words: str) -> None:
    code, out, err = run(*words.split(), directory=tmp_path)
    assert (code, err) == (0, "")
    assert not out.isascii() or "--json" in words


def test_text_is_read_and_written(tmp_path: Path) -> None:
    code, out, err = run("translate", directory=tmp_path, stdin="Frau M\u00fcller is here.\n".encode())
    assert code == 0, err
    assert out.count("\n") == 1
    code, _, err = run(
        "translate", "--text", "Frau M\u00fcller is here.", "--output", "\u00f6ut.txt", directory=tmp_path
    )
    assert code == 0, err
    assert (tmp_path / "\u00f6ut.txt").read_text(encoding="utf-8") == out
    code, _, err = run("translate", "--text", "Hi", "--output", "\u00f6ut.txt", directory=tmp_path)
    assert code == 1
    assert err == "error: \u00f6ut.txt: output exists already; expected a new path, or --force to overwrite it\n"


def test_names_of_files_are_kept(tmp_path: Path) -> None:
    (tmp_path / "gr\u00f6\u00dfe.jsonl").write_text(
        '{"f\u00fcr": "a b c", "gr\u00f6\u00dfe": "d e f"}\n{}\n', encoding="utf-8"
    )
    words = "data prepare --jsonl gr\u00f6\u00dfe.jsonl --columns f\u00fcr,gr\u00f6\u00dfe --src-lang en --tgt-lang de"
    more = ("--valid-pairs=0", "--test-file", "gr\u00f6\u00dfe.jsonl", "--out", "d\u00e4ta")
    code, _, err = run(*words.split(), *more, directory=tmp_path)
    assert code == 0, err
    assert "gr\u00f6\u00dfe.jsonl:2" in err
    assert "gr\u00f6\u00dfe.jsonl" in (tmp_path / "d\u00e4ta" / "data.json").read_text(encoding="utf-8")


def test_stray_bytes_become_letters_or_escapes() -> None:
    assert with_letters("gr\udcc3\udcb6\udcc3\udc9fe \udcff") == "gr\u00f6\u00dfe \udcff"
    assert in_utf8("gr\udcc3\udcb6\udcc3\udc9fe \udcff\n") == "gr\u00f6\u00dfe \\udcff\n"
    assert displayable("gr\udcc3\udcb6\udcc3\udc9fe \udcff\n\ud800") == "gr\u00f6\u00dfe \\udcff\\n\\ud800"
