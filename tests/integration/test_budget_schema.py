"""The documented keys of ``budget --json`` are those that it prints, with the types that the page states."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from lite_nlp.budget.closed_form.counts import GROUPS, Convention
from lite_nlp.budget.closed_form.lengths import Varied
from lite_nlp.config.preset import dump_config, load_config
from tests.integration.conftest import LiteNlp
from tests.integration.small_bundle import alter_work, record_work, write_small_bundle

PAGE = Path(__file__).parents[2] / "docs" / "budget-schema.md"

TYPES = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "object": dict,
    "null": type(None),
}

#: Placeholders of the page and the names that they stand for; a part or verdict may be any word.
NAMES = {
    "GROUP": "|".join(GROUPS),
    "LENGTHS": "|".join(get_args(Varied)),
    "CONVENTION": "|".join(get_args(Convention)),
    "PART": r"[a-z_]+(?:\.[a-z_]+)?",
    "VERDICT": r"[a-z ]+",
    "COLUMN": "torch|onnx|executorch",
    "GRAPH": "encode|decode_step",
    "KIND": "matmul|convolution|contraction|layer_norm",
}


def _documented(section: str) -> list[tuple[str, re.Pattern[str], set[type]]]:
    """Every key of a section's table as a pattern of paths, with its types."""
    text = PAGE.read_text(encoding="utf-8").split(f"\n## {section}\n")[1].split("\n## ")[0]
    rows = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        keys = re.findall(r"`([^`]+)`", cells[0]) if line.startswith("| `") else []
        stated = [{TYPES[name] for name in alternatives.split(" or ")} for alternatives in _split(cells, keys)]
        for index, key in enumerate(keys):
            pattern = re.escape(key)
            for name, choices in NAMES.items():
                pattern = re.sub(rf"\b{name}\b", lambda _, choices=choices: f"(?:{choices})", pattern)
            rows.append((key, re.compile(pattern), stated[min(index, len(stated) - 1)]))
    return rows


def _split(cells: list[str], keys: list[str]) -> list[str]:
    return cells[1].split(", ") if keys else []


def _paths(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every leaf of a JSON value with its path, and every object that stands in a list of the page as such."""
    if isinstance(value, dict):
        yield prefix, value
        for key, inner in value.items():
            yield from _paths(inner, f"{prefix}.{key}" if prefix else key)
    elif isinstance(value, list):
        for inner in value:
            yield from _paths(inner, f"{prefix}[]")
    else:
        yield prefix, value


def _check(contents: list[dict[str, Any]], section: str) -> None:
    documented = _documented(section)
    used = set()
    for content in contents:
        for path, value in _paths(content):
            matching = [row for row in documented if row[1].fullmatch(path)]
            if isinstance(value, dict):
                # An object is described by its keys, or as a whole.
                used.update(key for key, _, types in matching if dict in types)
                continue
            inside = [key for key, pattern, types in documented if dict in types and _is_below(path, pattern)]
            assert matching or inside, f"{path} is not documented"
            for key, _, types in matching:
                used.add(key)
                # bool is an int to Python and int a float to JSON, but neither is what the page means.
                allowed = types | ({int} if float in types else set())
                assert type(value) in allowed, f"{path}: expected {types}, found {value!r}"
    assert {key for key, _, _ in documented} - used == set()


def _is_below(path: str, pattern: re.Pattern[str]) -> bool:
    parts = [match.start() for match in re.finditer(r"[.\[]", path)]
    return any(pattern.fullmatch(path[:end]) for end in parts) or any(
        pattern.fullmatch(path[: end + 2]) for end in parts if path[end : end + 2] == "[]"
    )


@pytest.fixture
def small_file(tmp_path: Path) -> Path:
    from lite_nlp.compress.lnlp.container import write_container

    path = tmp_path / "small.lnlp"
    write_container(
        path, tensors={}, files={"config.toml": dump_config(load_config("t2r-big-ende")).encode("utf-8")}, metadata={}
    )
    return path


def test_every_key_of_a_target_is_documented_and_the_other_way_round(
    lite_nlp: LiteNlp, small_file: Path, tmp_path: Path
) -> None:
    bundle = write_small_bundle(tmp_path / "small.zip", alter_work(record_work()))
    contents = [
        json.loads(lite_nlp("budget", bundle, "--src-len", "7", "--tgt-len", "9", "--json").out),
        lite_nlp.json("budget", "lite-transformer-iwslt-320"),
        lite_nlp.json("budget", "lite-transformer-wmt-496", "--beam", "4"),
        lite_nlp.json("budget", small_file, "--max-size", "0.5KB"),
    ]
    _check(contents, "A target")


def test_every_key_of_the_papers_is_documented_and_the_other_way_round(lite_nlp: LiteNlp) -> None:
    _check([lite_nlp.json("budget", "--papers")], "`--papers`")
