"""Language modelling on a text so small that a run takes a fraction of a second."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from accelerate import Accelerator
from rich.console import Console
from safetensors.torch import load

from lite_nlp.config.preset import Config, TrainingConfig, parse_model
from lite_nlp.core.errors import TrainingError
from lite_nlp.data.text.directory import TokenStream, cut_blocks
from lite_nlp.models.build import build_model
from lite_nlp.tasks.language_modelling.training import BlockBatches, LanguageModellingObjective
from lite_nlp.training.loop import TrainingJob, train

VOCAB = 40
CPU = torch.device("cpu")
ADAPTIVE = {"embedding": "adaptive", "adaptive_cutoffs": (10, 20), "adaptive_factor": 2}


def stream(length: int, *, seed: int = 1) -> TokenStream:
    """Every type has one follower, which it has nine times of ten."""
    rng = np.random.default_rng(seed)
    followers = np.random.default_rng(0).permutation(np.arange(3, VOCAB))
    tokens = [3]
    while len(tokens) < length:
        tokens.append(int(followers[tokens[-1] - 3]) if rng.random() < 0.9 else int(rng.integers(3, VOCAB)))
    return TokenStream("text", np.array(tokens[:length], dtype=np.int32), vocab_size=VOCAB)


def make_config(*, model: dict[str, Any] | None = None, **training: Any) -> Config:
    sizes: dict[str, Any] = {
        "architecture": "language-model", "family": "transformer", "tgt_vocab_size": VOCAB, "embed_dim": 16,
        "ffn_dim": 16, "num_decoder_layers": 1, "num_heads": 2, "max_positions": 32,
    }  # fmt: skip
    defaults = {
        "batch_tokens": 64, "block_tokens": 16, "warmup_steps": 2, "schedule": "constant", "learning_rate": 0.01,
        "max_steps": 6, "validate_every_steps": 2, "checkpoint_every_steps": 3, "average_checkpoints": 1,
        "label_smoothing": 0.0,
    }  # fmt: skip
    return Config(
        name="tiny",
        model=parse_model({**sizes, **(model or {})}),
        training=TrainingConfig.model_validate({**defaults, **training}),
    )


def make_objective(config: Config, *, train: int = 500) -> LanguageModellingObjective:
    return LanguageModellingObjective(config=config, train=stream(train), valid=stream(200, seed=2))


def make_job(out: Path, config: Config, *, resume: bool = False) -> TrainingJob[Any]:
    torch.manual_seed(config.training.seed)
    return TrainingJob(
        config=config, model=build_model(config.model), objective=make_objective(config), tokenizer_json=b"{}", out=out,
        console=Console(quiet=True), resume=resume,
    )  # fmt: skip


def block_batches(**changes: Any) -> BlockBatches:
    # Ids that are places, so that what was read can be told from the labels.
    text = TokenStream("text", np.arange(1, 1001, dtype=np.int32), vocab_size=1001)
    settings = {"stream": text, "block_tokens": 16, "batch_tokens": 70, "seed": 5, "batches_per_step": 3}
    return BlockBatches(**{**settings, **changes})


@pytest.mark.parametrize("epoch", [0, 1, 7])
@pytest.mark.parametrize("shuffle", [True, False])
def test_an_epoch_learns_from_every_token_once(epoch: int, shuffle: bool) -> None:
    batches = block_batches(shuffle=shuffle)
    said: list[int] = []
    for step in batches.steps(epoch):
        assert 1 <= len(step) <= 3
        for work in step:
            blocks = batches.load(work.rows)
            # 70 tokens hold four blocks of 16.
            assert blocks.labels.shape[0] <= 4
            said += blocks.labels[blocks.labels > 0].tolist()
    assert sorted(said) == list(range(1, 1001))


def test_epochs_cut_the_text_at_other_places() -> None:
    batches = block_batches()

    def starts(epoch: int) -> list[int]:
        return [int(start) for step in batches.steps(epoch) for work in step for start in work.rows]

    assert starts(0) == starts(0)
    assert len({starts(epoch)[0] % 16 for epoch in range(20)}) > 5
    assert starts(0) != sorted(starts(0))
    fixed = block_batches(shuffle=False)
    assert [work.rows.tolist() for work in fixed.steps(3)[0]] == [
        [0, 16, 32, 48],
        [64, 80, 96, 112],
        [128, 144, 160, 176],
    ]


def test_a_block_longer_than_a_batch_is_a_batch() -> None:
    steps = block_batches(batch_tokens=8, shuffle=False).steps(0)
    assert [work.rows.tolist() for work in steps[0]] == [[0], [16], [32]]


@pytest.mark.parametrize(
    ("model", "smoothing"), [({}, 0.0), ({}, 0.2), (ADAPTIVE, 0.0)], ids=["plain", "smoothed", "adaptive"]
)
def test_loss_and_gradient_are_those_of_cross_entropy(model: dict[str, Any], smoothing: float) -> None:
    config = make_config(model={**model, "dropout": 0.0}, label_smoothing=smoothing)
    torch.manual_seed(3)
    net = build_model(config.model)
    batch = cut_blocks(stream(40), np.array([-5, 11, 27]), block_tokens=16)
    sums = make_objective(config).batch_sums(net, batch, CPU)
    found = {name: parameter.grad.clone() for name, parameter in net.named_parameters() if parameter.grad is not None}

    net.zero_grad()
    tokens, labels = (torch.from_numpy(array) for array in batch)
    loss = F.cross_entropy(
        net(tokens).flatten(0, 1), labels.flatten(), ignore_index=0, label_smoothing=smoothing, reduction="sum"
    )
    loss.backward()
    assert sums[0].item() == pytest.approx(loss.item(), rel=1e-5)
    # 11 tokens of the first block, 16 of the second, 13 of the last.
    assert sums[2:].tolist() == [0.0, 40.0]
    for name, parameter in net.named_parameters():
        torch.testing.assert_close(found[name], parameter.grad, rtol=1e-4, atol=1e-5)


def test_scoring_needs_and_leaves_no_gradients() -> None:
    for model in ({}, ADAPTIVE):
        config = make_config(model=model)
        net = build_model(config.model)
        with torch.inference_mode():
            make_objective(config).batch_sums(net, cut_blocks(stream(40), np.array([0]), block_tokens=16), CPU)
        assert all(parameter.grad is None for parameter in net.parameters())


@pytest.mark.parametrize("model", [{}, ADAPTIVE], ids=["plain", "adaptive"])
def test_a_run_learns(tmp_path: Path, accelerator: Accelerator, model: dict[str, Any]) -> None:
    config = make_config(model=model, max_steps=120, validate_every_steps=60, learning_rate=0.02)
    metrics = train(make_job(tmp_path / "run", config), accelerator)
    # A uniform guess among 40 types costs 3.69 nats; the text itself has about 0.7.
    assert metrics["valid"]["nll"] < 2.0
    assert (metrics["train_tokens"], metrics["block_tokens"]) == (500, 16)
    assert "languages" not in metrics
    assert metrics["src_tokens"] == 0
    assert metrics["tgt_tokens"] == pytest.approx(500 * metrics["epochs"], abs=500)


def test_a_run_cut_short_and_resumed_is_the_run_undisturbed(tmp_path: Path, accelerator: Accelerator) -> None:
    """Over the end of an epoch: 500 tokens are 8 or 9 batches."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train(make_job(whole, make_config(max_steps=14)), accelerator)
    train(make_job(parts, make_config(max_steps=7)), accelerator)
    train(make_job(parts, make_config(max_steps=14), resume=True), accelerator)
    one, other = ((out / "model.safetensors").read_bytes() for out in (whole, parts))
    assert one == other
    logs = [
        [
            (line["step"], line["loss"])
            for line in map(json.loads, (out / "log.jsonl").read_text().splitlines())
            # The end of the first part is validated too.
            if line["event"] == "train"
        ]
        for out in (whole, parts)
    ]
    assert logs[0] == logs[1]
    assert load(one)


