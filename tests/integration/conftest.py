"""The command line, run in this process; a model of random weights for it to work on."""

import io
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

# A console that is made while COLUMNS is set keeps that width: made here, it follows what each test sets.
import lite_nlp.cli.console
from lite_nlp.artifacts.directory import save_model_directory
from lite_nlp.cli.main import main
from lite_nlp.config.preset import Config, parse_model
from lite_nlp.data.pairs.everyday import read_everyday_pairs
from lite_nlp.data.tokenizer import Tokenizer
from lite_nlp.models.build import build_model

#: Of everyday English.
SENTENCES = [english for english, _ in read_everyday_pairs()]

#: Some of them, and lines that are empty, short, in another script or longer than the model takes.
LINES = [*SENTENCES[:6], "", "A", "これは何ですか", "The old man is waiting for the bus. " * 20]

#: Source tokens that ``exported`` takes.
MAX_SOURCE = 96

#: What a phone does not have: torch and what needs it.
TORCH = ("torch", "onnx", "executorch", "pyarrow", "accelerate")


class Done(NamedTuple):
    """What a command line came to."""

    code: int
    out: str
    err: str

    @property
    def message(self) -> str:
        """Stderr as one line, without the box around usage errors."""
        return " ".join(self.err.replace("│", " ").split())


class LiteNlp:
    """Runs ``lite-nlp`` with some words, and nothing but ``stdin`` on its standard input."""

    def __init__(self, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capfd, self._monkeypatch = capfd, monkeypatch

    def __call__(self, *words: str | Path, stdin: bytes = b"") -> Done:
        self._monkeypatch.setattr(sys, "argv", ["lite-nlp", *map(str, words)])
        self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as stopped:
            main()
        captured = self._capfd.readouterr()
        return Done(int(stopped.value.code or 0), captured.out, captured.err)

    def json(self, *words: str | Path) -> dict[str, Any]:
        """The object printed by a command that succeeds."""
        code, out, err = self(*words, "--json")
        assert code == 0, err
        content: dict[str, Any] = json.loads(out)
        assert content["schema_version"] == 1
        return content


@pytest.fixture
def lite_nlp(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> LiteNlp:
    """The command line on a terminal so wide that no message is broken; output of native libraries is caught too."""
    monkeypatch.setenv("COLUMNS", "200")
    return LiteNlp(capfd, monkeypatch)


def write_model(
    path: Path,
    sentences: Sequence[str],
    *,
    vocab_size: int = 320,
    tokenizer: bytes | None = None,
    metrics: Mapping[str, Any] | None = None,
    **model: Any,
) -> None:
    """Write a model directory: a vocabulary of the sentences, one layer a side, random weights.

    Args:
        path: The directory, made if need be.
        sentences: What the vocabulary is made of.
        vocab_size: Its most types.
        tokenizer: The content of a tokenizer.json that is taken instead.
        metrics: What ``metrics.json`` is to hold; nothing by default.
        model: The family and whatever else of ``ModelConfig`` is to differ from a model of 16 channels.
    """
    vocabulary = Tokenizer.train(sentences, vocab_size=vocab_size) if tokenizer is None else Tokenizer(tokenizer)
    recurrent = ("lstm-classifier", "pair-classifier")
    kinds = {"language-model": ("tgt",), **dict.fromkeys(("sequence-classifier", *recurrent), ("src",))}
    architecture = model.get("architecture", "")
    sides = kinds.get(architecture, ("src", "tgt"))
    stacks = {"src": "num_encoder_layers", "tgt": "num_decoder_layers"}
    sizes = {f"{side}_vocab_size": vocabulary.vocab_size for side in sides}
    sizes |= {"embed_dim": 16, "ffn_dim": 16}
    if architecture not in recurrent:
        sizes |= {stacks[side]: 1 for side in sides}
    config = Config(name="tiny", model=parse_model({**sizes, **model}))
    built = build_model(config.model)
    torch.manual_seed(1)
    for parameter in built.parameters():
        # Fresh biases are zero and would hide a leak from padding.
        torch.nn.init.normal_(parameter, std=0.3)
    save_model_directory(
        path,
        config=config,
        state=built.state_dict(),
        tokenizer_json=vocabulary.to_json(),
        metrics=metrics or {},
    )


def run_process(*words: str, missing: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, which does not find the packages that are missing."""
    hide = f"import sys; sys.modules.update(dict.fromkeys({list(missing)})); "
    code = f"{hide}from lite_nlp.cli.main import main; main()"
    return subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)


@pytest.fixture(scope="session")
def model_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model directory with random weights."""
    path = tmp_path_factory.mktemp("made") / "tiny-model"
    write_model(
        path,
        SENTENCES,
        vocab_size=500,
        metrics={"languages": {"src": "en", "tgt": "de"}},
        family="lite-transformer",
        num_heads=2,
        kernel_sizes=(5,),
        decoder_kernel_sizes=(3,),
        conv_num_heads=2,
        max_positions=128,
    )
    return path


@pytest.fixture(scope="session")
def exported(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """Its bundle for both runtimes, which takes most of a minute; stdout and stderr of the command that made it."""
    path = tmp_path_factory.mktemp("exported") / "tiny.zip"
    done = run_process("export", str(model_path), "--out", str(path), "--max-src-tokens", str(MAX_SOURCE), "--json")
    assert done.returncode == 0, done.stderr
    return path, done.stdout, done.stderr
