r"""How close compressed translation models stay to the one they come from.

    python benchmarks/closeness.py MODEL... --original tatoeba-en-de --valid SRC REF [--valid SRC REF] \
        --test SRC REF [--test SRC REF] [--batch 128] [--threads 1] [--json]

All are searched greedily with PyTorch. For each model: bytes (of a directory those of its weights), BLEU of each test
set, and of all sentences together, the validation sentences among them, with the paired bootstrap's difference to the
original and to the first model; how many of the sentences come out as from the original; and over the validation
sentences' translations by the original, the mean Kullback-Leibler divergence from its predictions, in nats a token, and
how often the likeliest token is the same.
A validation set guides compression (sensitivity, scores of the ledger), but is never trained on.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from lite_nlp.artifacts.models import LoadedModel, load_model, resolve_source
from lite_nlp.artifacts.translators import open_translator
from lite_nlp.compress.significance import Measure, paired_test
from lite_nlp.core.special_tokens import PAD_ID
from lite_nlp.data.pairs.batches import Batch, collate
from lite_nlp.decoding.lines import read_file_lines
from lite_nlp.tasks.translation.bleu import translation_measures
from lite_nlp.training.device import to_device

__all__ = ["Closeness", "closeness", "own_batches", "same_share", "stored_bytes"]

#: Sentences whose predictions are computed at once.
PREDICTED: Final = 64


@dataclass(frozen=True)
class Closeness:
    """Of two models' predictions of the same tokens.

    Attributes:
        divergence: Of the second from the first, in nats a token, 0 for equal ones.
        agreement: The share of tokens of which both find the same likeliest, 0 to 1.
    """

    divergence: float
    agreement: float


def predictions(model: nn.Module, batch: Batch) -> Tensor:
    """Log-probabilities (tokens, V) of the target tokens of a batch, end marks included."""
    *inputs, labels = to_device(batch, torch.device("cpu"))
    return F.log_softmax(model(*inputs)[labels != PAD_ID], dim=-1)


@torch.inference_mode()
def closeness(original: nn.Module, model: nn.Module, batches: Sequence[Batch]) -> Closeness:
    """How close a model's predictions are to the original's."""
    divergence, same, count = 0.0, 0, 0
    for batch in batches:
        wanted, found = predictions(original, batch), predictions(model, batch)
        divergence += float(F.kl_div(found, wanted, reduction="sum", log_target=True))
        same += int((found.argmax(-1) == wanted.argmax(-1)).sum())
        count += len(wanted)
    return Closeness(divergence / count, same / count)


def own_batches(original: LoadedModel, sources: Sequence[str], outputs: Sequence[str]) -> list[Batch]:
    """Sources with the original's own outputs as targets, alike in length together."""
    encode = original.tokenizer.encode
    rows = [(encode(source), encode(output)) for source, output in zip(sources, outputs, strict=True) if output]
    rows.sort(key=lambda row: (len(row[1]), len(row[0])))
    parts = (rows[start : start + PREDICTED] for start in range(0, len(rows), PREDICTED))
    return [collate(*zip(*part, strict=True)) for part in parts]


def stored_bytes(model: str) -> int:
    """Bytes of a MODEL's file; of a directory those of its weights."""
    source = resolve_source(model)
    return (source.path / "model.safetensors" if source.kind == "directory" else source.path).stat().st_size


def same_share(outputs: Sequence[str], others: Sequence[str]) -> float:
    """The share of outputs that are equal, 0 to 1."""
    return sum(one == other for one, other in zip(outputs, others, strict=True)) / len(outputs)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("models", nargs="+")
    parser.add_argument("--original", required=True)
    parser.add_argument("--valid", nargs=2, type=Path, action="append", required=True, metavar=("SRC", "REF"))
    parser.add_argument("--test", nargs=2, type=Path, action="append", required=True, metavar=("SRC", "REF"))
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)

    read = [[read_file_lines(path) for path in paths] for paths in (*arguments.valid, *arguments.test)]
    sources = [line for lines, _ in read for line in lines]
    references = [line for _, lines in read for line in lines]
    guiding = sum(len(lines) for lines, _ in read[: len(arguments.valid)])

    def translate(model: LoadedModel) -> list[str]:
        options = {"batch": arguments.batch, "threads": arguments.threads}
        with open_translator(model, runtime="torch", **options) as translator:
            return translator.translate(sources)

    def bleu(outputs: Sequence[str]) -> Measure:
        return translation_measures(outputs, references)["bleu"]

    def test_scores(whole: Measure) -> list[float]:
        scores, start = [], guiding
        for lines, _ in read[len(arguments.valid) :]:
            scores.append(float(whole.compute(whole.statistics[start : start + len(lines)].sum(axis=0))))
            start += len(lines)
        return scores

    original = load_model(arguments.original)
    said = translate(original)
    score = bleu(said)
    batches = own_batches(original, sources[:guiding], said[:guiding])
    rows: list[dict[str, Any]] = [{"model": arguments.original, "tests": test_scores(score), "bleu": score.value}]
    first: Measure | None = None
    for model in arguments.models:
        loaded = load_model(model)
        outputs = translate(loaded)
        found = bleu(outputs)
        first = first or found
        rows.append(
            {
                "model": model,
                "bytes": stored_bytes(model),
                "tests": test_scores(found),
                "bleu": found.value,
                "to_original": paired_test(score, found).as_dict(),
                "to_first": paired_test(first, found).as_dict(),
                **asdict(closeness(original.model, loaded.model, batches)),
                "same": same_share(said, outputs),
            }
        )
    if arguments.json:
        print(json.dumps({"sentences": len(sources), "rows": rows}, indent=2))
        return
    show(rows)


def show(rows: Sequence[dict[str, Any]]) -> None:
    names = ("model", "bytes", "BLEU", "together", "to the original", "to the first", "divergence", "agree", "same")
    table = Table(*names)
    for row in rows:
        cells = [row["model"], "", ", ".join(f"{score:.2f}" for score in row["tests"]), f"{row['bleu']:.2f}"]
        if "bytes" in row:
            cells[1] = f"{row['bytes']:,}"
            cells += [difference(row["to_original"]), difference(row["to_first"]), f"{row['divergence']:.3f}"]
            cells += [f"{row['agreement']:.1%}", f"{row['same']:.1%}"]
        table.add_row(*cells)
    Console().print(table)


def difference(change: dict[str, float]) -> str:
    return f"{change['difference']:+.2f} ({change['low']:+.2f} to {change['high']:+.2f})"


if __name__ == "__main__":
    main()
