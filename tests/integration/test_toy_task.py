"""A task of one's own: tagging every word of a line, by one room and one row, is trained, evaluated and compressed."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lite_nlp.api.compress import compress_model
from lite_nlp.api.distill import distill_model
from lite_nlp.api.evaluate import evaluate_model
from lite_nlp.api.train import train_model
from lite_nlp.artifacts.models import LoadedModel, load_model
from lite_nlp.compress.metric import Metric
from lite_nlp.core.errors import ConfigError, DataError, TrainingError, UsageError
from lite_nlp.core.progress import Progress
from lite_nlp.core.special_tokens import PAD_ID
from lite_nlp.data.tokenizer import Tokenizer
from lite_nlp.tasks.calibration import Guidance, mean_loss
from lite_nlp.tasks.registry import TASKS, Task, register_task, task_of_data
from lite_nlp.tasks.room import Evaluation, EvaluationRequest, TrainingData
from lite_nlp.training.batching import Rows, Work

CONFIG = """
name = "tagger"

[model]
architecture = "language-model"
family = "transformer"
embed_dim = 16
ffn_dim = 32
num_decoder_layers = 1
num_heads = 2
max_positions = 32

[training]
learning_rate = 1e-2
warmup_steps = 5
schedule = "constant"
max_steps = 60
validate_every_steps = 30
validate_metric = "accuracy"
average_checkpoints = 1
"""


@dataclass(frozen=True)
class TaggedLines:
    """(lines, longest) token ids, and the tag that belongs to each; PAD where there is none."""

    tokens: Tensor
    tags: Tensor


def open_tagged(path: Path, split: str) -> TaggedLines:
    rows = json.loads((path / f"{split}.json").read_text())
    return TaggedLines(*(torch.tensor(rows[key]) for key in ("tokens", "tags")))


class OneBatch:
    """Every step reads the whole split."""

    def __init__(self, lines: TaggedLines) -> None:
        self.lines = lines
        self.batches_per_step = 1

    def steps(self, epoch: int) -> list[list[Work]]:
        return [[Work(slot=0, rows=np.arange(len(self.lines.tokens)))]]

    def load(self, rows: Rows, epoch: int) -> TaggedLines:
        return TaggedLines(self.lines.tokens[rows], self.lines.tags[rows])


def predict(model: nn.Module, lines: TaggedLines) -> tuple[Tensor, Tensor]:
    """Log-probabilities (N, V) and tags (N,) of all words."""
    real = lines.tags != PAD_ID
    return F.log_softmax(model(lines.tokens)[real], dim=-1), lines.tags[real]


@torch.no_grad()
def accuracy(model: nn.Module, lines: TaggedLines) -> float:
    log_probs, tags = predict(model, lines)
    return 100 * float((log_probs.argmax(dim=-1) == tags).float().mean())


class TaggingObjective:
    measures: Mapping[str, str] = {"accuracy": "tag accuracy"}

    def __init__(self, path: Path) -> None:
        self.splits = {split: open_tagged(path, split) for split in ("train", "valid")}

    def batches(self, split: str, *, batches_per_step: int, say: Callable[[str], None]) -> OneBatch:
        return OneBatch(self.splits[split])

    def batch_sums(self, model: nn.Module, batch: TaggedLines, device: torch.device) -> Tensor:
        log_probs, tags = predict(model, batch)
        loss = F.nll_loss(log_probs, tags, reduction="sum")
        if loss.requires_grad:
            loss.backward()  # type: ignore[no-untyped-call]
        return torch.stack([loss.detach(), loss.detach(), torch.tensor(0.0), torch.tensor(float(len(tags)))])

    def measure(self, model: nn.Module, *, examples: int | None = None) -> dict[str, float]:
        return {"accuracy": accuracy(model, self.splits["valid"])}

    def fingerprint(self) -> dict[str, Any]:
        return {"lines": len(self.splits["train"].tokens)}

    def facts(self) -> dict[str, Any]:
        return {"train_lines": len(self.splits["train"].tokens)}


class TaggingRoom:
    def open_training_data(self, path: Path, *, vectors: Path | None = None) -> TrainingData:
        tokenizer = Tokenizer.load(path / "tokenizer.json")
        return TrainingData(path=path, tokenizer=tokenizer, objective=lambda config: TaggingObjective(path))

    def evaluate(self, request: EvaluationRequest) -> Evaluation:
        if request.data is None:
            raise UsageError("a tagger is evaluated on tagged lines: --data is required")
        loaded = load_model(request.model)
        lines = open_tagged(request.data, request.split or "valid")
        return Evaluation(facts={"model": loaded.name, "scores": {"accuracy": accuracy(loaded.model, lines)}})

    def guide(self, loaded: LoadedModel, data: Path | None) -> Guidance:
        if data is None:
            raise UsageError("a tagger is compressed by tagged lines: --data is required")
        train, valid = open_tagged(data, "train"), open_tagged(data, "valid")

        def score(model: nn.Module, progress: Progress) -> dict[str, float]:
            return {"accuracy": accuracy(model, valid), "loss": mean_loss(predict, model, [train])}

        def tuning() -> Iterator[TaggedLines]:
            for _ in count():
                yield train

        return Guidance(
            name="valid",
            metric=Metric(name="accuracy", label="tag accuracy", unit="points"),
            predict=predict,
            scan=[train],
            tuning=tuning,
            tuned=int((train.tags != PAD_ID).sum()),
            label_weight=0.5,
            score=score,
        )


TAGGING = Task(
    name="tagging",
    data="tagged lines",
    data_kind="tagged",
    architectures=("language-model",),
    metric="tags",
    options=frozenset(),
    room=TaggingRoom,
)


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The row, for one test."""
    monkeypatch.setattr("lite_nlp.tasks.registry.TASKS", dict(TASKS))
    register_task(TAGGING)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lines of words, tagged 4 or 5 by whether their number is even."""
    path = tmp_path_factory.mktemp("tagged")
    tokenizer = Tokenizer.train(["some words of no meaning at all"], vocab_size=262)
    (path / "tokenizer.json").write_bytes(tokenizer.to_json())
    (path / "data.json").write_text('{"schema_version": 1, "kind": "tagged"}')
    rng = np.random.default_rng(1)
    for split, lines in (("train", 64), ("valid", 16)):
        tokens = rng.integers(6, 46, size=(lines, 8))
        content = {"tokens": tokens.tolist(), "tags": (4 + tokens % 2).tolist()}
        (path / f"{split}.json").write_text(json.dumps(content))
    return path


@pytest.mark.usefixtures("registered")
def test_a_task_of_ones_own_is_trained_evaluated_and_compressed(data: Path, tmp_path: Path) -> None:
    (tmp_path / "tagger.toml").write_text(CONFIG)
    trained = train_model(tmp_path / "tagger.toml", data=data, out=tmp_path / "run")
    assert trained is not None
    assert trained.metrics["valid"]["accuracy"] > 90
    assert trained.metrics["train_lines"] == 64
    assert trained.labels == {"accuracy": "tag accuracy"}
    found = evaluate_model(tmp_path / "run", data=data)
    assert found.scores["accuracy"] == pytest.approx(trained.metrics["valid"]["accuracy"])
    compressed = compress_model(tmp_path / "run", data=data, out=tmp_path / "small")
    assert compressed.metric.label == "tag accuracy"
    for stage in (compressed.stages[0], compressed.stages[-1]):
        file = compressed.out / stage.file
        assert stage.scores["accuracy"] == evaluate_model(file, data=data).scores["accuracy"]
    assert compressed.stages[-1].ratio > 2
    with pytest.raises(UsageError, match="--beam does not go with a model of architecture language-model"):
        evaluate_model(tmp_path / "run", data=data, beam=2)
    with pytest.raises(TrainingError, match="expected data of a task that has distillation, found tagging"):
        distill_model(tmp_path / "run", tmp_path / "tagger.toml", data=data, out=tmp_path / "student")
    with pytest.raises(UsageError, match="a tagger is compressed by tagged lines"):
        TAGGING.room().guide(load_model(tmp_path / "run"), None)


@pytest.mark.usefixtures("registered")
def test_no_two_tasks_have_one_name_or_one_kind_of_data() -> None:
    with pytest.raises(ConfigError, match="expected a new name and kind of data, found those of tagging"):
        register_task(TAGGING)


def test_without_the_row_the_data_is_of_no_known_kind(data: Path) -> None:
    with pytest.raises(DataError, match="expected data of kind labelled, pairs, text, found 'tagged'"):
        task_of_data(data)
