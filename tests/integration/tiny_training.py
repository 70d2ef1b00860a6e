"""A data directory and a model config with which a training step takes milliseconds."""

from pathlib import Path

from lite_nlp import prepare_data

NUMBERS = (("one", "eins"), ("two", "zwei"), ("three", "drei"), ("four", "vier"), ("five", "fünf"), ("six", "sechs"))

CONFIG = """
name = "tiny"

[model]
family = "lite-transformer"
embed_dim = 16
ffn_dim = 16
num_encoder_layers = 1
num_decoder_layers = 1
num_heads = 2
cross_num_heads = 2
conv_num_heads = 2
kernel_sizes = [3]
decoder_kernel_sizes = [3]
conv_dropout = 0.1
max_positions = 64

[training]
batch_tokens = 140
learning_rate = 3e-3
warmup_steps = 10
max_steps = 40
validate_every_steps = 20
checkpoint_every_steps = 10
average_checkpoints = 2
"""


def write_files(path: Path) -> None:
    """Write ``tiny.toml`` and the data directory ``data``: the numbers of six words in a row, in two languages."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "tiny.toml").write_text(CONFIG, encoding="utf-8")
    rows = [
        [(first * second + place) % 6 for place in range(first % 4 + 1)] for first in range(20) for second in range(5)
    ]
    for side, language in enumerate(("en", "de")):
        lines = [" ".join(NUMBERS[number][side] for number in row) for row in rows]
        (path / f"train.{language}").write_text("\n".join(lines) + "\n", encoding="utf-8")
        (path / f"valid.{language}").write_text("\n".join(lines[:9]) + "\n", encoding="utf-8")
    train, valid = ((path / f"{name}.en", path / f"{name}.de") for name in ("train", "valid"))
    prepare_data(path / "data", train=train, valid=valid, vocab_size=280)
