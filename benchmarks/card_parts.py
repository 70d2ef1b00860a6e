"""What the cards of shipped models have in common: figures by the command, rows of scores, samples, the curve."""

import argparse
import json
import math
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from lite_nlp import open_translator
from lite_nlp.decoding.lines import read_file_lines

__all__ = [
    "card_parser",
    "card_values",
    "filled_paragraphs",
    "lite_nlp",
    "sample_rows",
    "score_rows",
    "validation_curve",
]

#: Characters of a line of prose.
_WIDTH: Final = 120


def card_parser(description: str) -> argparse.ArgumentParser:
    """The arguments of every card: bundle, corpora, run, commands, remarks, and where the card goes."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("model", type=Path)
    parser.add_argument("--corpora", type=Path, required=True)
    parser.add_argument("--training-run", type=Path, required=True)
    parser.add_argument("--commands", type=Path, required=True)
    parser.add_argument("--note", default="", help="difference between the run and the stated commands")
    parser.add_argument("--processor", default="one to two cores of a server CPU")
    parser.add_argument("--out", type=Path, required=True)
    return parser


def card_values(
    arguments: argparse.Namespace, *, scores: dict[str, Any], fp32_scores: dict[str, Any], data: Sequence[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What every card has: for its JSON, and for its text.

    Args:
        arguments: Of ``card_parser``, and ``src`` and ``tgt``.
        scores: Of the bundle, by test set.
        fp32_scores: Of the weights before compression.
        data: What the weights derive from, and its licences.
    """
    budget = lite_nlp("budget", str(arguments.model))
    metrics = json.loads((arguments.training_run / "metrics.json").read_text(encoding="utf-8"))
    first = next(iter(scores.values()))
    facts = {
        "task": "translation",
        "languages": {"src": arguments.src, "tgt": arguments.tgt},
        "data": list(data),
        "params": budget["params"]["total"],
        "macs": budget["macs"]["paper"],
        "scores": scores,
        "fp32_scores": fp32_scores,
    }
    words = {
        "name": arguments.out.name,
        "paper_params": budget["params"]["paper"],
        "total_params": budget["params"]["total"],
        "macs": budget["macs"]["paper"],
        "size": arguments.model.stat().st_size,
        "scores": score_rows(scores),
        "fp32_size": (arguments.training_run / "model.safetensors").stat().st_size,
        "fp32_scores": score_rows(fp32_scores),
        "bleu_signature": first["bleu_signature"],
        "chrf_signature": first["chrf_signature"],
        "steps": metrics["steps"],
        "tgt_tokens": metrics["tgt_tokens"],
        "time": duration(metrics["seconds"]),
        # A distilled run counts what it learned from: the reference of a source and the translation that it drew.
        "train_pairs": metrics.get("distillation", {}).get("sources", metrics["train_pairs"]),
        "processor": arguments.processor,
        "commands": arguments.commands.read_text(encoding="utf-8").strip(),
        "curve": validation_curve(arguments.training_run),
        "note": arguments.note,
        "data": "\n".join(f"- {line}" for line in data),
    }
    return facts, words


def lite_nlp(*words: str) -> dict[str, Any]:
    """What the command prints with ``--json``."""
    command = [str(Path(sys.executable).with_name("lite-nlp")), *words, "--json"]
    content: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return content


def score_rows(scores: dict[str, Any]) -> str:
    """A line of a table for each test set: sentences, BLEU and chrF with their intervals."""
    return "\n".join(
        f"| {name} | {row['sentences']:,} | {row['bleu']:.1f} ({row['bleu_low']:.1f} to {row['bleu_high']:.1f}) "
        f"| {row['chrf']:.1f} ({row['chrf_low']:.1f} to {row['chrf_high']:.1f}) |"
        for name, row in scores.items()
    )


def sample_rows(model: str, source: Path, reference: Path, *, every: int, beam: int = 1) -> str:
    """A line of a table for every so many sentences: source, output and reference."""
    lines = [read_file_lines(path)[::every] for path in (source, reference)]
    with open_translator(model, beam=beam) as translator:
        outputs = translator.translate(lines[0])
    return "\n".join(f"| {' | '.join(row)} |" for row in zip(lines[0], outputs, lines[1], strict=True))


def validation_curve(run: Path) -> str:
    """Validation perplexity by step, as the run's log has it."""
    events = [json.loads(line) for line in (run / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    return ", ".join(
        f"{event['step']:,}: {math.exp(event['nll']):.2f}" for event in events if event["event"] == "valid"
    )


def duration(seconds: float) -> str:
    """Minutes, or hours from one on."""
    return f"{seconds / 60:.0f} minutes" if seconds < 3600 else f"{seconds / 3600:.1f} hours"


def filled_paragraphs(card: str) -> str:
    """The card with its prose in lines of one width; titles, tables, lists and commands as they are."""
    as_they_are = ("#", "|", "-", "```")
    blocks = (
        block if block.startswith(as_they_are) else textwrap.fill(block, _WIDTH, break_on_hyphens=False)
        for block in card.rstrip("\n").split("\n\n")
    )
    return "\n\n".join(blocks) + "\n"