@pytest.mark.parametrize("model", [{}, ADAPTIVE], ids=["plain", "adaptive"])
def test_half_precision_stays_near_full_precision(model: dict[str, Any]) -> None:
    batch = cut_blocks(stream(40), np.array([0, 16]), block_tokens=16)
    sums = []
    for precision in ("fp32", "bf16"):
        config = make_config(model={**model, "dropout": 0.0}, precision=precision)
        torch.manual_seed(3)
        net = build_model(config.model)
        sums.append(make_objective(config).batch_sums(net, batch, CPU))
        assert all(
            parameter.grad is not None and bool(parameter.grad.isfinite().all()) for parameter in net.parameters()
        )
    assert sums[0][0].item() != sums[1][0].item()
    torch.testing.assert_close(sums[1], sums[0], rtol=2e-2, atol=0.0)


def test_another_text_is_not_resumed_on(tmp_path: Path, accelerator: Accelerator) -> None:
    train(make_job(tmp_path / "run", make_config()), accelerator)
    job = make_job(tmp_path / "run", make_config(), resume=True)
    other = TrainingJob(**{**vars(job), "objective": make_objective(job.config, train=400)})
    with pytest.raises(TrainingError, match=r"data\.train_tokens was 500, is 400"):
        train(other, accelerator)


def test_what_does_not_go_together_is_refused(tmp_path: Path, accelerator: Accelerator) -> None:
    with pytest.raises(TrainingError, match=r"block_tokens: expected at most model\.max_positions \(32\), found 33"):
        make_objective(make_config(block_tokens=33))
    with pytest.raises(TrainingError, match=r"training\.bpe_dropout: expected 0\.0 for data other than .*, found 0\.1"):
        make_objective(make_config(bpe_dropout=0.1))
    with pytest.raises(TrainingError, match=r"training\.truncate: expected false for data other than .*, found true"):
        make_objective(make_config(truncate=True))
    with pytest.raises(TrainingError, match=r"label_smoothing: expected 0 with an adaptive softmax, .*found 0\.1"):
        make_objective(make_config(model=ADAPTIVE, label_smoothing=0.1))
    with pytest.raises(TrainingError, match=r"text: expected at least one token, found none"):
        make_objective(make_config(), train=0).batches("train", batches_per_step=1, say=print)
    with pytest.raises(TrainingError, match=r"validate_metric: expected loss with this task and data, found bleu"):
        train(make_job(tmp_path / "run", make_config(validate_metric="bleu")), accelerator)
