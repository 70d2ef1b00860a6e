"""What a run has written."""

import json
from pathlib import Path

import torch
from safetensors.torch import load


def weights_at(out: Path, step: int) -> dict[str, torch.Tensor]:
    return load((out / "checkpoints" / f"step-{step:08d}" / "model.safetensors").read_bytes())


def events(out: Path, event: str) -> list[dict[str, float]]:
    lines = map(json.loads, (out / "log.jsonl").read_text().splitlines())
    return [line for line in lines if line["event"] == event]


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)
