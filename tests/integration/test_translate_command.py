import gzip
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import Done, LiteNlp, run_process, write_model
from tests.integration.small_bundle import record_work, write_small_bundle

Translate = Callable[..., Done]

LINES = [
    "A boy runs over the bridge.",
    "",
    "Is it raining?",
    "   ",
    "The old man with the grey hat is waiting for the bus in front of the town hall.",
    "Yes.",
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("model")
    kernels = {"kernel_sizes": (3,), "decoder_kernel_sizes": (3,), "conv_num_heads": 2}
    write_model(path, LINES * 3, family="lite-transformer", **kernels)
    return str(path)


@pytest.fixture
def translate(lite_nlp: LiteNlp) -> Translate:
    return partial(lite_nlp, "translate")


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "source.txt"
    path.write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    return path


def test_text_file_and_standard_input_give_the_same(
    translate: Translate, model: str, text: Path, tmp_path: Path
) -> None:
    code, from_file, _ = translate(model, "--input", str(text))
    assert code == 0
    lines = from_file.removesuffix("\n").split("\n")
    assert [bool(line) for line in lines] == [bool(line.strip()) for line in LINES]

    assert translate(model, stdin=text.read_bytes())[:2] == (0, from_file)
    assert translate(model, "--text", LINES[2])[:2] == (0, lines[2] + "\n")
    assert translate(model, "--text", "")[:2] == (0, "\n")
    assert translate(model, "--text", LINES[2], "--text", "", "--text", LINES[2])[:2] == (
        0,
        f"{lines[2]}\n\n{lines[2]}\n",
    )
    assert translate(model, "--text", "", "--text", "")[:2] == (0, "\n\n")
    windows = "\r\n".join(LINES).encode()
    assert translate(model, stdin=windows)[:2] == (0, from_file)

    output = tmp_path / "target.txt"
    assert translate(model, "--input", str(text), "--output", str(output))[:2] == (0, "")
    assert output.read_text(encoding="utf-8") == from_file
    packed = tmp_path / "target.txt.gz"
    assert translate(model, "--input", str(text), "--output", str(packed))[:2] == (0, "")
    assert gzip.decompress(packed.read_bytes()).decode("utf-8") == from_file


@pytest.mark.parametrize("beam", ["1", "3"])
def test_batch_and_threads_change_nothing(translate: Translate, model: str, text: Path, beam: str) -> None:
    words = [model, "--input", str(text), "--beam", beam]
    assert translate(*words, "--batch", "1")[:2] == translate(*words, "--batch", "5", "--threads", "1")[:2]


def test_n_gram_blocking(translate: Translate, model: str) -> None:
    code, blocked, _ = translate(model, "--no-repeat-ngram", "1", "--text", LINES[4])
    assert code == 0
    assert blocked != translate(model, "--text", LINES[4])[1]


def test_an_empty_input_gives_nothing(translate: Translate, model: str) -> None:
    assert translate(model) == (0, "", "")


def test_long_lines_and_foreign_letters_are_reported(translate: Translate, model: str) -> None:
    long_line = "The old man is waiting for the bus and " * 25
    code, out, err = translate(model, stdin=f"Yes.\nこれは\n{long_line}".encode())
    assert code == 0
    assert out.count("\n") == 3
    assert "warning: line 2: 100% of its letters are unknown" in err
    assert "warning: line 3: cut into " in err


def test_invalid_utf8_leaves_no_output(translate: Translate, model: str, tmp_path: Path) -> None:
    bad = tmp_path / "bad.txt"
    bad.write_bytes(b"good\nb\xe4d\n")
    code, out, err = translate(model, "--input", str(bad), "--output", str(tmp_path / "out.txt"))
    assert (code, out) == (1, "")
    assert f"error: {bad}: line 2: expected UTF-8, found byte 0xe4 at byte 2 of the line" in err
    assert os.listdir(tmp_path) == ["bad.txt"]

    code, out, err = translate(model, stdin=b"Yes.\nb\xe4d\n")
    assert (code, out.count("\n")) == (1, 1)
    assert "error: standard input: line 2: expected UTF-8" in err

    code, _, err = translate(model, "--text", os.fsdecode(b"b\xe4d"))
    assert code == 1
    assert "error: --text: line 1: expected UTF-8" in err


def test_output_is_not_overwritten_without_force(translate: Translate, model: str, tmp_path: Path) -> None:
    output = tmp_path / "out.txt"
    output.write_text("kept")
    code, _, err = translate(model, "--text", "Yes.", "--output", str(output))
    assert code == 1
    assert "output exists already" in err
    assert output.read_text() == "kept"
    assert translate(model, "--text", "Yes.", "--output", str(output), "--force")[0] == 0
    assert output.read_text() != "kept"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--runtime", "tflite"], "'tflite' is not one of 'torch', 'onnx', 'executorch'"),
        (["--text", "a", "--input", "b"], "expected one of them"),
        (["--beam", "0"], "--beam"),
        (["--length-penalty", "-1"], "--length-penalty"),
    ],
)
def test_wrong_usage(translate: Translate, model: str, words: list[str], message: str) -> None:
    code, out, err = translate(model, *words)
    assert (code, out) == (2, "")
    assert message in err


def test_a_runtime_that_the_bundle_is_not_for(translate: Translate, tmp_path: Path) -> None:
    bundle = write_small_bundle(tmp_path / "some.zip", record_work())
    code, _, err = translate(str(bundle), "--runtime", "torch")
    assert code == 1
    assert "with weights for torch, found an exported bundle with graphs alone" in err
    code, _, err = translate(str(bundle), "--runtime", "onnx")
    assert code == 1
    assert "expected ONNX graphs for --runtime onnx, found none" in err


def test_without_torch_a_model_directory_is_refused(
    translate: Translate, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    code, _, err = translate(model, "--text", "Yes.")
    assert code == 1
    assert "running a model directory in torch: needs the extra lite-nlp[train]" in err


def test_torch_translates_without_its_compiler(model: str) -> None:
    """Which takes longer to import than torch."""
    done = run_process("translate", model, "--text", "Yes.", "--beam", "2", missing=["torch._dynamo"])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1


def test_missing_model_and_missing_input(translate: Translate, model: str, tmp_path: Path) -> None:
    code, _, err = translate(str(tmp_path / "nothing"))
    assert code == 1
    assert "nothing: expected a model directory" in err
    code, _, err = translate(model, "--input", str(tmp_path / "nothing.txt"))
    assert code == 1
    assert "nothing.txt: expected a readable text file" in err


def test_a_line_is_translated_before_the_next_is_typed(model: str) -> None:
    environment: dict[str, Any] = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-c", "from lite_nlp.cli.main import main; main()", "translate", model],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process:
        for line in ("Yes.", "Is it raining?"):
            process.stdin.write(f"{line}\n".encode())
            process.stdin.flush()
            # Blocks forever if the command waits for more input.
            assert process.stdout.readline().strip()
        process.stdin.close()
        assert process.stdout.read() == b""
    assert process.returncode == 0
