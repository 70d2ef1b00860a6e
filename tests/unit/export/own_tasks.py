"""Small classifiers and language models that are none of ours, and their export."""

from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lite_nlp.data.tokenizer import Tokenizer
from lite_nlp.export.pipeline import ModelCard
from lite_nlp.export.runtime.layout import Bounds
from lite_nlp.export.runtime.manifest import Manifest
from lite_nlp.export.runtime.programs import Classes
from lite_nlp.export.tasks.pipeline import TaskModel, export_task_bundle

TOKENIZER = Tokenizer.train(["good morning", "thank you"], vocab_size=270)
TYPES = TOKENIZER.vocab_size
CARD = ModelCard(name="own", tokenizer_json=TOKENIZER.to_json(), config_toml=b'name = "own"\n')
BOUNDS = Bounds(source=20, capacity=16, executorch_batch=8)
CLASSES = Classes(labels=("a", "b", "c"), sentences=1)
RUNTIMES = ("onnx", "executorch")


class Bag(nn.Module):
    """The mean of a sentence's embeddings, and a Linear."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.table, self.output = nn.Embedding(TYPES, 8), nn.Linear(8, 3)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        kept = self.table(tokens).masked_fill(~mask[:, :, None], 0.0)
        found: Tensor = self.output(torch.tanh(kept.amax(1)))
        return found


class Echo(Bag):
    """What it says depends on how often it has been called: a graph of it says something else."""

    calls = 0

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        Echo.calls += 1
        return super().forward(tokens, mask) + torch.arange(3) * (10.0 * (Echo.calls % 7))


class Recurrent(Bag):
    """The last state of a recurrent layer, and a Linear."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.GRU(8, 8, batch_first=True)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        found: Tensor = self.output(self.layer(self.table(tokens) * mask[:, :, None])[0].amax(1))
        return found


class Bigram(nn.Module):
    """The next token by the last two: the state is the embedding of the one before."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.table, self.mixed = nn.Embedding(TYPES, 8), nn.Linear(16, 8)

    def output(self, before: Tensor, now: Tensor) -> Tensor:
        # The table is the output projection too.
        return F.linear(self.mixed(torch.cat([before, now], dim=-1)), self.table.weight)

    def forward(self, tokens: Tensor) -> Tensor:
        now = self.table(tokens)
        return self.output(F.pad(now, (0, 0, 1, 0)).narrow(1, 0, tokens.shape[1]), now)

    def target_log_probs(self, tokens: Tensor, labels: Tensor) -> Tensor:
        return self(tokens).log_softmax(-1).gather(-1, labels[:, :, None])[:, :, 0]

    def init_state(self, batch_size: int, capacity: int) -> dict[str, Tensor]:
        return {"before": torch.zeros(batch_size, 8), "steps": torch.zeros(batch_size, capacity)}

    def decode_step(self, tokens: Tensor, state: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        now = self.table(tokens)
        logits = self.output(state["before"], now)
        return logits, {"before": now, "steps": state["steps"] + 1.0}

    def read(self, tokens: Tensor, state: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        seen = torch.cat([state["before"][:, None], self.table(tokens)], dim=1)
        return self.output(seen[:, -2], seen[:, -1]), {
            "before": seen[:, -1],
            "steps": state["steps"] + tokens.shape[1],
        }


class Recall(Bigram):
    """The next token by the sum of all before it, which a cache holds one by one."""

    def forward(self, tokens: Tensor) -> Tensor:
        now = self.table(tokens)
        return self.output(now.cumsum(1), now)

    def init_state(self, batch_size: int, capacity: int) -> dict[str, Tensor]:
        return {"seen": torch.zeros(batch_size, capacity, 8), "position": torch.zeros(batch_size, dtype=torch.int64)}

    def decode_step(self, tokens: Tensor, state: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        now, position = self.table(tokens), state["position"]
        here = torch.arange(state["seen"].shape[1]) == position[:, None]
        seen = torch.where(here[:, :, None], now[:, None], state["seen"])
        return self.output(seen.sum(1), now), {"seen": seen, "position": position + 1}

    def read(self, tokens: Tensor, state: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        now, position = self.table(tokens), state["position"]
        here = position[:, None] + torch.arange(tokens.shape[1])
        seen = state["seen"].scatter(1, here[:, :, None].expand_as(now), now)
        return self.output(seen.sum(1), now[:, -1]), {"seen": seen, "position": position + tokens.shape[1]}


def export(path: Path, module: nn.Module, **changes: Any) -> Manifest:
    task = changes.pop("task", "language-modelling" if isinstance(module, Bigram) else "classification")
    values: dict[str, Any] = {"module": module.eval(), "task": task, "vocab_size": TYPES}
    if task == "classification":
        values["classes"] = CLASSES
    names = ("precision", "runtimes", "packing", "portable", "calibration", "bounds")
    options = {"bounds": BOUNDS} | {key: changes.pop(key) for key in names if key in changes}
    return export_task_bundle(path, model=TaskModel(**{**values, **changes}), card=CARD, **options)
