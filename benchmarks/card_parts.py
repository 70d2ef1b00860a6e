"""What the cards of shipped models have in common: figures by the command, rows of scores, samples, the curve."""

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

from lite_nlp import open_translator
from lite_nlp.decoding.lines import read_file_lines

__all__ = ["lite_nlp", "sample_rows", "score_rows", "validation_curve"]


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
