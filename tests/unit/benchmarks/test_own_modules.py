"""The benchmark of modules that are none of ours, with a few sentences and steps."""

import gzip
import json
import sys
from pathlib import Path

import pytest
import torch

from tests.unit.benchmarks.scripts import loaded


def test_each_module_is_compressed_with_channels_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sentences = [(f"word{number % 7} is {'good' if number % 2 else 'bad'}", number % 2) for number in range(40)]
    for name in ("train", "dev"):
        with gzip.open(tmp_path / f"{name}.tsv.gz", "wt", encoding="utf-8") as file:
            file.write("sentence\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in sentences))
    arguments = ["--out", str(tmp_path / "out"), "--fractions", "0.5", "--ratio", "4", "--steps", "8"]
    monkeypatch.setattr(sys, "argv", ["own_modules.py", str(tmp_path), *arguments, "--finetune-steps", "4", "--json"])
    threads = torch.get_num_threads()
    with loaded("own_modules") as found:
        monkeypatch.setattr(found["own_modules"], "_TYPES", 100)
        found["own_modules"].main()
    torch.set_num_threads(threads)
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["module"], row["structured"]) for row in rows] == [("TextCNN", 0.5), ("TextLSTM", 0.5)]
    for row in rows:
        assert row["bytes"][1] <= row["bytes"][0] / 4
        assert row["macs"][1] <= (1 - row["structured"]) * row["macs"][0]
        assert 0 <= row["accuracy"][1] <= 100
