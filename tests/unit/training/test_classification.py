"""The task of training a classifier: its loss, its batches, what it measures."""

from typing import Any

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from rich.console import Console

from lite_nlp.artifacts.directory import load_model_directory
from lite_nlp.config.preset import Config, TrainingConfig, parse_model
from lite_nlp.core.errors import TrainingError
from lite_nlp.data.labelled.directory import LabelledSplit
from lite_nlp.models.build import build_model
from lite_nlp.tasks.classification.training import ClassificationObjective
from lite_nlp.training.loop import TrainingJob, train

from .tiny_task import MemorySplit

CPU = torch.device("cpu")
NO_WORDS = np.zeros(0, dtype=np.int32)


def make_split(examples: int, *, seed: int, sentences: int = 1) -> LabelledSplit:
    """Rows of 1 to 6 tokens; the label is the first token's place among three."""
    rng = np.random.default_rng(seed)
    first = [rng.integers(3, 12, size=rng.integers(1, 7)).astype(np.int32) for _ in range(examples)]
    second = [row[::-1] if sentences == 2 else NO_WORDS for row in first]
    labels = np.array([(row[0] - 3) // 3 for row in first], dtype=np.int32)
    return LabelledSplit(MemorySplit(first, second), labels, sentences=sentences)  # type: ignore[arg-type]


def make_config(*, pair: bool = False, **training: Any) -> Config:
    kind = (
        {"architecture": "pair-classifier", "family": "lstm"}
        if pair
        else {"architecture": "sequence-classifier", "family": "transformer", "num_encoder_layers": 1, "num_heads": 2}
    )
    model = {
        **kind, "src_vocab_size": 12, "embed_dim": 16, "ffn_dim": 16, "num_classes": 3, "max_positions": 32,
        "dropout": 0.0,
    }  # fmt: skip
    defaults = {
        "batch_tokens": 64, "warmup_steps": 2, "schedule": "constant", "learning_rate": 0.01, "max_steps": 9,
        "validate_every_steps": 3, "checkpoint_every_steps": 3, "average_checkpoints": 1, "label_smoothing": 0.0,
        "validate_metric": "accuracy",
    }  # fmt: skip
    return Config(
        name="tiny", model=parse_model(model), training=TrainingConfig.model_validate({**defaults, **training})
    )


def make_objective(config: Config, **changes: Any) -> ClassificationObjective:
    sentences = 2 if config.model.architecture == "pair-classifier" else 1
    options = {
        "config": config,
        "train": make_split(60, seed=1, sentences=sentences),
        "valid": make_split(20, seed=2, sentences=sentences),
        "labels": ("a", "b", "c"),
    }
    return ClassificationObjective(**{**options, **changes})


@pytest.mark.parametrize("pair", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_loss_and_gradient_are_sums_over_the_examples(pair: bool, smoothing: float) -> None:
    config = make_config(pair=pair, label_smoothing=smoothing)
    objective = make_objective(config)
    batch = objective.batches("train", batches_per_step=1, say=print).load(np.arange(7))
    torch.manual_seed(3)
    model = build_model(config.model).eval()
    loss, nll, tokens, targets = objective.batch_sums(model, batch, CPU).tolist()
    found = [parameter.grad.clone() for parameter in model.parameters()]  # type: ignore[union-attr]
    model.zero_grad()
    # By the definition, an example at a time; the label of number 0 counts like the others.
    expected, expected_nll = torch.zeros(()), 0.0
    assert 0 in batch.labels
    for row in range(7):
        inputs = [
            torch.from_numpy(batch.first_tokens[row : row + 1]),
            torch.from_numpy(batch.first_mask[row : row + 1]),
        ]
        if batch.second_tokens is not None and batch.second_mask is not None:
            inputs += [torch.from_numpy(side[row : row + 1]) for side in (batch.second_tokens, batch.second_mask)]
        log_probs = model(*inputs).softmax(dim=-1).log()[0]
        wanted = torch.full((3,), smoothing / 3)
        wanted[batch.labels[row]] += 1 - smoothing
        expected = expected - (wanted * log_probs).sum()
        expected_nll -= log_probs[batch.labels[row]].item()
    expected.backward()
    assert (loss, nll) == (pytest.approx(expected.item(), rel=1e-5), pytest.approx(expected_nll, rel=1e-5))
    assert (tokens, targets) == (batch.num_tokens, 7)
    for parameter, gradient in zip(model.parameters(), found, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)


def test_validation_leaves_no_gradients() -> None:
    objective = make_objective(make_config())
    model = build_model(make_config().model).eval()
    batch = objective.batches("valid", batches_per_step=1, say=print).load(np.arange(5))
    with torch.inference_mode():
        sums = objective.batch_sums(model, batch, CPU)
    assert sums.shape == (4,)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_an_epoch_reads_every_example_once_and_cuts_the_long_ones() -> None:
    said: list[str] = []
    objective = make_objective(make_config(max_tokens=4))
    batches = objective.batches("train", batches_per_step=2, say=said.append)
    lengths = batches.split.first_lengths
    long = int(np.count_nonzero(lengths > 4))
    assert said == [f"training split: {long} of 60 examples cut to 4 tokens a sentence"]
    steps = batches.steps(0)
    rows = [work.rows for step in steps for work in step]
    assert sorted(np.concatenate(rows).tolist()) == list(range(60))
    assert {work.slot for step in steps for work in step} == {0, 1}
    for some in rows:
        batch = batches.load(some)
        assert batch.first_tokens.size <= 64
        assert batch.first_mask.sum(axis=1).tolist() == (np.minimum(lengths[some], 4) + 1).tolist()
    assert [work.rows.tolist() for step in batches.steps(1) for work in step] != [some.tolist() for some in rows]
    # Validation is not shuffled and reads as much as the model can.
    valid = objective.batches("valid", batches_per_step=1, say=said.append)
    assert len(said) == 1
    orders = [[work.rows.tolist() for step in valid.steps(epoch) for work in step] for epoch in (0, 1)]
    assert orders[0] == orders[1]


@pytest.mark.parametrize("pair", [False, True])
def test_a_run_learns_and_goes_on_where_it_was_cut_short(tmp_path: Any, accelerator: Accelerator, pair: bool) -> None:
    def run(name: str, *, resume: bool = False, **training: Any) -> dict[str, Any]:
        config = make_config(pair=pair, **training)
        torch.manual_seed(1)
        return train(
            TrainingJob(
                config=config,
                model=build_model(config.model),
                objective=make_objective(config),
                tokenizer_json=b"{}",
                out=tmp_path / name,
                console=Console(quiet=True),
                resume=resume,
            ),
            accelerator,
        )

    whole = run("whole", max_steps=60)
    run("parts", max_steps=31)
    parts = run("parts", max_steps=60, resume=True)
    assert whole["valid"] == parts["valid"]
    # A third of the labels are guessed right; the first token says them all.
    assert whole["valid"]["accuracy"] > 60.0
    assert (whole["labels"], whole["train_examples"]) == (["a", "b", "c"], 60)
    states = [load_model_directory(tmp_path / name).state for name in ("whole", "parts")]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_what_does_not_fit_the_model() -> None:
    config = make_config()
    with pytest.raises(TrainingError, match=r"expected as many classes as the sequence-classifier has \(3\), found 2"):
        make_objective(config, labels=("a", "b"))
    with pytest.raises(TrainingError, match=r"expected as many sentences in each example as the .* has \(1\), found 2"):
        make_objective(config, train=make_split(9, seed=1, sentences=2))
    with pytest.raises(TrainingError, match=r"training\.bpe_dropout: expected 0\.0 for data other than .*, found 0\.5"):
        make_objective(make_config(bpe_dropout=0.5))


def test_other_data_is_another_run() -> None:
    config = make_config()
    prints = [
        make_objective(config, **changes).fingerprint()
        for changes in (
            {},
            {"labels": ("a", "b", "d")},
            {"vectors_sha256": "0"},
            {"train": make_split(61, seed=1)},
            {"valid": make_split(20, seed=3)},
        )
    ]
    assert prints[0] == make_objective(config).fingerprint()
    assert all(other != prints[0] for other in prints[1:])
