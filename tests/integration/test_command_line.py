"""The rules for every command: streams, exit codes, no traceback, light imports."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lite_nlp.cli import main as program
from tests.integration.conftest import LiteNlp
from tests.integration.program import commands

COMMANDS = [
    "presets",
    "models",
    "budget",
    "data",
    "train",
    "evaluate",
    "translate",
    "compress",
    "export",
    "bench",
    "convert",
]


def _run(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from lite_nlp.cli.main import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)


def test_help_names_every_command() -> None:
    done = _run("--help")
    assert done.returncode == 0
    for command in COMMANDS:
        assert f" {command} " in done.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str) -> None:
    done = _run(command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Usage" in done.stdout


def test_a_failure_is_one_message_on_stderr_and_code_1() -> None:
    done = _run("translate", "no-such-model", "--text", "hello")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: no-such-model: expected a model directory")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("kind", [MemoryError, RuntimeError])
def test_what_takes_too_much_memory_is_said(
    kind: type[Exception], lite_nlp: LiteNlp, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run() -> None:
        raise kind("[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(program, "_run", run)
    assert lite_nlp("budget") == (1, "", "error: this takes more memory than there is\n")


def test_debug_shows_the_traceback_wherever_it_stands() -> None:
    for arguments in (("--debug", "budget", "no-such-preset"), ("budget", "no-such-preset", "--debug")):
        done = _run(*arguments)
        assert done.returncode == 1
        assert "Traceback" in done.stderr


def test_wrong_usage_is_code_2() -> None:
    for arguments in (("no-such-command",), ("budget", "--no-such-option"), ("train",)):
        done = _run(*arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert "Traceback" not in done.stderr


def test_version() -> None:
    import lite_nlp

    assert _run("--version").stdout == f"{lite_nlp.__version__}\n"


def test_models_as_json_are_one_object() -> None:
    done = _run("models", "--json")
    content = json.loads(done.stdout)
    assert content["schema_version"] == 1
    [model] = [model for model in content["models"] if model["default"]]
    assert Path(model["path"]).stat().st_size == model["size_bytes"] <= 2_500_000
    assert model["scores"]["tatoeba test"]["bleu"] >= 25
    # Without a terminal, which is taken for one of 80 columns, paths are whole too.
    lines = _run("models").stdout.splitlines()
    assert {f"{model['name']}: {model['path']}" for model in content["models"]} <= set(lines)


def test_the_command_line_imports_nothing_heavy() -> None:
    program = (
        "import sys; from lite_nlp.cli.program import make_program; make_program();"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    heavy = {"torch", "pyarrow", "onnxruntime", "executorch", "sacrebleu", "accelerate", "tokenizers"}
    assert not heavy & set(done.stdout.split())


@pytest.mark.parametrize("words", ["models", "--debug models --json"])
def test_a_command_imports_no_other(words: str) -> None:
    program = (
        "import atexit, sys; from lite_nlp.cli.main import main; sys.argv[0] = 'lite-nlp';"
        "atexit.register(lambda: print(*(name for name in sys.modules if name.startswith('lite_nlp.cli.')))); main()"
    )
    done = subprocess.run([sys.executable, "-c", program, *words.split()], capture_output=True, text=True, check=True)
    imported = set(done.stdout.splitlines()[-1].split())
    others = {f"lite_nlp.cli.{words.partition(' ')[0]}" for words, _ in commands()}
    assert imported & others == {"lite_nlp.cli.models"}


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("transalte --text Hi", "Did you mean 'translate'?"),
        ("data perpare --out out", "Did you mean 'prepare'?"),
        ("translate --txt Hi", "--text"),
        ("translate --text Hi --runtime onx", "did you mean 'onnx'?"),
        ("translate tatoeba-en-d --text Hi", "did you mean 'tatoeba-en-de'?"),
        ("translate runs/frist --text Hi", "did you mean 'runs/first'?"),
        ("translate --input wrods.txt", "did you mean 'words.txt'?"),
        ("train multi30k-transfomer --data data --out out", "did you mean 'multi30k-transformer'?"),
        ("train multi30k-transformer --data daat --out out", "did you mean 'data'?"),
        ("data prepare --corpus multi-30k --out out", "did you mean 'multi30k'?"),
        ("budget multi30k-lite-transformer --set training.step=1", "did you mean 'training."),
    ],
)
def test_the_nearest_name_is_suggested(
    lite_nlp: LiteNlp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, hint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "first").mkdir(parents=True)
    (tmp_path / "data").mkdir()
    (tmp_path / "words.txt").touch()
    code, out, err = done = lite_nlp(*words.split())
    assert code in (1, 2)
    assert out == ""
    assert hint in done.message, err
