r"""Compress two modules that are none of ours, a CNN and an LSTM that classify sentences, with channels removed or not.

    python benchmarks/own_modules.py ../shared/data/sst-2 --out runs/own-modules [--fractions 0,0.3,0.5,0.7] [--json]

The corpus is a directory with ``train.tsv.gz`` and ``dev.tsv.gz``: a header, then a sentence and its label a line. Each
module is trained for ``--steps`` steps of 128 sentences, and compressed to a twelfth of its bytes once for each
fraction of its Mult-Adds that is to go first. The accuracy is that of the development sentences, of the last file
decoded alone.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import torch
import torch.nn.functional as F
from corpus_lines import rows
from torch import Tensor, nn

from lite_nlp.compress import compress_module, load_compressed

__all__ = ["main"]

_TYPES: Final = 8000
_LENGTH: Final = 40
_BATCH: Final = 128

Batch = tuple[Tensor, Tensor]


class TextCNN(nn.Module):
    """A table, two convolutions, the maximum over time, and two Linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.first = nn.Embedding(_TYPES, 64), nn.Conv1d(64, 128, 3, padding=1)
        self.norm, self.second = nn.BatchNorm1d(128), nn.Conv1d(128, 128, 3, padding=1)
        self.hidden, self.output = nn.Linear(128, 64), nn.Linear(64, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        x = F.dropout(self.table(tokens), 0.3, self.training).transpose(1, 2)
        x = torch.relu(self.second(torch.relu(self.norm(self.first(x))))).amax(-1)
        logits: Tensor = self.output(torch.relu(self.hidden(F.dropout(x, 0.3, self.training))))
        return logits


class TextLSTM(nn.Module):
    """A table, an LSTM, the maximum over time, and a Linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.lstm = nn.Embedding(_TYPES, 64), nn.LSTM(64, 128, batch_first=True)
        self.output = nn.Linear(128, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        x, _ = self.lstm(F.dropout(self.table(tokens), 0.3, self.training))
        logits: Tensor = self.output(F.dropout(x.amax(1), 0.3, self.training))
        return logits


def read_corpus(directory: Path) -> dict[str, Batch]:
    """Tokens (N, 40) and labels (N,) of both splits, by the most frequent words of the first."""
    read = {name: list(rows(directory / f"{name}.tsv.gz", header=True)) for name in ("train", "dev")}
    counts = Counter(word for row in read["train"] for word in row["sentence"].split())
    # 0 is padding, 1 a word that is none of them.
    known = {word: number for number, (word, _) in enumerate(counts.most_common(_TYPES - 2), start=2)}

    def encoded(sentence: str) -> list[int]:
        numbers = [known.get(word, 1) for word in sentence.split()][:_LENGTH]
        return numbers + [0] * (_LENGTH - len(numbers))

    return {
        name: (
            torch.tensor([encoded(row["sentence"]) for row in found]),
            torch.tensor([int(row["label"]) for row in found]),
        )
        for name, found in read.items()
    }


def batches(split: Batch, steps: int) -> Iterator[Batch]:
    """So many random batches, the same in every call."""
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        chosen = torch.randint(0, len(split[0]), (_BATCH,), generator=generator)
        yield split[0][chosen], split[1][chosen]


def loss_of(module: nn.Module, batch: Batch) -> Tensor:
    """Cross-entropy of a batch."""
    return F.cross_entropy(module(batch[0]), batch[1])


def measure(kind: type[nn.Module], splits: dict[str, Batch], options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Train a module of a kind, and compress it once for each fraction."""
    torch.manual_seed(0)
    module = kind()
    optimizer = torch.optim.Adam(module.parameters(), lr=2e-3)
    for batch in batches(splits["train"], options.steps):
        optimizer.zero_grad()
        loss_of(module, batch).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    tokens, labels = splits["dev"]

    def accuracy(model: nn.Module) -> list[float]:
        return [100.0 * float(hit) for hit in model(tokens).argmax(-1) == labels]

    for fraction in map(float, options.fractions.split(",")):
        out = options.out / f"{kind.__name__}-{fraction}"
        found = compress_module(
            module,
            out=out,
            score=accuracy,
            metric="accuracy",
            batches=list(batches(splits["train"], options.finetune_steps)),
            loss=loss_of,
            target_ratio=options.ratio,
            structured=fraction or None,
            example_inputs=(tokens[:1],),
            finetune_steps=options.finetune_steps,
            force=True,
        )
        with torch.no_grad():
            alone = sum(accuracy(load_compressed(out / "model.lnlp", kind()).eval())) / len(labels)
        yield {
            "module": kind.__name__,
            "structured": fraction,
            "bytes": [found[0].size_bytes, found[-1].size_bytes],
            "macs": [found[0].macs, found[-1].macs],
            "accuracy": [found[0].scores["accuracy"], alone],
        }


def main() -> None:
    """Print a line for each module and fraction."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("corpus", type=Path, help="directory of train.tsv.gz and dev.tsv.gz")
    parser.add_argument("--out", type=Path, required=True, help="directory for the compressed modules")
    parser.add_argument("--fractions", default="0,0.3,0.5,0.7", help="of the Mult-Adds, to remove first")
    parser.add_argument("--ratio", type=float, default=12.0, help="how many times smaller the last file is to be")
    parser.add_argument("--steps", type=int, default=900, help="of training")
    parser.add_argument("--finetune-steps", type=int, default=300, help="of each compression")
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    splits = read_corpus(options.corpus)
    options.out.mkdir(parents=True, exist_ok=True)
    for kind in (TextCNN, TextLSTM):
        for row in measure(kind, splits, options):
            pairs = [f"{name} {row[name][0]:,} to {row[name][1]:,}" for name in ("bytes", "macs", "accuracy")]
            text = f"{row['module']}, {row['structured']:.0%} of the Mult-Adds: {', '.join(pairs)}"
            print(json.dumps(row) if options.json else text, flush=True)


if __name__ == "__main__":
    main()
