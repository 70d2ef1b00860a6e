"""Teachers and data of which a student learns in a second."""

import json
from pathlib import Path
from typing import Any

from lite_nlp import prepare_data
from tests.integration.conftest import Done, LiteNlp, write_model
from tests.integration.tiny_training import write_files

#: A student that is smaller than its teacher, and takes its few steps with the same number of threads.
STUDENT = ("--set", "model.ffn_dim=8", "--set", "training.max_steps=20", "--threads", "1")

TEXT_MODEL = """
name = "text"
[model]
architecture = "language-model"
family = "transformer"
embed_dim = 16
ffn_dim = 16
num_decoder_layers = 1
num_heads = 2
max_positions = 32
[training]
batch_tokens = 128
block_tokens = 16
max_steps = 6
warmup_steps = 2
"""
CLASSIFIER = """
name = "classes"
[model]
architecture = "sequence-classifier"
family = "transformer"
embed_dim = 16
ffn_dim = 16
num_encoder_layers = 1
num_heads = 2
num_classes = 2
max_positions = 32
[training]
batch_tokens = 64
max_steps = 6
warmup_steps = 2
"""


def write_distillation(path: Path) -> None:
    """Write data of three kinds with one tokenizer, pairs with another, and a teacher of random weights for each."""
    write_files(path)
    (path / "text.toml").write_text(TEXT_MODEL)
    (path / "classes.toml").write_text(CLASSIFIER)
    train, valid = ((path / f"{name}.en", path / f"{name}.de") for name in ("train", "valid"))
    prepare_data(path / "other", train=train, valid=valid, vocab_size=270, src_lang="en", tgt_lang="de")
    prepare_data(path / "reverse", train=train, valid=valid, vocab_size=270, src_lang="de", tgt_lang="en")
    tokenizer = path / "data" / "tokenizer.json"
    prepare_data(path / "unjudged", train=train, valid_pairs=0, test_pairs=0, tokenizer=tokenizer)
    prepare_data(path / "text", text=train[0], valid_text=valid[0], tokenizer=tokenizer)
    lines = train[0].read_text().splitlines()
    labelled = "".join(f"{'odd' if place % 2 else 'even'}\t{line}\n" for place, line in enumerate(lines))
    (path / "labelled.tsv").write_text(labelled)
    prepare_data(
        path / "labelled", labelled=path / "labelled.tsv", valid_labelled=path / "labelled.tsv", tokenizer=tokenizer
    )
    shape = {"family": "transformer", "num_heads": 2, "max_positions": 64}
    languages = {"languages": {"src": "en", "tgt": "de"}}
    write_teacher(path / "teacher", tokenizer, metrics=languages, cross_num_heads=2, **shape)
    write_teacher(path / "second", tokenizer, metrics=languages, cross_num_heads=2, **shape, embed_dim=12)
    other = path / "other" / "tokenizer.json"
    write_teacher(path / "stranger", other, metrics=languages, cross_num_heads=2, **shape)
    write_teacher(path / "text-teacher", tokenizer, architecture="language-model", **shape)
    write_teacher(
        path / "class-teacher", tokenizer, architecture="sequence-classifier", num_classes=2, **shape,
        metrics={"labels": ["odd", "even"]},
    )  # fmt: skip


def write_teacher(path: Path, tokenizer: Path, *, metrics: dict[str, Any] | None = None, **model: Any) -> None:
    write_model(path, [], tokenizer=tokenizer.read_bytes(), metrics=metrics, **model)


class Distill:
    """Runs ``lite-nlp distill TEACHER tiny.toml --data data --out OUT/run``, where those files are, with more words."""

    def __init__(self, lite_nlp: LiteNlp, out: Path) -> None:
        self._lite_nlp, self._out = lite_nlp, out

    def __call__(
        self,
        *words: str | Path,
        teacher: str = "teacher",
        config: str = "tiny.toml",
        data: str = "data",
        out: str = "run",
    ) -> Done:
        student = STUDENT if config == "tiny.toml" else ("--threads", "1")
        return self._lite_nlp("distill", teacher, config, "--data", data, "--out", self._out / out, *student, *words)


def metrics_of(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((path / "metrics.json").read_text())
    return content


def weights_of(path: Path) -> bytes:
    return (path / "model.safetensors").read_bytes()
